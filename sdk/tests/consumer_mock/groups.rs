//! Members of one group on one cluster.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};
use zms_sdk::{
    Message,
    consumer::Subscription,
    testing::{FAST_CONSUMER_PROTOCOL_PROPERTIES, FAST_GROUP_PROPERTIES},
};

use crate::rig::{
    Kafka, LIMIT, LONG_SESSION, Log, STEADY_SESSION, now, route, until, until_committed, with_properties,
};

fn protocols() -> [(&'static str, Vec<(&'static str, &'static str)>); 3] {
    let mut eager = FAST_GROUP_PROPERTIES.to_vec();
    eager.push(("partition.assignment.strategy", "range"));
    [
        ("cooperative", FAST_GROUP_PROPERTIES.to_vec()),
        ("eager", eager),
        ("consumer", FAST_CONSUMER_PROTOCOL_PROPERTIES.to_vec()),
    ]
}

fn held(sub: &Subscription) -> usize {
    sub.inspect().partitions.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_its_handler_unchanged_and_only_once() {
    let kafka = Kafka::start("a", 1);
    let full = Message::new("paid").key("k").header("h", "1").header("h", "2").null_header("n");
    kafka.send([
        full.timestamp_ms(77).partition(0),
        Message::tombstone("k").partition(0),
        Message::new("").partition(0),
    ]);
    let log = Log::new();
    let subscriber = || kafka.subscriber().property(LONG_SESSION.0, LONG_SESSION.1);
    let sub = log.subscribe(subscriber());
    sub.ready().await.unwrap();
    until_committed(&kafka, 1, 3).await;
    let calls = log.calls();
    assert_eq!(calls[0].payload().unwrap(), b"paid");
    assert_eq!(calls[0].key().unwrap(), b"k");
    assert_eq!(calls[0].timestamp_ms(), Some(77));
    assert_eq!(calls[0].headers().len(), 3);
    assert_eq!(calls[0].header("h").unwrap(), b"2");
    assert_eq!(calls[0].header("n"), None);
    assert_eq!(calls[1].payload(), None);
    assert_eq!(calls[2].payload().unwrap(), b"");
    sub.shutdown(LIMIT).await.unwrap();

    let again = log.subscribe(subscriber());
    again.ready().await.unwrap();
    kafka.fill(0, 1);
    until_committed(&kafka, 1, 4).await;
    assert_eq!(log.offsets()[&("a".to_owned(), 0)], [0, 1, 2, 3]);
    again.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_and_nothing_is_lost() {
    for (protocol, properties) in protocols() {
        let kafka = Kafka::start("a", 4);
        let route = watch::Sender::new(route(&kafka.spec));
        let log = Log::new();
        let steady = log.subscribe(with_properties(&route, &properties));
        steady.ready().await.unwrap();
        for round in 1..=3 {
            let guest = log.subscribe(with_properties(&route, &properties));
            (0..4).for_each(|p| kafka.fill(p, 50));
            until(&format!("{protocol}: both have partitions"), || held(&guest) == 2 && held(&steady) == 2)
                .await;
            (0..4).for_each(|p| kafka.fill(p, 50));
            until_committed(&kafka, 4, 100 * round).await;
            guest.shutdown(LIMIT).await.unwrap();
            until(&format!("{protocol}: one has them all"), || held(&steady) == 4).await;
        }
        assert_eq!(log.distinct(), 1200, "{protocol}");
        steady.shutdown(LIMIT).await.unwrap();
    }
}

/// One thread for all handlers and for whoever waits for members: a rebalance must need none of them.
#[tokio::test]
async fn on_one_thread_members_come_and_go_and_no_rebalance_waits_for_it() {
    let kafka = Kafka::start("a", 2);
    let route = watch::Sender::new(route(&kafka.spec));
    let log = Log::new();
    let steady = log.subscribe(with_properties(&route, &FAST_GROUP_PROPERTIES));
    steady.ready().await.unwrap();
    for round in 1..=3 {
        let guest = log.subscribe(with_properties(&route, &FAST_GROUP_PROPERTIES));
        (0..2).for_each(|p| kafka.fill(p, 50));
        timeout(LIMIT, guest.ready()).await.expect("the group answers").unwrap();
        guest.shutdown(LIMIT).await.unwrap();
        until("one has them all", || held(&steady) == 2).await;
        until_committed(&kafka, 2, 50 * round).await;
    }
    assert_eq!(steady.inspect().counts.drain_timeouts, 0);
    assert_eq!(log.distinct(), 300);
    steady.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_finds_no_partition_left_is_ready_all_the_same() {
    // The consumer protocol tells a member nothing as long as it has nothing for it.
    for (protocol, properties) in protocols().into_iter().filter(|(protocol, _)| *protocol != "consumer") {
        let kafka = Kafka::start("a", 1);
        let route = watch::Sender::new(route(&kafka.spec));
        let log = Log::new();
        let first = log.subscribe(with_properties(&route, &properties));
        first.ready().await.unwrap();
        let second = log.subscribe(with_properties(&route, &properties));
        timeout(LIMIT, second.ready()).await.expect(protocol).unwrap();
        until("one of them has the partition", || held(&first) + held(&second) == 1).await;
        first.shutdown(LIMIT).await.unwrap();
        second.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_handler_holds_a_rebalance_up_no_longer_than_the_drain_limit() {
    let kafka = Kafka::start("a", 2);
    (0..2).for_each(|p| kafka.fill(p, 10));
    let stuck = Log::new();
    (0..2).for_each(|p| stuck.hold(p, 4));
    let subscriber = || kafka.subscriber().property(STEADY_SESSION.0, STEADY_SESSION.1);
    let first = stuck.subscribe(subscriber().drain_limit(Duration::from_millis(300)));
    until("both are stuck", || stuck.count() == 10).await;
    let log = Log::new();
    let second = log.subscribe(subscriber());
    until("the other member handles the partition that it got", || log.count() == 6).await;
    let taken = log.calls()[0].partition();
    until("its position moves on", || kafka.committed()[&taken] == 10).await;
    stuck.release_all();
    until("the late end is dropped", || first.inspect().counts.late_completions == 1).await;
    until_committed(&kafka, 2, 10).await;
    assert_eq!(log.offsets()[&("a".to_owned(), taken)], (4..10).collect::<Vec<_>>());
    first.shutdown(LIMIT).await.unwrap();
    second.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_paused_when_they_were_taken_flow_when_they_come_back() {
    for (protocol, properties) in protocols() {
        let kafka = Kafka::start("a", 2);
        let route = watch::Sender::new(route(&kafka.spec));
        (0..2).for_each(|p| kafka.fill(p, 200));
        let log = Log::new();
        (0..2).for_each(|p| log.hold(p, 0));
        let subscriber = with_properties(&route, &properties).max_buffered_messages(20);
        let first = log.subscribe(subscriber.drain_limit(Duration::from_millis(100)));
        let paused = || first.inspect().partitions.iter().filter(|p| p.paused.is_some()).count();
        until(&format!("{protocol}: both are paused"), || paused() == 2).await;
        let second = log.subscribe(with_properties(&route, &properties));
        until(&format!("{protocol}: they are shared"), || held(&first) == 1 && held(&second) == 1).await;
        log.release_all();
        second.shutdown(LIMIT).await.unwrap();
        until(&format!("{protocol}: they are back"), || held(&first) == 2).await;
        (0..2).for_each(|p| kafka.fill(p, 1));
        until_committed(&kafka, 2, 201).await;
        first.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handlers_behind_a_full_buffer_cause_no_eviction() {
    let kafka = Kafka::start("a", 1);
    kafka.fill(0, 40);
    let subscriber = kafka.subscriber().max_buffered_messages(6).drain_limit(Duration::from_secs(1));
    let subscriber =
        subscriber.property("session.timeout.ms", "5000").property("max.poll.interval.ms", "5000");
    let sub = now(subscriber.handle_blocking(|_| std::thread::sleep(Duration::from_millis(300)))).unwrap();
    until_committed(&kafka, 1, 40).await;
    let counts = sub.inspect().counts;
    assert_eq!((counts.handled, counts.poll_errors, counts.losses, counts.assignments), (40, 0, 0, 1));
    assert_eq!(counts.rewinds, 0, "pausing and resuming delivers nothing twice");
    sub.shutdown(LIMIT).await.unwrap();
}
