//! Other ways to read than as a plain member of a group.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use zms_sdk::consumer::{PauseReason, SeekTo};

use crate::rig::{Kafka, LIMIT, Log, now, route, subscriber, until, until_committed};

const NEVER: Duration = Duration::from_secs(3600);

async fn until_handled(log: &Log, cluster: &str, partitions: i32, end: i64) {
    let whole: Vec<i64> = (0..end).collect();
    until(&format!("each partition of {cluster} is handled up to {end}"), || {
        let seen = log.offsets();
        (0..partitions).all(|p| seen.get(&(cluster.to_owned(), p)) == Some(&whole))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_instance_of_a_broadcast_group_handles_all_and_follows_a_move() {
    let (a, b) = (Kafka::start("a", 3), Kafka::start("b", 3));
    let broadcast = |kafka: &Kafka| {
        let mut route = route(&kafka.spec);
        Arc::make_mut(&mut route).broadcast = true;
        route
    };
    let sender = watch::Sender::new(broadcast(&a));
    let logs = [Log::new(), Log::new()];
    (0..3).for_each(|p| a.fill(p, 20));
    let subs = logs.each_ref().map(|log| log.subscribe(subscriber(&sender).switch_limit(NEVER)));
    for (sub, log) in subs.iter().zip(&logs) {
        sub.ready().await.unwrap();
        until_handled(log, "a", 3, 20).await;
    }
    (0..3).for_each(|p| a.fill(p, 20));
    (0..3).for_each(|p| b.fill(p, 20));
    sender.send_replace(broadcast(&b));
    for (sub, log) in subs.iter().zip(&logs) {
        until_handled(log, "b", 3, 20).await;
        until_handled(log, "a", 3, 40).await;
        let counts = sub.inspect().counts;
        assert_eq!((counts.switches, counts.forced_switches), (1, 0));
    }
    for sub in subs {
        sub.shutdown(LIMIT).await.unwrap();
    }
    assert!(a.committed().is_empty() && b.committed().is_empty(), "nothing is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standalone_reader_keeps_its_positions_under_a_name_and_goes_on_there() {
    let kafka = Kafka::start("a", 2);
    (0..2).for_each(|p| kafka.fill(p, 20));
    let log = Log::new();
    // The name is the one that the test looks at the positions of.
    let reader = || kafka.subscriber().standalone().partitions([1]).positions_as("billing");
    let first = log.subscribe(reader());
    until("all is committed", || kafka.committed().get(&1) == Some(&20)).await;
    first.shutdown(LIMIT).await.unwrap();
    (0..2).for_each(|p| kafka.fill(p, 20));
    let second = log.subscribe(reader());
    until("the rest is committed", || kafka.committed().get(&1) == Some(&40)).await;
    assert_eq!(log.offsets()[&("a".to_owned(), 1)], (0..40).collect::<Vec<_>>());
    assert_eq!(log.offsets().len(), 1);
    second.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standalone_reader_begins_and_seeks_where_it_is_told() {
    let kafka = Kafka::start("a", 1);
    kafka.fill(0, 100);
    let log = Log::new();
    let sub = log.subscribe(kafka.subscriber().standalone().start_at("a", [(0, 90)]));
    until("the end is handled", || log.count() == 10).await;
    assert_eq!(sub.seek(0, SeekTo::Offset(95)).await, Ok(95));
    until("it is handled again from there", || log.count() == 15).await;
    let expected: Vec<i64> = (90..100).chain(95..100).collect();
    assert_eq!(log.offsets()[&("a".to_owned(), 0)], expected);
    sub.shutdown(LIMIT).await.unwrap();
    assert!(kafka.committed().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_in_the_middle_of_a_stream_delivers_the_new_part_whole_and_in_order() {
    let kafka = Kafka::start("a", 1);
    kafka.fill(0, 3000);
    let log = Log::new();
    log.hold(0, 100);
    let sub = log.subscribe(kafka.subscriber().max_buffered_messages(200));
    until("much is fetched, and one is stuck", || log.count() == 101).await;
    assert_eq!(sub.seek(0, SeekTo::Offset(50)).await, Ok(50));
    log.release_all();
    until_committed(&kafka, 1, 3000).await;
    let expected: Vec<i64> = (0..=100).chain(50..3000).collect();
    assert_eq!(log.offsets()[&("a".to_owned(), 0)], expected);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_member_is_not_thrown_out_and_goes_on() {
    let kafka = Kafka::start("a", 2);
    let subscriber = kafka.subscriber().drain_limit(Duration::from_secs(1));
    let subscriber = subscriber.property("max.poll.interval.ms", "4000");
    let sub = now(subscriber.handle_blocking(|_| ())).unwrap();
    sub.ready().await.unwrap();
    sub.pause();
    until("both are paused", || {
        let held = sub.inspect().partitions;
        held.len() == 2 && held.iter().all(|p| p.paused == Some(PauseReason::Requested))
    })
    .await;
    (0..2).for_each(|p| kafka.fill(p, 5));
    // Longer than a client may go without polling.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(sub.inspect().counts.handled, 0);
    sub.resume();
    until_committed(&kafka, 2, 5).await;
    let counts = sub.inspect().counts;
    assert_eq!((counts.handled, counts.losses, counts.poll_errors), (10, 0, 0));
    sub.shutdown(LIMIT).await.unwrap();
}
