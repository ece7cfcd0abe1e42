//! The send buffer in front of several clusters: who waits for whom, what errors say, and its change of size.

use std::sync::atomic::Ordering;

use super::*;
use crate::producer::{FullCause, PoolStats, ProducerConfigError};

fn pool(bench: &Bench) -> PoolStats {
    bench.producers.stats().pool
}

fn used(bench: &Bench, cluster: &str) -> usize {
    let of = |it: &&crate::producer::ClusterUse| it.cluster.as_ref().is_some_and(|it| it.as_str() == cluster);
    pool(bench).clusters.iter().find(of).map_or(0, |it| it.used)
}

/// Fills a dead cluster's part of the buffer from two topics, to its ceiling of 3,000,000 bytes.
async fn with_a_dead_and_full() -> Bench {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    bench.engine.cluster("a").dead.store(true, Ordering::SeqCst);
    for topic in ["first", "second"] {
        let producer = bench.producer(topic, "a").await;
        producer.send_oneway(Message::new(vec![0; 1_499_744]));
    }
    assert_eq!(used(&bench, "a"), 3_000_000);
    bench
}

#[tokio::test(start_paused = true)]
async fn senders_to_a_dead_cluster_keep_none_of_another_waiting() {
    let bench = with_a_dead_and_full().await;
    let lively = bench.producer("lively", "b").await;
    let third = bench.producer("third", "a").await;
    let blocked: Vec<_> = (0..64).map(|_| send(&third, &"x".repeat(100_000))).collect();
    until(|| bench.producers.stats().waiting == 64).await;
    for n in 0..1_000 {
        let room = lively.topic.account.try_take(400_000).expect("its floor of 480,000 bytes is kept for it");
        let sent = start(&bench, &lively, &n.to_string()).await;
        bench.engine.pump();
        assert!(sent.await.unwrap().is_ok());
        drop(room);
    }
    for task in blocked {
        assert!(matches!(task.await.unwrap(), Err(SendError::BufferFull { .. })));
    }
    bench.producers.close(Duration::from_secs(1)).await;
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn errors_name_the_cluster_whose_messages_fill_the_buffer() {
    let bench = with_a_dead_and_full().await;
    let third = bench.producer("third", "a").await;
    let error = third.send(message("x")).await.unwrap_err();
    let SendError::BufferFull { cause, .. } = &error else { panic!("{error}") };
    assert!(
        matches!(&**cause, FullCause::Cluster { cluster: Some(name), used: 3_000_000, ceiling: 3_000_000 } if name.as_str() == "a")
    );
    assert!(error.to_string().contains("to cluster a have 3000000 bytes"), "{error}");
    let other = bench.producer("other", "b").await;
    let _kept = other.topic.account.try_take(1_000_000).unwrap();
    let error = bench.producer("fourth", "c").await.send(message(&"x".repeat(900_000))).await.unwrap_err();
    assert!(error.to_string().contains("3000000 of them to cluster a"), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn senders_who_wait_behind_a_dead_cluster_go_with_their_topic_to_the_next() {
    let bench = with_a_dead_and_full().await;
    let third = bench.producer("third", "a").await;
    let waits = send(&third, "x");
    until(|| bench.producers.stats().waiting == 1).await;
    bench.adopt(route("third", "b")).await;
    until(|| bench.engine.cluster("b").queued() == 1).await;
    bench.engine.pump();
    assert_eq!(waits.await.unwrap().unwrap().cluster.as_str(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_buffer_made_larger_serves_those_who_wait_and_made_smaller_tells_those_who_wait_in_vain() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let producer = bench.producer("orders", "a").await;
    let text = "x".repeat(900_000);
    let sent = [start(&bench, &producer, &text).await, start(&bench, &producer, &text).await];
    let waits = send(&producer, &text);
    until(|| bench.producers.stats().waiting == 1).await;
    bench.producers.resize_buffer(8_000_000).unwrap();
    until(|| bench.engine.cluster("a").queued() == 3).await;
    let larger = send(&producer, &"x".repeat(3_000_000));
    until(|| bench.producers.stats().waiting == 1).await;
    bench.producers.resize_buffer(2_100_000).unwrap();
    let error = larger.await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::TooLarge { limit: 1_050_000, .. }), "{error}");
    assert_eq!(bench.producers.stats().free_bytes, 0);
    bench.engine.pump();
    for task in sent.into_iter().chain([waits]) {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(pool(&bench).total, 2_100_000);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_size_that_the_settings_do_not_fit_changes_nothing() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let error = bench.producers.resize_buffer(1_500_000).unwrap_err();
    assert!(matches!(error, ProducerConfigError::Conflict { left: "message.max.bytes", .. }), "{error}");
    assert_eq!(pool(&bench).total, 4_000_000);
}

#[tokio::test(start_paused = true)]
async fn gauges_tell_who_has_what_and_how_long_somebody_waits() {
    let bench = with_a_dead_and_full().await;
    let third = bench.producer("third", "a").await;
    let waits = send(&third, "x");
    until(|| bench.producers.stats().waiting == 1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let stats = pool(&bench);
    assert!(stats.longest_wait >= Duration::from_secs(5), "{stats:?}");
    assert_eq!((stats.total, stats.free, stats.topic_cap), (4_000_000, 1_000_000, 2_000_000));
    assert_eq!((stats.waiting, stats.exhaustions, stats.oversize), (1, 1, 2));
    let [a] = stats.clusters.as_slice() else { panic!("{stats:?}") };
    assert_eq!((a.used, a.floor, a.ceiling), (3_000_000, 480_000, 3_000_000));
    waits.abort();
    until(|| bench.producers.stats().waiting == 0).await;
    assert_eq!(pool(&bench).longest_wait, Duration::ZERO);
}

#[test]
fn shares_that_contradict_each_other_are_refused() {
    let build = |options: ProducerOptions| options.build().map(|_| ()).unwrap_err().to_string();
    assert!(build(ProducerOptions::new().cluster_floor(101)).contains("cluster_floor=101"));
    assert!(build(ProducerOptions::new().topic_cap(0)).contains("topic_cap=0"));
    let text = build(ProducerOptions::new().cluster_floor(60).cluster_ceiling(50));
    assert!(text.contains("60 %") && text.contains("50 %"), "{text}");
    assert!(build(ProducerOptions::new().block_size(10)).contains("block_size=10"));
    let text = build(ProducerOptions::new().buffer(4_000_000).block_size(3_000_000));
    assert!(text.contains("3000000 bytes") && text.contains("2000000 bytes"), "{text}");
    assert!(build(ProducerOptions::new().buffer(4_000_000).cluster_ceiling(20)).contains("800000 bytes"));
    assert!(ProducerOptions::new().topic_cap(100).cluster_floor(0).cluster_ceiling(100).build().is_ok());
}
