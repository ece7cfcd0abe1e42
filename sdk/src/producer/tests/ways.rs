//! The ways to send: what comes back, what waits, and that each message has one result.

use std::{io, sync::atomic::Ordering, thread};

use super::*;
use crate::producer::Sending;

/// Everything that a message can have.
fn rich(number: usize) -> Message {
    let message = Message::new(number.to_string()).key("k").header("h", "1").header("h", "").null_header("n");
    message.timestamp_ms(7).partition(3)
}

/// A buffer of which the topic has nothing left until a cluster reports.
async fn full() -> (Bench, Producer, Sending) {
    let bench = Bench::with(ProducerOptions::new().buffer(4_000_000).topic_cap(50));
    let producer = bench.producer("orders", "a").await;
    let all = producer.try_send(Message::new(vec![0; 2_000_000 - 256])).unwrap();
    (bench, producer, all)
}

#[tokio::test]
async fn a_message_that_is_not_taken_comes_back_unchanged_and_nothing_waits() {
    let (bench, producer, all) = full().await;
    for message in [rich(1), Message::tombstone("k").null_header("n"), Message::default(), Message::new("")] {
        let error = producer.try_send(message.clone()).unwrap_err();
        assert!(matches!(error, SendError::BufferFull { waited: Duration::ZERO, .. }), "{error}");
        assert!(error.is_retryable() && !error.to_string().contains("within"), "{error}");
        assert_eq!(error.into_message(), Some(message));
    }
    let error = producer.try_send(Message::new(vec![0; 2_000_000])).unwrap_err();
    assert!(matches!(error, SendError::TooLarge { limit: 2_000_000, .. }), "{error}");
    assert_eq!(bench.producers.stats().waiting, 0);
    bench.engine.pump();
    all.await.unwrap();
    bench
        .engine
        .cluster("a")
        .refusals
        .lock()
        .unwrap()
        .push_back(fake::failure(crate::engine::port::FailureKind::TooLarge, "the client's own limit"));
    assert_eq!(producer.try_send(rich(2)).unwrap_err().into_message(), Some(rich(2)));
    bench.producers.close(Duration::from_secs(1)).await;
    let error = producer.try_send(rich(3)).unwrap_err();
    assert!(matches!(error, SendError::Closed { .. }), "{error}");
    assert_eq!(error.into_message(), Some(rich(3)));
    bench.assert_everything_returned();
}

#[tokio::test]
async fn a_message_whose_future_was_dropped_is_sent_and_its_room_returns_with_its_report() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    drop(producer.try_send(message("dropped")).unwrap());
    assert!(bench.producers.stats().free_bytes < bench.producers_total());
    bench.engine.pump();
    assert_eq!((texts(&bench), bench.producers.stats().delivered), (vec!["dropped".to_owned()], 1));
    bench.assert_everything_returned();
}

#[tokio::test]
async fn a_batch_that_fits_is_admitted_at_once_and_each_message_returns_its_own_room() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let batch = tokio::spawn({
        let producer = producer.clone();
        async move { producer.send_batch((0..100).map(rich).collect()).await }
    });
    until(|| producer.in_flight() == 100).await;
    let each = (bench.producers_total() - bench.producers.stats().free_bytes) / 100;
    let cluster = bench.engine.cluster("a");
    for left in (0..100).rev() {
        let delivered = crate::engine::port::Outcome::Delivered {
            partition: 3,
            offset: Some(99 - left),
            timestamp_ms: None,
        };
        cluster.report_first(&delivered);
        let taken = bench.producers_total() - bench.producers.stats().free_bytes;
        // The numbers of two digits are a byte longer than those of one.
        assert!(taken.abs_diff(each * usize::try_from(left).unwrap()) < 100, "{taken} with {left} left");
    }
    let offsets: Vec<_> = batch.await.unwrap().into_iter().map(|result| result.unwrap().offset).collect();
    assert_eq!(offsets, (0..100).map(Some).collect::<Vec<_>>());
    assert_eq!(bench.producers.stats().pool.exhaustions, 0);
    bench.assert_everything_returned();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_many_buffers_goes_in_parts_and_in_order_with_one_result_each() {
    let options =
        ProducerOptions::new().buffer(200_000).block_size(1024).property("message.max.bytes", "50000");
    let bench = Bench::with(options.max_block(Duration::from_secs(600)));
    let producer = bench.producer("orders", "a").await;
    bench.pump_for_ever(Duration::from_millis(1));
    let mut messages: Vec<_> = (0..3_000).map(rich).collect();
    messages[1_500] = Message::new(vec![0; 150_000]).key("too large");
    let results = within(Duration::from_secs(300), producer.send_batch(messages)).await;
    assert_eq!(results.len(), 3_000);
    for (number, result) in results.into_iter().enumerate() {
        match result {
            Ok(receipt) => assert_ne!((receipt.offset, number), (None, 1_500)),
            Err(SendError::TooLarge { message, .. }) => {
                assert_eq!(message.into_inner().unwrap().size(), 150_009);
                assert_eq!(number, 1_500);
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
    let expected: Vec<_> = (0..3_000).filter(|number| *number != 1_500).map(|n| n.to_string()).collect();
    assert_eq!(texts(&bench), expected);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_finds_no_room_comes_back_as_a_whole_and_unchanged() {
    let (bench, producer, all) = full().await;
    let results = producer.send_batch((0..2_000).map(rich).collect()).await;
    let returned: Vec<_> = results
        .into_iter()
        .map(|result| {
            let error = result.unwrap_err();
            assert!(matches!(error, SendError::BufferFull { .. }), "{error}");
            error.into_message().unwrap()
        })
        .collect();
    assert_eq!(returned, (0..2_000).map(rich).collect::<Vec<_>>());
    bench.engine.pump();
    all.await.unwrap();
    assert_eq!(bench.producers.stats().not_sent, 2_000);
    assert!(producer.send_batch(Vec::new()).await.is_empty());
    bench.assert_everything_returned();
}

#[tokio::test]
async fn closing_gives_every_message_of_a_batch_on_a_dead_cluster_one_result() {
    let options =
        ProducerOptions::new().buffer(200_000).block_size(1024).property("message.max.bytes", "50000");
    let bench = Bench::with(options.max_block(Duration::from_secs(600)));
    bench.engine.cluster("a").dead.store(true, Ordering::SeqCst);
    let producer = bench.producer("orders", "a").await;
    let batch = tokio::spawn({
        let producer = producer.clone();
        async move { producer.send_batch((0..1_000).map(rich).collect()).await }
    });
    until(|| bench.producers.stats().waiting == 1).await;
    let handed_over = producer.in_flight();
    assert!(handed_over > 0 && handed_over < 1_000);
    bench.producers.close(Duration::from_secs(1)).await;
    let results = batch.await.unwrap();
    assert_eq!(results.len(), 1_000);
    let closed = results.iter().filter(|result| matches!(result, Err(SendError::Closed { .. })));
    assert_eq!((closed.count(), results.iter().filter(|it| it.is_ok()).count()), (1_000 - handed_over, 0));
    bench.assert_everything_returned();
}

#[tokio::test]
async fn dropping_a_batch_that_waits_leaves_nothing_behind() {
    let (bench, producer, all) = full().await;
    let batch = tokio::spawn({
        let producer = producer.clone();
        async move { producer.send_batch((0..10).map(rich).collect()).await }
    });
    until(|| bench.producers.stats().waiting == 1).await;
    batch.abort();
    until(|| bench.producers.stats().waiting == 0).await;
    bench.engine.pump();
    all.await.unwrap();
    assert_eq!(bench.engine.log().len(), 1);
    bench.assert_everything_returned();
}

#[tokio::test]
async fn payloads_are_written_into_blocks_that_return_with_their_last_report() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let sends: Vec<_> = (0..20)
        .map(|number| {
            let producer = producer.clone();
            let envelope = Message { payload: Some("dropped".into()), ..rich(number) };
            tokio::spawn(async move {
                producer.send_written(envelope, |payload| write!(payload, "{number}")).await
            })
        })
        .collect();
    until(|| producer.in_flight() == 20).await;
    let taken = bench.producers_total() - bench.producers.stats().free_bytes;
    assert_eq!(taken, 16 << 10, "they share one block");
    bench.engine.pump();
    for send in sends {
        send.await.unwrap().unwrap();
    }
    let sent: Vec<_> = bench.engine.log().into_iter().map(|delivered| delivered.message).collect();
    assert_eq!(sent, (0..20).map(rich).collect::<Vec<_>>());
    drop(sent);
    bench.assert_everything_returned();
}

#[tokio::test]
async fn json_arrives_as_written_whether_it_fits_a_block_or_not() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    bench.pump_for_ever(Duration::from_millis(1));
    for length in [0, 1, 1_000, 16_000, 100_000] {
        let value = serde_json::json!({ "text": "x".repeat(length), "none": null });
        producer.send_json(Message::default().key("k"), &value).await.unwrap();
        let last = bench.engine.log().pop().unwrap().message;
        assert_eq!(serde_json::from_slice::<serde_json::Value>(last.payload().unwrap()).unwrap(), value);
    }
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_written_or_has_no_room_gives_the_message_back() {
    let (bench, producer, all) = full().await;
    let envelope = Message { payload: None, ..rich(1) };
    let error = producer.send_json(envelope.clone(), "text").await.unwrap_err();
    assert!(matches!(error, SendError::BufferFull { .. }), "{error}");
    assert_eq!(error.into_message(), Some(envelope.clone()));
    bench.engine.pump();
    all.await.unwrap();
    let fails = |_: &mut dyn io::Write| Err(io::Error::other("field `total` is not a number"));
    let error = producer.send_written(envelope.clone(), fails).await.unwrap_err();
    assert!(error.to_string().contains("field `total`") && !error.is_retryable(), "{error}");
    assert_eq!(error.into_message(), Some(envelope.clone()));
    let huge = producer.send_json(envelope, &"x".repeat(2_000_000)).await.unwrap_err();
    assert!(matches!(huge, SendError::TooLarge { .. }), "{huge}");
    assert_eq!(bench.producers.stats().not_sent, 3);
    bench.assert_everything_returned();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_without_async_send_and_wait_in_the_same_line() {
    let options =
        ProducerOptions::new().buffer(20_000).block_size(1024).property("message.max.bytes", "5000");
    let bench = Bench::with(options.max_block(Duration::from_secs(600)));
    let producer = bench.producer("orders", "a").await;
    bench.pump_for_ever(Duration::from_millis(1));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let producer = producer.clone();
            thread::spawn(move || (0..50).map(|n| producer.send_blocking(rich(n))).collect::<Vec<_>>())
        })
        .collect();
    let joined = tokio::task::spawn_blocking(|| threads.into_iter().map(|thread| thread.join().unwrap()));
    for results in joined.await.unwrap() {
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 50);
    }
    assert_eq!(bench.engine.log().len(), 400);
    bench.assert_everything_returned();
}

#[test]
fn a_blocking_send_on_a_thread_of_a_runtime_is_refused_and_gives_the_message_back() {
    let refused = |error: SendError| {
        assert!(matches!(error, SendError::AsyncThread { .. }), "{error}");
        assert!(error.to_string().contains("await `send`"), "{error}");
        assert_eq!(error.into_message(), Some(rich(1)));
    };
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for runtime in [single, many] {
        runtime.block_on(async {
            let bench = Bench::new();
            let producer = bench.producer("orders", "a").await;
            refused(producer.send_blocking(rich(1)).unwrap_err());
            let task = producer.clone();
            tokio::spawn(async move { refused(task.send_blocking(rich(1)).unwrap_err()) }).await.unwrap();
            let thread = producer.clone();
            let blocking = move || refused(thread.send_blocking(rich(1)).unwrap_err());
            tokio::task::spawn_blocking(blocking).await.unwrap();
            assert_eq!(producer.in_flight(), 0);
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_waits_for_room_or_its_result_hears_of_the_close() {
    let (bench, producer, all) = full().await;
    let waits = thread::spawn({
        let producer = producer.clone();
        move || producer.send_blocking(rich(1))
    });
    until(|| bench.producers.stats().waiting == 1).await;
    bench.engine.cluster("a").dead.store(true, Ordering::SeqCst);
    bench.producers.close(Duration::from_secs(1)).await;
    let error = waits.join().unwrap().unwrap_err();
    assert!(matches!(error, SendError::Closed { .. }), "{error}");
    assert_eq!(error.into_message(), Some(rich(1)));
    assert!(all.await.is_err());
    bench.assert_everything_returned();
}
