use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::*;
use crate::{
    engine::port::FailureKind,
    producer::{SendOutcome, tests::fake::failure},
};

#[tokio::test(start_paused = true)]
async fn closing_ends_senders_that_wait_for_room_at_once() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let producer = bench.producer("orders", "a").await;
    bench.engine.cluster("a").dead.store(true, Ordering::SeqCst);
    let text = "x".repeat(900_000);
    let stuck = [start(&bench, &producer, &text).await, start(&bench, &producer, &text).await];
    let blocked: Vec<_> = (0..10).map(|_| send(&producer, &text)).collect();
    until(|| bench.producers.stats().waiting == 10).await;
    let started = Instant::now();
    let closes =
        [bench.producers.close(Duration::from_secs(1)), bench.producers.close(Duration::from_secs(1))];
    assert_eq!(futures_util::future::join_all(closes).await, [2, 2]);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?} of virtual time", started.elapsed());
    for task in blocked {
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, SendError::Closed { .. }), "{error}");
        assert_eq!(error.into_message().unwrap().size(), 900_000);
    }
    let outcomes = stuck.map(|task| async { task.await.unwrap().unwrap_err().outcome() });
    let outcomes = futures_util::future::join_all(outcomes).await;
    assert_eq!(outcomes, [SendOutcome::Unknown, SendOutcome::NotSent], "told apart");
    assert!(matches!(producer.send(message("x")).await, Err(SendError::Closed { .. })));
    bench.producers.close(Duration::from_secs(1)).await;
    assert_eq!(bench.engine.cluster("a").closed(), 1);
    assert_eq!(producer.in_flight(), 0);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn closing_also_ends_senders_that_wait_behind_other_topics() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000).cluster_ceiling(100));
    for topic in ["first", "second"] {
        let producer = bench.producer(topic, "a").await;
        bench.adopt(held(topic, "a")).await;
        producer.send_oneway(Message::new(vec![0; 1_900_000]));
    }
    let waits = send(&bench.producer("third", "a").await, &"x".repeat(900_000));
    until(|| bench.producers.stats().waiting == 1).await;
    let producers = bench.producers.clone();
    let closing = tokio::spawn(async move { producers.close(Duration::from_secs(8)).await });
    let result = within(Duration::from_secs(1), waits).await.unwrap();
    assert!(matches!(result, Err(SendError::Closed { .. })) && !closing.is_finished());
    closing.await.unwrap();
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn closing_flushes_what_is_queued() {
    let bench = Bench::new();
    let mut sent = Vec::new();
    for cluster in ["a", "b", "c"] {
        let producer = bench.producer(&format!("on-{cluster}"), cluster).await;
        for n in 0..10 {
            sent.push(start(&bench, &producer, &n.to_string()).await);
        }
    }
    assert_eq!(bench.producers.close(Duration::from_secs(5)).await, 0);
    for task in sent {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(bench.engine.log().len(), 30);
    assert_eq!(bench.producers.stats().clients, 0);
}

#[tokio::test(start_paused = true)]
async fn held_sends_go_out_if_their_route_opens_while_closing() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.adopt(held("orders", "a")).await;
    let waits = start(&bench, &producer, "1").await;
    let producers = bench.producers.clone();
    let closing = tokio::spawn(async move { producers.close(Duration::from_secs(8)).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!closing.is_finished());
    bench.adopt(route("orders", "b")).await;
    assert_eq!(closing.await.unwrap(), 0);
    assert_eq!(waits.await.unwrap().unwrap().cluster.as_str(), "b");
    assert!(producer.topic.gate.is_held(), "nothing gets past a closed topic");
}

#[tokio::test(start_paused = true)]
async fn a_held_send_whose_client_fails_while_closing_ends_all_the_same() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.adopt(held("orders", "a")).await;
    let waits = start(&bench, &producer, "1").await;
    let producers = bench.producers.clone();
    let closing = tokio::spawn(async move { producers.close(Duration::from_secs(8)).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.engine.cluster("a").refusals.lock().unwrap().push_back(failure(FailureKind::Purged, "closing"));
    bench.adopt(route("orders", "a")).await;
    closing.await.unwrap();
    let error = within(Duration::from_secs(1), waits).await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::Closed { .. }), "{error}");
    assert_eq!(error.into_message(), Some(message("1")));
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn held_sends_whose_route_stays_shut_end_as_not_sent() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.adopt(held("orders", "a")).await;
    let waits = start(&bench, &producer, "1").await;
    bench.producers.close(Duration::from_secs(8)).await;
    let error = waits.await.unwrap().unwrap_err();
    assert!(matches!(error, SendError::Closed { .. }), "{error}");
    assert_eq!(error.into_message(), Some(message("1")));
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_topic_whose_route_comes_after_the_close_takes_nothing() {
    let bench = Bench::new();
    bench.producers.close(Duration::from_secs(1)).await;
    let producer = bench.producer("orders", "a").await;
    assert!(matches!(producer.send(message("x")).await, Err(SendError::Closed { .. })));
    assert_eq!(bench.engine.opened(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flush_of_a_held_topic_waits_for_what_is_in_flight() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let sent = start(&bench, &producer, "1").await;
    bench.adopt(held("orders", "a")).await;
    assert_eq!(producer.in_flight(), 1);
    let waiting = producer.clone();
    let idle = tokio::spawn(async move { waiting.flush().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!idle.is_finished());
    bench.engine.pump();
    within(Duration::from_secs(1), idle).await.unwrap();
    assert_eq!(producer.in_flight(), 0);
    assert!(sent.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_the_reports() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let sent = start(&bench, &producer, "1").await;
    let waiting = producer.clone();
    let idle = tokio::spawn(async move { waiting.flush().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!idle.is_finished());
    bench.engine.pump();
    within(Duration::from_secs(1), idle).await.unwrap();
    assert!(sent.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn clients_close_at_the_same_time() {
    let bench = Bench::new();
    let clusters: Vec<_> = (0..5).map(|n| format!("cluster-{n}")).collect();
    for cluster in &clusters {
        bench.producer(&format!("on-{cluster}"), cluster).await;
        bench.engine.cluster(cluster).close_with(&bench.engine.together, clusters.len());
    }
    bench.producers.close(Duration::from_secs(1)).await;
    for cluster in &clusters {
        assert!(bench.engine.cluster(cluster).met(), "{cluster} closed while the others waited");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_flushes_in_the_background() {
    let Bench { engine, producers } = Bench::new();
    let bench = Bench { engine: engine.clone(), producers };
    let producer = bench.producer("orders", "a").await;
    let sent = start(&bench, &producer, "1").await;
    drop(bench);
    assert!(sent.await.unwrap().is_ok());
    assert!(matches!(producer.send(message("x")).await, Err(SendError::Closed { .. })));
    until(|| engine.cluster("a").closed() == 1).await;
}
