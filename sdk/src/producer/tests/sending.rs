use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;

use super::*;
use crate::{
    engine::port::{FailureKind, Outcome},
    producer::{SendOutcome, tests::fake::failure},
    routing::ResolveError,
};

#[tokio::test(start_paused = true)]
async fn a_receipt_tells_where_the_message_lies() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let sent = start(&bench, &producer, "1").await;
    bench.engine.pump();
    let receipt = sent.await.unwrap().unwrap();
    assert_eq!((receipt.cluster.as_str(), receipt.topic.as_str()), ("a", "orders"));
    assert_eq!((receipt.partition, receipt.offset), (0, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn every_ending_returns_the_room_once() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let a = bench.engine.cluster("a");
    let delivered = Outcome::Delivered { partition: 0, offset: None, timestamp_ms: None };
    let timed_out = Outcome::NotSent(failure(FailureKind::Unreachable, "timed out"));
    let lost = Outcome::Unknown(failure(FailureKind::Unreachable, "timed out in flight"));
    let results = Arc::new(AtomicUsize::new(0));
    for _ in 0..1_000 {
        for outcome in [&delivered, &timed_out, &lost] {
            let sent = start(&bench, &producer, "x").await;
            a.report_first(outcome);
            assert_eq!(sent.await.unwrap().is_ok(), matches!(outcome, Outcome::Delivered { .. }));
            let counted = results.clone();
            let callback = move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                panic!("a user's bug");
            };
            producer.send_with(message("x"), callback).await;
            a.report_first(outcome);
            producer.send_oneway(message("x"));
            a.report_first(outcome);
            let caller_gone = start(&bench, &producer, "x").await;
            caller_gone.abort();
            assert!(bench.producers.stats().free_bytes < bench.producers_total(), "the client still has it");
            a.report_first(outcome);
        }
        for kind in [FailureKind::QueueFull, FailureKind::TooLarge] {
            a.refusals.lock().unwrap().push_back(failure(kind, "refused"));
            assert!(producer.send(message("x")).await.is_err());
        }
    }
    assert_eq!(results.load(Ordering::SeqCst), 3_000, "each callback ran once");
    assert_eq!(bench.producers.stats().callback_panics, 3_000);
    assert_eq!(producer.in_flight(), 0);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn what_is_larger_than_a_share_fails_at_once() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let producer = bench.producer("orders", "a").await;
    let error = producer.send(Message::new(vec![0; 2_000_000])).await.unwrap_err();
    assert!(matches!(error, SendError::TooLarge { size: 2_000_256, limit: 2_000_000, .. }), "{error}");
    assert!(!error.is_retryable());
    assert_eq!(error.into_message().unwrap().size(), 2_000_000);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn one_message_too_large_fails_alone() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let before = start(&bench, &producer, "before").await;
    let refusal = failure(FailureKind::TooLarge, "message size too large");
    bench.engine.cluster("a").refusals.lock().unwrap().push_back(refusal);
    let error = producer.send(message("large")).await.unwrap_err();
    assert!(matches!(error, SendError::TooLarge { limit: 1_000_000, .. }), "{error}");
    let after = start(&bench, &producer, "after").await;
    bench.engine.pump();
    assert!(before.await.unwrap().is_ok() && after.await.unwrap().is_ok());
    assert_eq!(texts(&bench), ["before", "after"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_comes_back_as_it_was_and_arrives_so() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let original = Message::tombstone("k").header("h", "1").null_header("h").timestamp_ms(7).partition(3);
    bench.engine.cluster("a").refusals.lock().unwrap().push_back(failure(FailureKind::QueueFull, "full"));
    let error = producer.send(original.clone()).await.unwrap_err();
    assert!(error.is_retryable() && error.outcome() == SendOutcome::NotSent);
    assert!(error.to_string().contains("partition 3"), "{error}");
    let back = error.into_message().unwrap();
    assert_eq!(back, original);
    producer.send_oneway(back);
    bench.engine.pump();
    assert_eq!(bench.engine.log()[0].message, original);
}

#[tokio::test(start_paused = true)]
async fn errors_show_no_content_of_messages() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.engine.cluster("a").refusals.lock().unwrap().push_back(failure(FailureKind::QueueFull, "full"));
    let error = producer.send(message("top secret")).await.unwrap_err();
    assert!(!format!("{error:?} {error}").contains("secret"));
}

#[test]
fn configuration_shows_no_values_of_properties() {
    let config = ProducerOptions::new().property("sasl.password", "hunter2").build().unwrap();
    let shown = format!("{config:?}");
    assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_full_buffer_makes_senders_wait_and_then_fail_with_the_numbers() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let producer = bench.producer("orders", "a").await;
    let text = "x".repeat(900_000);
    let sent = [start(&bench, &producer, &text).await, start(&bench, &producer, &text).await];
    let error = producer.send(message(&text)).await.unwrap_err();
    assert!(matches!(error, SendError::BufferFull { total: 4_000_000, topic_cap: 2_000_000, waited, .. }
        if waited >= Duration::from_secs(10)));
    assert!(error.is_retryable());
    producer.send_oneway(message(&text));
    assert_eq!(bench.producers.stats().dropped_oneway, 1);
    let waits = send(&producer, &text);
    until(|| bench.producers.stats().waiting == 1).await;
    bench.engine.pump();
    for task in sent {
        assert!(task.await.unwrap().is_ok());
    }
    until(|| bench.engine.cluster("a").queued() == 1).await;
    bench.engine.pump();
    assert!(waits.await.unwrap().is_ok());
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn dropping_a_send_before_it_has_room_sends_nothing() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let producer = bench.producer("orders", "a").await;
    let text = "x".repeat(900_000);
    let sent = [start(&bench, &producer, &text).await, start(&bench, &producer, &text).await];
    let waits = send(&producer, &text);
    until(|| bench.producers.stats().waiting == 1).await;
    waits.abort();
    until(|| bench.producers.stats().waiting == 0).await;
    bench.engine.pump();
    for task in sent {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(bench.engine.log().len(), 2);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_dead_cluster_leaves_room_for_the_topics_of_others() {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let stuck = bench.producer("stuck", "a").await;
    let lively = bench.producer("lively", "b").await;
    bench.engine.cluster("a").dead.store(true, Ordering::SeqCst);
    for _ in 0..10 {
        stuck.send_oneway(Message::new(vec![0; 500_000]));
    }
    for n in 0..100 {
        let sent = start(&bench, &lively, &n.to_string()).await;
        bench.engine.pump();
        assert!(sent.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_leads_nowhere_gives_the_message_back() {
    let source = ResolveError::UnknownTopic { topic: "ordes".to_owned(), waited: Duration::from_secs(3) };
    let error = SendError::unresolved("ordes", source, message("1"));
    assert_eq!((error.topic(), error.outcome()), ("ordes", SendOutcome::NotSent));
    assert!(error.to_string().contains("zmsctl topic add ordes"), "{error}");
    assert_eq!(error.into_message(), Some(message("1")));
}

#[tokio::test(start_paused = true)]
async fn warming_asks_the_cluster_and_bears_its_silence() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let a = bench.engine.cluster("a");
    producer.warm().await;
    a.dead.store(true, Ordering::SeqCst);
    producer.warm().await;
    assert_eq!(a.warmed(), ["orders", "orders"]);
}

#[derive(Debug, Clone)]
enum Op {
    Send(usize),
    Oneway(usize),
    AbortOldest,
    Report(u8),
    Adopt(u8),
    Hold,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..900_000_usize).prop_map(Op::Send),
        2 => (0..900_000_usize).prop_map(Op::Oneway),
        1 => Just(Op::AbortOldest),
        5 => (0..3_u8).prop_map(Op::Report),
        1 => (0..3_u8).prop_map(Op::Adopt),
        1 => Just(Op::Hold),
        1 => (0..15_000_u64).prop_map(Op::Wait),
    ]
}

const CLUSTERS: [&str; 3] = ["a", "b", "c"];

/// Runs a history; whatever it was, each send not aborted has one result, and everything is returned.
async fn run(ops: Vec<Op>) {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000));
    let producer = bench.producer("orders", "a").await;
    let mut tasks = std::collections::VecDeque::new();
    let adoptions = Mutex::new(Vec::new());
    let adopt =
        |route| adoptions.lock().unwrap().push(tokio::spawn(bench.producers.clone().adopt(Arc::new(route))));
    for op in ops {
        match op {
            Op::Send(size) => tasks.push_back(send(&producer, &"x".repeat(size))),
            Op::Oneway(size) => producer.send_oneway(message(&"x".repeat(size))),
            Op::AbortOldest => {
                if let Some(task) = tasks.pop_front() {
                    task.abort();
                }
            }
            Op::Report(outcome) => {
                let error = failure(FailureKind::Unreachable, "timed out");
                let outcome = match outcome {
                    0 => Outcome::Delivered { partition: 0, offset: None, timestamp_ms: None },
                    1 => Outcome::NotSent(error),
                    _ => Outcome::Unknown(error),
                };
                for name in CLUSTERS {
                    bench.engine.cluster(name).report_first(&outcome);
                }
            }
            Op::Adopt(n) => adopt(route("orders", CLUSTERS[usize::from(n)])),
            Op::Hold => adopt(held("orders", "a")),
            Op::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
        tokio::task::yield_now().await;
    }
    bench.producers.close(Duration::from_secs(4)).await;
    for task in tasks {
        let _one_result = within(Duration::from_secs(1), task).await.unwrap();
    }
    assert_eq!(producer.in_flight(), 0);
    bench.assert_everything_returned();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn after_any_history_every_send_has_its_result_and_everything_is_returned(
        ops in prop::collection::vec(op(), 0..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(ops));
    }
}
