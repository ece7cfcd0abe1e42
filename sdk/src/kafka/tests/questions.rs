//! Questions to a cluster, and refused configurations.

use super::*;
use crate::engine::port::{FailureKind, LogRange, NewTopic, OpenError, TopicInfo};

#[test]
fn clusters_have_ids_of_their_own() {
    let (a, b) = (cluster_with("orders", 1), cluster_with("orders", 1));
    let id = admin(&a).cluster_id(PATIENCE).unwrap();
    assert_eq!(admin(&a).cluster_id(PATIENCE).unwrap(), id);
    assert_ne!(admin(&b).cluster_id(PATIENCE).unwrap(), id);
}

#[test]
fn a_topic_is_described_and_a_missing_one_is_none() {
    let cluster = MockCluster::start(2).unwrap();
    cluster.create_topic("orders", 3).unwrap();
    let admin = admin(&cluster);
    let info = TopicInfo { partitions: 3, leaderless: Vec::new(), replication: 2 };
    assert_eq!(admin.topic(&topic("orders"), PATIENCE).unwrap(), Some(info));
    assert_eq!(admin.topic(&topic("other"), PATIENCE).unwrap(), None);
    let error = admin.log_ranges(&topic("other"), PATIENCE).unwrap_err();
    assert_eq!(error.kind, FailureKind::UnknownTopic);
}

#[test]
fn logs_have_ranges() {
    let cluster = cluster_with("orders", 2);
    fill(&cluster, "orders", 1, 0..7);
    let ranges = admin(&cluster).log_ranges(&topic("orders"), PATIENCE).unwrap();
    assert_eq!(ranges, [LogRange { low: 0, high: 0 }, LogRange { low: 0, high: 7 }]);
}

#[test]
fn asking_for_a_groups_positions_does_not_disturb_the_group() {
    let cluster = cluster_with("orders", 2);
    let mut member = Member::join_steady(&cluster, "orders", Listener::passive());
    member.hold(2);
    let assignments = member.listener.assignments();
    for _ in 0..3 {
        assert_eq!(admin(&cluster).committed(&group(), &topic("orders"), PATIENCE).unwrap(), []);
        for _ in 0..10 {
            member.poll();
        }
    }
    assert_eq!(member.listener.assignments(), assignments);
    assert_eq!(member.listener.held().len(), 2);
    member.client.close();
}

#[test]
fn no_answer_is_an_error_within_the_limit() {
    let cluster = cluster_with("orders", 1);
    cluster.all_brokers_down().unwrap();
    let admin = admin(&cluster);
    let limit = Duration::from_millis(200);
    let new = NewTopic {
        topic: topic("new"),
        partitions: 1,
        replication: None,
        settings: BTreeMap::from([("retention.ms".to_owned(), "1000".to_owned())]),
    };
    let started = Instant::now();
    let errors = [
        admin.cluster_id(limit).map(drop).unwrap_err(),
        admin.topic(&topic("orders"), limit).map(drop).unwrap_err(),
        admin.log_ranges(&topic("orders"), limit).map(drop).unwrap_err(),
        admin.committed(&group(), &topic("orders"), limit).map(drop).unwrap_err(),
        admin.create_topic(&new, limit).unwrap_err(),
        admin.topic_settings(&topic("orders"), limit).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
    }
    assert!(started.elapsed() < PATIENCE);
}

fn opened(properties: &[(&str, &str)]) -> Result<(), OpenError> {
    let cluster = cluster_with("orders", 1);
    let spec =
        ProducerSpec { cluster: spec(&cluster), client_id: "test".to_owned(), properties: owned(properties) };
    KafkaEngine::new().open_producer(&spec).map(drop)
}

fn refused(properties: &[(&str, &str)]) -> OpenError {
    opened(properties).unwrap_err()
}

#[test]
fn a_wait_before_reconnecting_above_our_longest_is_taken() {
    opened(&[("reconnect.backoff.ms", "5000")]).unwrap();
    opened(&[("reconnect.backoff.max.ms", "60000")]).unwrap();
    refused(&[("reconnect.backoff.ms", "5000"), ("reconnect.backoff.max.ms", "2000")]);
}

#[test]
fn a_refused_configuration_says_why() {
    let unknown = refused(&[("no.such.thing", "1")]).to_string();
    assert!(unknown.contains("no.such.thing") && unknown.contains("mock"), "{unknown}");
    let range = refused(&[("linger.ms", "-7")]).to_string();
    assert!(range.contains("linger.ms"), "{range}");
}

#[test]
fn no_value_that_may_be_secret_is_shown() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"hunter2").unwrap();
    let reference = format!("${{file:{}}}", file.path().display());
    let error = refused(&[("acks", &reference)]);
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("acks") && !shown.contains("hunter2"), "{shown}");
    let missing = refused(&[("sasl.password", "${env:ZMS_SURELY_NOT_SET}")]);
    assert!(matches!(
        missing,
        OpenError::Secret { property, reference, .. }
            if property == "sasl.password" && reference == "${env:ZMS_SURELY_NOT_SET}"
    ));
}

#[test]
fn what_the_sdk_relies_on_cannot_be_set_otherwise() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..5);
    let mut properties = FAST_GROUP_PROPERTIES.to_vec();
    properties.extend([
        ("enable.auto.commit", "true"),
        ("enable.auto.offset.store", "true"),
        ("auto.commit.interval.ms", "10"),
        ("group.id", "other"),
    ]);
    let mut member = Member::join_with(&cluster, "orders", Listener::passive(), &properties);
    member.receive(5);
    member.client.close();
    assert_eq!(admin(&cluster).committed(&group(), &topic("orders"), PATIENCE).unwrap(), []);
}
