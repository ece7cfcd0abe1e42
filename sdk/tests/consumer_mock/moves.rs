//! A group that moves to another cluster.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use zms_core::route::ConsumeFrom;

use crate::rig::{
    Kafka, LIMIT, LONG_SESSION, Log, STEADY_SESSION, route, subscriber, until, until_committed,
};

const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_members_finish_the_old_cluster_and_begin_the_new_one_at_its_first_message() {
    let (a, b) = (Kafka::start("a", 4), Kafka::start("b", 4));
    let latest = |kafka: &Kafka| {
        let mut route = route(&kafka.spec);
        Arc::make_mut(&mut route).consume_from = ConsumeFrom::Latest;
        route
    };
    let sender = watch::Sender::new(latest(&a));
    let log = Log::new();
    let [first, second] = [(); 2].map(|()| {
        let (name, value) = STEADY_SESSION;
        log.subscribe(subscriber(&sender).property(name, value).switch_limit(NEVER))
    });
    let held = |n: usize| [&first, &second].iter().all(|sub| sub.inspect().partitions.len() == n);
    until("both have partitions", || held(2)).await;
    log.hold(3, 60);
    (0..4).for_each(|p| a.fill(p, 100));
    (0..4).for_each(|p| b.fill(p, 40));
    until("one message is stuck", || a.committed().get(&3) == Some(&60)).await;
    sender.send_replace(latest(&b));
    until("the rest of the old cluster is done", || (0..3).all(|p| a.committed()[&p] == 100)).await;
    assert_eq!(b.committed().len(), 0, "nobody is on the new cluster");
    log.release_all();
    until_committed(&b, 4, 40).await;
    until_committed(&a, 4, 100).await;
    for p in 0..4 {
        assert_eq!(log.offsets()[&("a".to_owned(), p)], (0..100).collect::<Vec<_>>());
        assert_eq!(log.offsets()[&("b".to_owned(), p)], (0..40).collect::<Vec<_>>());
    }
    for sub in [first, second] {
        let counts = sub.inspect().counts;
        assert_eq!((counts.switches, counts.forced_switches), (1, 0));
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_old_cluster_is_left_at_its_limit() {
    let (a, b) = (Kafka::start("a", 1), Kafka::start("b", 1));
    a.fill(0, 5);
    b.fill(0, 5);
    let sender = watch::Sender::new(route(&a.spec));
    let log = Log::new();
    let sub =
        log.subscribe(subscriber(&sender).switch_limit(NEVER).unreachable_limit(Duration::from_secs(1)));
    until_committed(&a, 1, 5).await;
    a.mock.all_brokers_down().unwrap();
    sender.send_replace(route(&b.spec));
    until_committed(&b, 1, 5).await;
    assert_eq!(sub.inspect().counts.forced_switches, 1);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_moves_there_and_back_handles_each_message_once() {
    let (a, b) = (Kafka::start("a", 2), Kafka::start("b", 2));
    let sender = watch::Sender::new(route(&a.spec));
    let log = Log::new();
    let (name, value) = LONG_SESSION;
    let sub = log.subscribe(subscriber(&sender).property(name, value).switch_limit(NEVER));
    for round in 1..=2 {
        for kafka in [&a, &b] {
            sender.send_replace(route(&kafka.spec));
            (0..2).for_each(|p| kafka.fill(p, 20));
            until_committed(kafka, 2, 20 * round).await;
        }
    }
    let whole: Vec<i64> = (0..40).collect();
    assert!(log.offsets().values().all(|offsets| *offsets == whole), "{:?}", log.offsets());
    assert_eq!(sub.inspect().counts.switches, 3);
    sub.shutdown(LIMIT).await.unwrap();
}
