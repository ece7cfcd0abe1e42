//! Clusters that go and come back.

use std::thread;

use super::*;
use crate::{
    engine::port::{FailureKind, Position},
    testing::{Api, BrokerError},
};

#[test]
fn a_member_goes_on_after_an_outage() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..5);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(5);
    member.client.commit(&[Position { partition: 0, offset: 5, metadata: String::new() }]).unwrap();
    cluster.all_brokers_down().unwrap();
    member.poll_until("see the outage", |member| !member.errors.is_empty());
    assert!(member.errors.iter().all(|error| error.kind != FailureKind::Fatal), "{:?}", member.errors);
    cluster.all_brokers_up().unwrap();
    fill(&cluster, "orders", 0, 5..10);
    member.receive(10);
    assert_eq!(member.texts()[5..], ["5", "6", "7", "8", "9"]);
    member.client.close();
}

#[test]
fn a_producer_delivers_after_an_outage_what_it_took_in_it() {
    let cluster = cluster_with("orders", 1);
    let producer = producer(&cluster, &[]);
    cluster.all_brokers_down().unwrap();
    let outcomes = Outcomes::new();
    for (number, message) in numbered(0, 0..10).into_iter().enumerate() {
        producer.produce(&topic("orders"), message, outcomes.ticket(number)).unwrap();
    }
    cluster.all_brokers_up().unwrap();
    let ended = outcomes.all(10);
    assert!(ended.values().all(|it| matches!(it, Outcome::Delivered { .. })), "{ended:?}");
    producer.close(PATIENCE);
}

#[test]
fn closing_a_member_with_all_brokers_down_ends() {
    let cluster = cluster_with("orders", 1);
    fill(&cluster, "orders", 0, 0..5);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.receive(5);
    cluster.all_brokers_down().unwrap();
    let listener = Arc::clone(&member.listener);
    let started = Instant::now();
    member.client.close();
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(listener.held().is_empty());
}

#[test]
fn dropping_clients_with_all_brokers_down_holds_up_no_thread() {
    let cluster = cluster_with("orders", 1);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(1);
    let producer = producer(&cluster, &[]);
    let asker = admin(&cluster);
    asker.topic(&topic("orders"), PATIENCE).unwrap();
    cluster.round_trip_time(PATIENCE).unwrap();
    let outcomes = Outcomes::new();
    producer.produce(&topic("orders"), Message::new("x"), outcomes.ticket(0)).unwrap();
    cluster.all_brokers_down().unwrap();
    // A runtime that goes on ticking while its only thread drops all of them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let slowest = runtime.block_on(async {
        let started = Instant::now();
        drop((member.client, producer, asker));
        started.elapsed()
    });
    // Closing them here would take as long as an answer, or as the client's own patience: many seconds.
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    outcomes.next();
}

#[test]
fn a_topic_that_appears_later_is_consumed_then() {
    let cluster = cluster_with("other", 1);
    let mut properties = FAST_GROUP_PROPERTIES.to_vec();
    properties.push(("topic.metadata.refresh.interval.ms", "200"));
    let mut member = Member::join_with(&cluster, "orders", Listener::passive(), &properties);
    member.poll_until("miss the topic", |member| !member.errors.is_empty());
    assert_eq!(member.errors[0].kind, FailureKind::UnknownTopic);
    cluster.create_topic("orders", 1).unwrap();
    fill(&cluster, "orders", 0, 0..3);
    member.receive(3);
    member.client.close();
}

#[test]
fn a_refused_fetch_is_reported_and_loses_nothing() {
    let cluster = cluster_with("orders", 1);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(1);
    cluster.fail_requests(Api::Fetch, &[BrokerError::TopicDenied; 3]);
    member.poll_until("see the refusal", |member| !member.errors.is_empty());
    assert_eq!(member.errors[0].kind, FailureKind::Denied);
    fill(&cluster, "orders", 0, 0..10);
    member.receive(10);
    let expected: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(member.texts(), expected);
    member.client.close();
}

#[test]
fn a_moved_leader_is_followed() {
    let cluster = MockCluster::start(3).unwrap();
    cluster.create_topic("orders", 1).unwrap();
    let producer = producer(&cluster, &[]);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    for broker in [1, 2, 3, 1] {
        cluster.move_leader("orders", 0, broker).unwrap();
        send_all(&*producer, "orders", numbered(0, 0..5));
    }
    member.receive(20);
    assert!(cluster.move_leader("orders", 0, 0).is_err());
    member.client.close();
    producer.close(PATIENCE);
}

#[test]
fn a_mock_cluster_may_go_before_its_clients() {
    let cluster = cluster_with("orders", 1);
    let mut member = Member::join(&cluster, "orders", Listener::passive());
    member.hold(1);
    let producer = producer(&cluster, &[]);
    producer.warm(&topic("orders"), PATIENCE).unwrap();
    thread::spawn(move || drop(cluster)).join().unwrap();
    assert_eq!(producer.close(Duration::from_millis(100)), 0);
    member.client.close();
}
