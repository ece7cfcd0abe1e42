//! `doctor`.

use serde_json::Value;
use zms_integration_tests::services::{Shared, require_services};
use zms_sdk::registry::{ZooKeeper, ZooKeeperOptions, port::Registry};

use crate::operator::Operator;

/// Writes nodes as others write them: without any check.
fn write(operator: &Operator, nodes: &[(&str, &str)]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let registry = ZooKeeper::connect(ZooKeeperOptions::new(&operator.registry)).await.unwrap();
        for (path, data) in nodes {
            registry.create(path, data.to_string().into()).await.unwrap();
        }
        registry.close().await;
    });
}

/// Whether there is a finding of this severity about this subject with these words.
#[track_caller]
fn assert_found(report: &Value, severity: &str, subject: &str, words: &str) {
    let findings = report["findings"].as_array().unwrap();
    let is_it = |finding: &&Value| {
        finding["severity"] == severity
            && finding["subject"] == subject
            && finding["found"].as_str().unwrap().contains(words)
    };
    assert!(
        findings.iter().any(|finding| is_it(&finding)),
        "no {severity} of {subject} with {words:?}: {report:#}"
    );
    for finding in findings {
        for field in ["meaning", "action"] {
            assert_ne!(finding[field], "", "{finding}");
        }
    }
}

#[test]
fn a_sound_estate_has_no_error_and_no_warning() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("2");
    operator.done(&["cluster", "set", "a", "--kafka-id", Shared::get().a().id()]);
    let report = operator.json(&["doctor", "--output", "json"]);
    assert_eq!((&report["errors"], &report["warnings"]), (&0.into(), &0.into()), "{report:#}");
    assert_eq!(report["checked"], serde_json::json!({ "clusters": 2, "topics": 1, "groups": 1 }));
    assert_found(&report, "note", &format!("topic {name}"), "single replica");
    assert!(operator.done(&["doctor"]).contains("0 errors, 0 warnings, 1 note"));
}

#[test]
fn settings_that_no_client_can_be_opened_with_are_errors() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    write(
        &operator,
        &[
            (
                "/zms/cluster/small",
                r#"{"schema":1,"bootstrap":"127.0.0.1:9","properties":{"message.max.bytes":"200000"}}"#,
            ),
            (
                "/zms/cluster/large",
                r#"{"schema":1,"bootstrap":"127.0.0.1:9","properties":{"message.max.bytes":"99000000"}}"#,
            ),
            ("/zms/topic/slow", r#"{"schema":1,"cluster":"a","producer":{"linger":"40s"}}"#),
            ("/zms/topic/batches", r#"{"schema":1,"cluster":"small","producer":{"batchSize":"500000"}}"#),
            (
                "/zms/consumergroup/soon",
                r#"{"schema":1,"cluster":"a","topic":"slow","consumer":{"sessionTimeout":"soon"}}"#,
            ),
        ],
    );
    let report = operator.run(&["doctor", "--wait", "15s", "-o", "json"]).expect(20).json(&["doctor"]);
    for (severity, subject, words) in [
        ("error", "topic slow", "linger.ms is 40000 ms"),
        ("error", "topic batches", "on cluster small: a full batch could not be sent"),
        ("warning", "cluster large", "message.max.bytes is 99000000"),
        ("error", "group soon", "sessionTimeout=soon"),
    ] {
        assert_found(&report, severity, subject, words);
    }
}

#[test]
fn what_brokers_take_is_compared_with_what_producers_send() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let topic = Shared::unique("large");
    let create = ["topic", "create", &topic, "--cluster", "a", "--partitions", "1", "--register"];
    operator.done(
        &[&create[..], &["--config", "max.message.bytes=9000000", "--config", "compression.type=lz4"]]
            .concat(),
    );
    let report = operator.json(&["doctor", "--topic", &topic, "-o", "json"]);
    let subject = format!("topic {topic}");
    assert_found(&report, "note", &subject, "above replica.fetch.max.bytes of broker");
    assert_found(&report, "note", &subject, "compression.type is lz4, the producers' is none");
    assert_eq!(report["warnings"], 0, "{report:#}");

    operator.done(&["topic", "set", &topic, "--producer", "compression=lz4", "--force"]);
    operator.done(&["cluster", "set", "a", "--property", "message.max.bytes=5000000"]);
    let report = operator.json(&["doctor", "--topic", &topic, "-o", "json"]);
    assert_found(&report, "warning", "cluster a", "below the clients' of 5000000");
    assert!(!report.to_string().contains("compression.type is"), "{report:#}");
}

#[test]
fn another_cluster_at_the_address_comes_before_all_that_would_be_said_of_its_topics() {
    if !require_services() {
        return;
    }
    let operator = Operator::new();
    let bootstrap = Shared::get().a().bootstrap();
    operator.done(&["cluster", "add", "other", "--bootstrap", &bootstrap, "--kafka-id", "other"]);
    operator.done(&["topic", "add", "missing", "--cluster", "other"]);
    let report = operator.run(&["doctor", "-o", "json"]).expect(20).json(&["doctor"]);
    assert_eq!(report["findings"][0]["subject"], "cluster other", "{report:#}");
    assert_found(&report, "error", "cluster other", "the registry states clusterId other");
    assert_eq!(report["errors"], 1, "nobody is sent to create topics there: {report:#}");

    operator.done(&["cluster", "set", "other", "--kafka-id", ""]);
    let report = operator.run(&["doctor", "-o", "json"]).expect(20).json(&["doctor"]);
    assert_found(&report, "note", "cluster other", "does not state its Kafka cluster id");
    let note =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["severity"] == "note").unwrap();
    let command = format!("`zmsctl cluster set other --kafka-id {}`", Shared::get().a().id());
    assert!(note["action"].as_str().unwrap().starts_with(&command), "{note}");
    assert_found(&report, "error", "topic missing", "does not exist on cluster other");
}

#[test]
fn everything_that_is_wrong_is_found_at_once() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let create = |name: &str, more: &[&str]| {
        let topic = Shared::unique(name);
        operator.done(
            &[&["topic", "create", &topic, "--cluster", "a", "--partitions", "1", "--register"], more]
                .concat(),
        );
        topic
    };
    let small = create("small", &["--config", "max.message.bytes=5000"]);
    let strict = create("strict", &["--config", "min.insync.replicas=2"]);
    let closed = create("closed", &["--config", "max.message.bytes=0"]);
    let busy = create("busy", &[]);
    operator.done(&["cluster", "add", "dead1", "--bootstrap", "127.0.0.1:9"]);
    operator.done(&["cluster", "add", "dead2", "--bootstrap", "127.0.0.1:9"]);
    operator.done(&[
        "cluster",
        "add",
        "twin",
        "--bootstrap",
        &Shared::get().b().bootstrap(),
        "--kafka-id",
        "other",
    ]);
    let java = format!("/zms/topic/{busy}/10.0.0.1||java-pod||2.1||2024-05-01T10:00:00||7");
    write(
        &operator,
        &[
            (
                "/zms/cluster/plain",
                r#"{"schema":1,"bootstrap":"127.0.0.1:9","properties":{"sasl.password":"hunter2","client.id":"x"}}"#,
            ),
            ("/zms/cluster/empty", ""),
            ("/zms/cluster/servers", "brokerType=kafka"),
            ("/zms/topic/odd", r#"{"schema":1,"cluster":7}"#),
            ("/zms/topic/lost", r#"{"schema":1,"cluster":"gone"}"#),
            ("/zms/topic/ghost", "clusterName=a\ngatedIps=10.0.0.1\ngatedCluster=nowhere"),
            ("/zms/consumergroup/stray", "clusterName=b\nbindingTopic=ghost"),
            ("/zms/consumergroup/unbound", "clusterName=a\nbindingTopic=none\nconsumer.workers=4"),
            (&java, ""),
        ],
    );
    let ended = operator.run(&["doctor", "--wait", "15s", "-o", "json"]).expect(20);
    let report = ended.json(&["doctor"]);
    for (severity, subject, words) in [
        ("error", "cluster dead1", "does not answer within 15s"),
        ("error", "cluster dead2", "does not answer within 15s"),
        ("error", "cluster twin", "the registry states clusterId other"),
        ("warning", "clusters b and twin", "are the same Kafka cluster"),
        ("warning", "cluster plain", "sasl.password stands in the registry in plain text"),
        ("warning", "cluster plain", "client.id is not used"),
        ("warning", "cluster empty", "the node is empty"),
        ("error", "cluster servers", "has no bootstrap servers"),
        ("error", "topic odd", "/zms/topic/odd: field cluster"),
        ("error", "topic lost", "cluster gone, which is not in the registry"),
        ("error", "topic ghost", "gate leads to cluster nowhere"),
        ("error", "topic ghost", "does not exist on cluster a"),
        ("error", "group stray", "reads topic ghost on cluster b, but the topic lives on a"),
        ("error", "group unbound", "reads topic none, which is not in the registry"),
        ("warning", "group unbound", "workers is not used"),
        ("warning", &format!("topic {small}"), "max.message.bytes is 5000"),
        ("error", &format!("topic {strict}"), "min.insync.replicas is 2, with 1 replica"),
        ("error", &format!("topic {closed}"), "is closed on cluster a"),
    ] {
        assert_found(&report, severity, subject, words);
    }
    assert!(!format!("{ended:?}").contains("hunter2"), "a secret is never shown");
    assert!(!ended.stdout.contains("java-pod"), "nothing is wrong with it");

    let one = operator.json(&["doctor", "--topic", &small, "-o", "json"]);
    assert_eq!(one["checked"], serde_json::json!({ "clusters": 1, "topics": 1, "groups": 0 }));
    assert_eq!(one["errors"], 0, "what is wrong elsewhere is no matter of this topic");
    let cluster = operator.run(&["doctor", "--cluster", "b", "-o", "json"]).expect(20).json(&["doctor"]);
    assert_found(&cluster, "error", "group stray", "but the topic lives on a");
}

#[test]
fn a_registry_that_does_not_answer_or_is_empty_is_a_finding_too() {
    if !require_services() {
        return;
    }
    let operator = Operator::new();
    let empty = operator.json(&["doctor", "-o", "json"]);
    assert_found(&empty, "warning", "registry", "holds no cluster, no topic and no group");
    operator.run(&["doctor", "--topic", "nowhere"]).expect(3);
    operator.run(&["doctor", "--cluster", "nowhere"]).expect(3);
    let silent = Operator { registry: "127.0.0.1:9".to_owned() };
    let report = silent.run(&["doctor", "--wait", "1s", "-o", "json"]).expect(6).json(&["doctor"]);
    assert_found(&report, "error", "registry", "unavailable");
}
