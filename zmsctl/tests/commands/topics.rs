//! `topic create`, and the global options.

use zms_integration_tests::services::{Shared, require_services};

use crate::operator::{Operator, cluster_a, end, interrupt};
use zms_sdk::TopicName;

#[test]
fn a_topic_is_created_on_the_cluster_and_registered_once() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = Shared::unique("created");
    let create = ["topic", "create", &name, "--cluster", "a", "--partitions", "3"];
    let settings = ["--config", "retention.ms=60000", "--register", "--output", "json"];
    let created = operator.json(&[&create[..], &settings].concat());
    assert_eq!((&created["cluster"], &created["registeredOn"]), (&"a".into(), &"a".into()));
    assert_eq!(operator.json(&["topic", "show", &name, "-o", "json"])["cluster"], "a");

    let topic = TopicName::new(&name).unwrap();
    let limit = std::time::Duration::from_secs(30);
    assert_eq!(cluster_a().topic(&topic, limit).unwrap().unwrap().partitions, 3);
    assert_eq!(cluster_a().topic_settings(&topic, limit).unwrap()["retention.ms"], "60000");

    let again = operator.run(&create).expect(4);
    assert!(again.stderr.contains("exists on cluster a already, with 3 partitions"), "{again:?}");
    // Where it is to move: created there, registered as before.
    let elsewhere = ["topic", "create", &name, "--cluster", "b", "--partitions", "3"];
    operator.run(&[&elsewhere[..], &["--register"]].concat()).expect(5);
    let created = operator.json(&[&elsewhere[..], &["-o", "json"]].concat());
    assert_eq!((&created["cluster"], &created["registeredOn"]), (&"b".into(), &"a".into()));
}

#[test]
fn a_topic_that_cannot_be_created_is_refused_with_the_reason() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = Shared::unique("refused");
    let create =
        |more: &[&str]| operator.run(&[&["topic", "create", &name, "--partitions", "1"], more].concat());
    assert!(create(&[]).expect(2).stderr.contains("--cluster"));
    create(&["--cluster", "nowhere"]).expect(3);
    assert!(
        create(&["--cluster", "a", "--replication", "9"])
            .expect(5)
            .stderr
            .contains("InvalidReplicationFactor")
    );
    assert!(create(&["--cluster", "a", "--config", "no.such=1"]).expect(5).stderr.contains("InvalidConfig"));
    operator.done(&["cluster", "add", "dead", "--bootstrap", "127.0.0.1:9"]);
    create(&["--cluster", "dead", "--wait", "5s", "--register"]).expect(8);
    operator.run(&["topic", "show", &name]).expect(3);
}

#[test]
fn a_cluster_is_added_with_the_id_that_it_states() {
    if !require_services() {
        return;
    }
    let operator = Operator::new();
    let (bootstrap, id) = (Shared::get().a().bootstrap(), Shared::get().a().id().to_owned());
    let add = |name: &str, more: &[&str]| {
        operator
            .run(&[&["cluster", "add", name, "--bootstrap", &bootstrap, "-o", "json"], more].concat())
            .expect(0)
    };
    let id_of = |name: &str| operator.json(&["cluster", "show", name, "-o", "json"])["clusterId"].clone();
    assert_eq!(add("asked", &[]).json(&[])["clusterId"], *id);
    assert_eq!(id_of("asked"), *id);
    assert_eq!(add("given", &["--kafka-id", "other"]).json(&[])["clusterId"], "other");
    assert!(add("unasked", &["--no-kafka-id"]).json(&[])["clusterId"].is_null());
    let silent =
        operator.run(&["cluster", "add", "silent", "--bootstrap", "127.0.0.1:9", "--wait", "5s"]).expect(0);
    assert!(
        silent.stderr.contains("without a Kafka id") && silent.stderr.contains("doctor --cluster silent"),
        "{silent:?}"
    );
    assert!(id_of("silent").is_null());
}

#[test]
fn what_is_next_after_a_move_by_hand_is_said_beside_the_answer() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    for line in
        ["topic add orders --cluster a", "group add billing --topic orders", "group add audit --topic orders"]
    {
        operator.done(&line.split(' ').collect::<Vec<_>>());
    }
    let moved =
        operator.run(&["topic", "set", "orders", "--cluster", "b", "--force", "-o", "json"]).expect(0);
    assert_eq!(moved.json(&[])["cluster"], "b");
    for group in ["audit", "billing"] {
        let next = format!("group {group} still reads from a; next: zmsctl group set {group} --cluster b");
        assert!(moved.stderr.contains(&next), "{moved:?}");
    }
    let followed = operator.run(&["group", "set", "audit", "--cluster", "b"]).expect(0);
    assert!(followed.stderr.contains("then read from b"), "{followed:?}");
    let again = operator.run(&["topic", "set", "orders", "--cluster", "b"]).expect(0);
    assert!(
        !again.stderr.contains("audit") && again.stderr.contains("billing still reads from a"),
        "{again:?}"
    );
}

#[test]
fn a_credential_is_used_and_never_shown() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    operator.done(&["cluster", "list", "--zk-auth", "svc:hunter2"]);
    for arguments in [&["cluster", "list", "--zk-auth", "hunter2"][..], &["produce", "--zk-auth", "hunter2"]]
    {
        let ended = operator.run(arguments).expect(2);
        assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
    }
    let mut help = operator.command(&["cluster", "list", "--help"]);
    let help = end(help.env("ZMS_ZK_AUTH", "svc:hunter2").spawn().unwrap());
    assert!(help.stdout.contains("ZMS_ZK_AUTH") && !help.stdout.contains("hunter2"), "{help:?}");
}

#[test]
fn the_lag_of_a_group_is_told_by_partition() {
    if !require_services() {
        return;
    }
    let operator = Operator::with_clusters();
    let name = operator.topic_and_group("2");
    operator.feed(&["produce", &name], "one\ntwo\nthree\n").expect(0);
    let lag = || operator.json(&["group", "lag", &name, "-o", "json"]);
    let sum = |of: &serde_json::Value, field: &str| -> i64 {
        of.as_array().unwrap().iter().filter_map(|row| row[field].as_i64()).sum()
    };
    let behind = lag();
    assert_eq!((behind.as_array().unwrap().len(), sum(&behind, "lag")), (2, 3), "{behind}");
    assert!(behind[0]["committed"].is_null() && behind[0]["member"].is_null());
    operator.done(&["consume", &name, "--max", "3"]);
    let done = lag();
    assert_eq!((sum(&done, "lag"), sum(&done, "committed")), (0, 3), "{done}");

    let member = operator.spawn(&["consume", &name]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let held = loop {
        let held = lag();
        if held.as_array().unwrap().iter().all(|row| row["clientId"] == "zmsctl") {
            break held;
        }
        assert!(std::time::Instant::now() < deadline, "{held}");
    };
    assert!(held[1]["member"].as_str().is_some_and(|id| id.starts_with("zmsctl")), "{held}");
    interrupt(&member);
    end(member).expect(0);
}
