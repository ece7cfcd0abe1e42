//! The Kafka clusters do what tests will rely on.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use zms_integration_tests::services::{KafkaCluster, Shared, require_services};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_broker_keeps_its_messages_over_kill_and_restart_and_stands_still_while_paused() {
    if !require_services() {
        return;
    }
    let cluster = KafkaCluster::start(1).unwrap();
    let (bootstrap, broker) = (cluster.bootstrap(), cluster.broker(0));
    cluster.create_topic("kept", 2).unwrap();
    assert!(cluster.create_topic("kept", 2).is_err(), "a topic that exists is not created again");
    send(&bootstrap, "kept", 100).unwrap();

    let first = broker.pid().unwrap();
    broker.kill();
    assert!(cluster.pids().is_empty());
    broker.restart().unwrap();
    assert_ne!(broker.pid(), Some(first));
    assert_eq!(cluster.bootstrap(), bootstrap);
    assert_eq!(count(&bootstrap, "kept", 100), 100);
    assert_eq!(cluster_id(&bootstrap), cluster.id());

    broker.pause().unwrap();
    assert!(send(&bootstrap, "kept", 1).is_err());
    broker.resume().unwrap();
    send(&bootstrap, "kept", 10).unwrap();

    broker.stop().unwrap();
    broker.restart().unwrap();
    assert!(count(&bootstrap, "kept", 110) >= 110);
}

#[test]
fn a_cut_proxy_hides_a_broker_from_clients_but_not_from_the_direct_listener() {
    if !require_services() {
        return;
    }
    let cluster = KafkaCluster::builder().proxied().start().unwrap();
    cluster.create_topic("hidden", 1).unwrap();
    send(&cluster.bootstrap(), "hidden", 10).unwrap();

    cluster.broker(0).proxy().unwrap().cut();
    assert!(send(&cluster.bootstrap(), "hidden", 1).is_err());
    send(&cluster.direct_bootstrap(), "hidden", 10).unwrap();

    cluster.broker(0).proxy().unwrap().restore().unwrap();
    assert_eq!(count(&cluster.bootstrap(), "hidden", 20), 20);
}

#[test]
fn three_brokers_survive_the_loss_of_one() {
    if !require_services() {
        return;
    }
    let cluster = KafkaCluster::start(3).unwrap();
    assert_eq!(cluster.pids().len(), 3);
    cluster.create_topic("spread", 6).unwrap();
    send(&cluster.bootstrap(), "spread", 60).unwrap();

    cluster.broker(1).kill();
    assert_eq!(cluster.pids().len(), 2);
    assert!(count(&cluster.bootstrap(), "spread", 60) >= 60);
    send(&cluster.bootstrap(), "spread", 60).unwrap();
    cluster.broker(1).restart().unwrap();
    assert_eq!(cluster.pids().len(), 3);
}

#[test]
fn shared_clusters_are_two_and_have_names_of_their_own() {
    if !require_services() {
        return;
    }
    let shared = Shared::get();
    assert_ne!(shared.a().id(), shared.b().id());
    assert_ne!(Shared::unique("topic"), Shared::unique("topic"));
    assert!(shared.zookeeper().pid().is_some());
}

/// Sends `count` messages with all acknowledgements; an error unless every one is delivered within a few seconds (a
/// minute, if the cluster answers at all).
fn send(bootstrap: &str, topic: &str, count: u32) -> Result<(), String> {
    let reachable =
        client(bootstrap).create::<BaseConsumer>().unwrap().fetch_metadata(Some(topic), LIMIT / 12);
    reachable.map_err(|error| error.to_string())?;
    let producer: BaseProducer = client(bootstrap).set("enable.idempotence", "true").create().unwrap();
    for number in 0..count {
        let key = number.to_string();
        producer
            .send(BaseRecord::to(topic).key(&key).payload(&key))
            .map_err(|(error, _)| error.to_string())?;
    }
    producer.flush(LIMIT).map_err(|error| error.to_string())
}

/// Reads a topic from its beginning until there are `wanted` messages.
fn count(bootstrap: &str, topic: &str, wanted: usize) -> usize {
    let consumer: BaseConsumer =
        client(bootstrap).set("group.id", "count").set("auto.offset.reset", "earliest").create().unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), LIMIT).unwrap();
    let mut assignment = rdkafka::TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        assignment.add_partition_offset(topic, partition.id(), rdkafka::Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let (mut found, limit) = (0, Instant::now() + LIMIT);
    while found < wanted && Instant::now() < limit {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) if message.payload().is_some() => found += 1,
            _ => {}
        }
    }
    found
}

fn cluster_id(bootstrap: &str) -> String {
    let client: BaseConsumer = client(bootstrap).create().unwrap();
    client.client().fetch_cluster_id(LIMIT).unwrap()
}

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("log_level", "0");
    config
}
