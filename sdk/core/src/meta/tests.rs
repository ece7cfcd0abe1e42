use proptest::prelude::*;

use super::*;
use crate::{
    name::{ClusterName, TopicName},
    route::ConsumeFrom,
};

const CLUSTER: &str = "/zms/cluster/a";
const TOPIC: &str = "/zms/topic/orders";
const GROUP: &str = "/zms/consumergroup/billing";

fn cluster(data: &str) -> Result<ClusterMeta, MetaError> {
    ClusterMeta::parse(CLUSTER, data.as_bytes()).map(|meta| meta.expect("data"))
}

fn topic(data: &str) -> Result<TopicMeta, MetaError> {
    TopicMeta::parse(TOPIC, data.as_bytes()).map(|meta| meta.expect("data"))
}

fn group(data: &str) -> Result<GroupMeta, MetaError> {
    GroupMeta::parse(GROUP, data.as_bytes()).map(|meta| meta.expect("data"))
}

fn name(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

fn text(data: &bytes::Bytes) -> &str {
    std::str::from_utf8(data).unwrap()
}

#[test]
fn zms_nodes_are_read() {
    let meta = cluster("bootAddr=h1:9092,h2:9092\r\nbrokerType=Kafka\r\nserverIps=").unwrap();
    assert_eq!((meta.bootstrap.as_str(), &meta.broker), ("h1:9092,h2:9092", &BrokerKind::Kafka));

    let meta = topic(
        "clusterName=a\ntype=topic\ngatedIps=10.1.1.1, 10.1.1.2\ngatedCluster=b\nstatisticsLogger=disk",
    )
    .unwrap();
    assert_eq!((&meta.cluster, &meta.statistics), (&name("a"), &StatisticsLogger::Disk));
    let gate = Gate { addresses: vec!["10.1.1.1".to_owned(), "10.1.1.2".to_owned()], cluster: name("b") };
    assert_eq!(meta.gate, Some(gate));

    let data = "clusterName=a\nbindingTopic=orders\nbroadcast=TRUE\nconsumeFrom=latest\nsuspend=\ngatedIps=\ngatedCluster=";
    let meta = group(data).unwrap();
    assert_eq!((&meta.cluster, meta.topic.as_str()), (&name("a"), "orders"));
    assert_eq!((meta.broadcast, meta.consume_from, meta.suspend), (true, ConsumeFrom::Latest, false));
    assert_eq!(meta.gate, None);
}

#[test]
fn json_nodes_are_read() {
    let data = r#"{"schema":1,"bootstrap":"h1:9092","broker":"kafka","clusterId":"X",
        "properties":{"security.protocol":"SASL_SSL","socket.timeout.ms":5000,"socket.nagle.disable":true}}"#;
    let meta = cluster(data).unwrap();
    assert_eq!(meta.kafka_id.as_deref(), Some("X"));
    let values: Vec<&str> = meta.properties.values().map(String::as_str).collect();
    assert_eq!(values, ["SASL_SSL", "true", "5000"]);

    let data = r#"{"schema":1,"cluster":"a","gate":{"addresses":["::1"],"cluster":"b"},"producer":{"linger":"20ms"}}"#;
    let meta = topic(data).unwrap();
    assert_eq!(meta.producer["linger"], "20ms");
    assert!(meta.gate.unwrap().admits(&["0:0:0:0:0:0:0:1".to_owned()]));

    let meta =
        group(r#"{"schema":1,"topic":"orders","cluster":"a","suspend":true,"consumeFrom":null}"#).unwrap();
    assert_eq!((meta.suspend, meta.consume_from), (true, ConsumeFrom::Earliest));
}

#[test]
fn a_time_to_begin_at_is_read_in_both_formats_and_left_as_it_was_written() {
    let properties = "clusterName=a\nbindingTopic=orders\nconsumeFrom=1970-01-01T00:00:01Z";
    let json = r#"{"schema":1,"topic":"orders","cluster":"a","consumeFrom":"1970-01-01T00:00:01Z"}"#;
    for data in [properties, json] {
        let mut meta = group(data).unwrap();
        assert_eq!(meta.consume_from, ConsumeFrom::Timestamp(1000));
        meta.suspend = true;
        assert!(text(&meta.encode()).contains("1970-01-01T00:00:01Z"));
        meta.consume_from = ConsumeFrom::Timestamp(2000);
        assert_eq!(group(text(&meta.encode())).unwrap().consume_from, ConsumeFrom::Timestamp(2000));
    }
}

#[test]
fn empty_data_is_not_there_yet() {
    for data in [&b""[..], b" \r\n"] {
        assert_eq!(ClusterMeta::parse(CLUSTER, data), Ok(None));
        assert_eq!(TopicMeta::parse(TOPIC, data), Ok(None));
        assert_eq!(GroupMeta::parse(GROUP, data), Ok(None));
    }
}

#[test]
fn a_gate_matches_whole_entries_only() {
    let meta = topic("clusterName=a\ngatedIps=10.1.1.10 10.2.0.1\ngatedCluster=b").unwrap();
    let gate = meta.gate.unwrap();
    assert!(gate.admits(&["10.9.9.9".to_owned(), "10.1.1.10".to_owned()]));
    assert!(!gate.admits(&["10.1.1.1".to_owned()]));
    assert!(!gate.admits(&["0.1.1.10".to_owned(), String::new()]));
}

#[test]
fn half_a_gate_is_none_and_stays_in_the_node() {
    let meta = topic("clusterName=a\ngatedIps=\ngatedCluster=b").unwrap();
    assert_eq!(meta.gate, None);
    assert_eq!(text(&meta.encode()), "clusterName=a\ngatedIps=\ngatedCluster=b");
}

#[test]
fn a_list_of_topics_is_refused_not_half_read() {
    let error = group("clusterName=a\nbindingTopic=orders,refunds").unwrap_err().to_string();
    assert!(
        error.contains(GROUP) && error.contains("bindingTopic") && error.contains("orders,refunds"),
        "{error}"
    );
    assert!(error.contains("one topic"), "{error}");
}

#[test]
fn errors_name_path_and_field_in_the_nodes_own_spelling() {
    let found = [
        topic("type=topic").unwrap_err(),
        topic(r#"{"schema":1}"#).unwrap_err(),
        topic(r#"{"cluster":"a"}"#).unwrap_err(),
        topic(r#"{"schema":1,"cluster":"a b"}"#).unwrap_err(),
        topic(r#"{"schema":1,"cluster":"a","gate":{"addresses":"x"}}"#).unwrap_err(),
        group("clusterName=a\nbindingTopic=t\nbroadcast=maybe").unwrap_err(),
        group("clusterName=a\nbindingTopic=t\nconsumeFrom=middle").unwrap_err(),
    ];
    let fields =
        ["clusterName", "cluster", "schema", "cluster", "gate.addresses", "broadcast", "consumeFrom"];
    for (error, field) in found.iter().zip(fields) {
        let (MetaError::Missing { field: named, .. } | MetaError::Invalid { field: named, .. }) = error
        else {
            panic!("{error}");
        };
        assert_eq!(named, field);
        assert!(error.to_string().starts_with("/zms/"), "{error}");
    }
}

#[test]
fn a_newer_schema_is_refused() {
    let error = cluster(r#"{"schema":2,"bootstrap":"h"}"#).unwrap_err();
    assert!(matches!(&error, MetaError::Schema { found, .. } if found == "2"), "{error}");
}

#[test]
fn too_much_data_is_refused() {
    let data = vec![b'#'; MAX_SIZE + 1];
    assert!(matches!(ClusterMeta::parse(CLUSTER, &data), Err(MetaError::TooLarge { .. })));
    assert!(!matches!(ClusterMeta::parse(CLUSTER, &data[1..]), Err(MetaError::TooLarge { .. })));
}

#[test]
fn neither_errors_nor_debug_show_property_values() {
    let error = cluster(r#"{"schema":1,"properties":{"sasl.password":["hunter2"]}}"#).unwrap_err();
    assert!(error.to_string().contains("properties.sasl.password"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let meta = cluster("bootAddr=h\nproperties.sasl.password=hunter2").unwrap();
    assert_eq!(meta.properties["sasl.password"], "hunter2");
    assert!(!format!("{meta:?}").contains("hunter2"));
}

#[test]
fn a_change_keeps_the_rest_of_a_properties_node() {
    let mut meta =
        topic("# owner: team-x\nclusterName = a\nowner: 张三\ntype=topic\nproducer.linger=5ms").unwrap();
    meta.cluster = name("b");
    meta.producer.insert("profile".to_owned(), "throughput".to_owned());
    let expected = "# owner: team-x\nclusterName=b\nowner: 张三\ntype=topic\nproducer.linger=5ms\nproducer.profile=throughput";
    assert_eq!(text(&meta.encode()), expected);
}

#[test]
fn a_change_keeps_the_rest_of_a_json_node() {
    let mut meta = topic(r#"{ "owner": {"id": 12345678901234567890123}, "schema": 1, "cluster": "a",
        "gate": {"addresses": ["h"], "cluster": "b", "note": 0.10}, "producer": {"batchSize": 1000, "linger": "1ms"} }"#)
    .unwrap();
    meta.cluster = name("c");
    meta.gate = None;
    meta.producer.remove("linger");
    let expected = r#"{"owner":{"id":12345678901234567890123},"schema":1,"cluster":"c","gate":{"note":0.10},"producer":{"batchSize":1000}}"#;
    assert_eq!(text(&meta.encode()), expected);
}

#[test]
fn an_unchanged_node_is_written_byte_for_byte() {
    for data in [
        "clusterName:a\r\nbindingTopic t\r\nbroadcast=True\r\n",
        " {\"schema\":1,\n\"topic\":\"t\", \"cluster\":\"a\"}",
    ] {
        assert_eq!(text(&group(data).unwrap().encode()), data);
    }
}

#[test]
fn new_nodes_are_written_as_zms_writes_them() {
    let topic = TopicMeta::new(TOPIC, Format::Properties, name("a"));
    assert_eq!(text(&topic.encode()), "clusterName=a\ntype=topic");
    let mut group = GroupMeta::new(GROUP, Format::Properties, TopicName::new("orders").unwrap(), name("a"));
    group.broadcast = true;
    let expected =
        "bindingTopic=orders\nclusterName=a\ntype=consumergroup\nconsumeFrom=earliest\nbroadcast=true";
    assert_eq!(text(&group.encode()), expected);
    let cluster = ClusterMeta::new(CLUSTER, Format::Properties, "h1:9092,h2:9092");
    assert_eq!(text(&cluster.encode()), "brokerType=kafka\nbootAddr=h1:9092,h2:9092");
}

fn consume_from() -> impl Strategy<Value = ConsumeFrom> {
    prop_oneof![
        Just(ConsumeFrom::Earliest),
        Just(ConsumeFrom::Latest),
        (0..i64::MAX).prop_map(ConsumeFrom::Timestamp)
    ]
}

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9.\\-=:#!中\\\\]{1,8}"
}

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::Json), Just(Format::Properties)]
}

fn gate() -> impl Strategy<Value = Option<Gate>> {
    let gate = (prop::collection::vec("[0-9a-f.:]{1,8}", 1..4), word());
    prop::option::of(gate.prop_filter_map("a cluster's name", |(addresses, cluster)| {
        Some(Gate { addresses, cluster: ClusterName::new(cluster).ok()? })
    }))
}

fn table() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    prop::collection::btree_map(word(), any::<String>(), 0..4)
}

/// Some node text, nearly valid.
fn node_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "clusterName",
        "bindingTopic",
        "bootAddr",
        "gatedIps",
        "=",
        "a",
        "\n",
        "\\",
        "{",
        "}",
        "\"schema\":1",
        ",",
        "\"cluster\":\"a\"",
        "\"gate\":",
        "\"topic\":\"t\"",
        "\"properties\":",
        "producer.",
        "null",
        "[",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn a_written_group_reads_back(format in format(), gate in gate(), flags in any::<(bool, bool)>(), from in consume_from(), consumer in table()) {
        let mut meta = GroupMeta::new(GROUP, format, TopicName::new("t").unwrap(), name("a"));
        meta.gate = gate;
        (meta.broadcast, meta.suspend) = flags;
        meta.consume_from = from;
        meta.consumer = consumer;
        let read = GroupMeta::parse(GROUP, &meta.encode()).unwrap().unwrap();
        prop_assert_eq!((&read.topic, &read.cluster, &read.gate), (&meta.topic, &meta.cluster, &meta.gate));
        prop_assert_eq!((read.broadcast, read.suspend, read.consume_from), (meta.broadcast, meta.suspend, meta.consume_from));
        prop_assert_eq!(&read.consumer, &meta.consumer);
        prop_assert_eq!(read.encode(), meta.encode());
    }

    #[test]
    fn a_written_cluster_reads_back(format in format(), id in prop::option::of(word()), properties in table()) {
        let mut meta = ClusterMeta::new(CLUSTER, format, "h:9092");
        meta.kafka_id = id;
        meta.properties = properties;
        let read = ClusterMeta::parse(CLUSTER, &meta.encode()).unwrap().unwrap();
        prop_assert_eq!((&read.bootstrap, &read.kafka_id, &read.properties), (&meta.bootstrap, &meta.kafka_id, &meta.properties));
    }

    #[test]
    fn unknown_json_fields_survive(key in "x[a-z]{0,5}", value in any::<(String, i64, bool)>()) {
        let unknown = serde_json::json!({ "t": value.0, "n": value.1, "b": [value.2, null] });
        let mut data = serde_json::json!({ "schema": 1, "cluster": "a" });
        data[&key] = unknown.clone();
        let mut meta = topic(&data.to_string()).unwrap();
        meta.cluster = name("b");
        let written: serde_json::Value = serde_json::from_slice(&meta.encode()).unwrap();
        prop_assert_eq!(&written[&key], &unknown);
        prop_assert_eq!(&written["cluster"], "b");
    }

    #[test]
    fn arbitrary_data_never_panics(data in prop_oneof![node_like(), prop::collection::vec(any::<u8>(), 0..200)]) {
        for format in [Format::Json, Format::Properties] {
            let mut changed = TopicMeta::parse(TOPIC, &data).ok().flatten()
                .unwrap_or_else(|| TopicMeta::new(TOPIC, format, name("z")));
            changed.gate = Some(Gate { addresses: vec!["h".to_owned()], cluster: name("g") });
            let read = TopicMeta::parse(TOPIC, &changed.encode()).unwrap().unwrap();
            prop_assert_eq!(read.gate, changed.gate);
        }
        let _ = ClusterMeta::parse(CLUSTER, &data).map(|meta| meta.map(|meta| meta.encode()));
        let _ = GroupMeta::parse(GROUP, &data).map(|meta| meta.map(|meta| meta.encode()));
    }
}
