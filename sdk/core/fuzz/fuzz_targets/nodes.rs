//! Any bytes as any node: nothing panics, what was read is written as it was, and a change is read back while the rest
//! stays.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zms_core::{
    meta::{ClusterMeta, Gate, GroupMeta, TopicMeta},
    migration::MigrationRecord,
    name::ClusterName,
    resolve::{cluster_spec, group_target, topic_target},
    route::ChangeId,
};

fuzz_target!(|data: &[u8]| {
    let record = MigrationRecord::parse("/r", data).ok().flatten();
    if let Ok(Some(cluster)) = ClusterMeta::parse("/c", data) {
        check_cluster(cluster, data);
    }
    if let Ok(Some(topic)) = TopicMeta::parse("/t", data) {
        let _ = topic_target(record.as_ref(), &topic, &["10.0.0.1".to_owned()]);
        check_topic(topic, data);
    }
    if let Ok(Some(group)) = GroupMeta::parse("/g", data) {
        let _ = group_target(record.as_ref(), &group, &["10.0.0.1".to_owned()]);
        check_group(group, data);
    }
});

fn name(name: &str) -> ClusterName {
    ClusterName::new(name).expect("a good name")
}

fn check_cluster(mut cluster: ClusterMeta, data: &[u8]) {
    assert_eq!(cluster.encode(), data);
    let _ = cluster_spec(&name("c"), &cluster, ChangeId(1));
    cluster.properties.insert("new\\ =:#".to_owned(), " value\r\n".to_owned());
    cluster.kafka_id = Some("id".to_owned());
    let read = ClusterMeta::parse("/c", &cluster.encode()).expect("readable").expect("not empty");
    assert_eq!((read.properties, read.kafka_id), (cluster.properties, cluster.kafka_id));
    assert_eq!((read.bootstrap, read.broker), (cluster.bootstrap, cluster.broker));
}

fn check_topic(mut topic: TopicMeta, data: &[u8]) {
    assert_eq!(topic.encode(), data);
    topic.gate = match topic.gate {
        Some(_) => None,
        None => Some(Gate { addresses: vec!["10.0.0.1".to_owned()], cluster: name("gray") }),
    };
    topic.cluster = name("new");
    let read = TopicMeta::parse("/t", &topic.encode()).expect("readable").expect("not empty");
    assert_eq!((read.cluster, read.gate), (topic.cluster, topic.gate));
    assert_eq!((read.statistics, read.producer), (topic.statistics, topic.producer));
}

fn check_group(mut group: GroupMeta, data: &[u8]) {
    assert_eq!(group.encode(), data);
    group.suspend = !group.suspend;
    let read = GroupMeta::parse("/g", &group.encode()).expect("readable").expect("not empty");
    assert_eq!(
        (read.suspend, read.broadcast, read.consume_from),
        (group.suspend, group.broadcast, group.consume_from)
    );
    assert_eq!(
        (read.topic, read.cluster, read.gate, read.consumer),
        (group.topic, group.cluster, group.gate, group.consumer)
    );
}
