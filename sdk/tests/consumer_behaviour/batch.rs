//! Handlers that take several messages at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zms_sdk::consumer::{
    Batch, Buried, DeadLetters, Delivery, Exhausted, Letter, Ordering, Outcome, RetryPolicy, SubscribeError,
};

use crate::rig::{LIMIT, Rig, counts, now, partition, until};

const QUICK: RetryPolicy =
    RetryPolicy::new().attempts(9).backoff(Duration::from_millis(1), Duration::from_millis(3));

/// Partition and offsets of each call.
type Calls = Arc<Mutex<Vec<(i32, Vec<i64>)>>>;

fn note(calls: &Calls, batch: &Batch) {
    let partition = batch.as_slice()[0].partition();
    assert!(batch.iter().all(|delivery| delivery.partition() == partition));
    calls.lock().unwrap().push((partition, batch.iter().map(Delivery::offset).collect()));
}

#[tokio::test]
async fn batches_are_of_one_partition_in_order_and_bounded() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(2);
        (0..2).for_each(|p| cluster.fill(p, 500));
        let calls = Calls::default();
        let seen = Arc::clone(&calls);
        let handler = move |batch: Batch| note(&seen, &batch);
        let sub = if blocking {
            now(rig.subscriber().handle_batch_blocking(100, handler)).unwrap()
        } else {
            let handler = move |batch| {
                handler(batch);
                std::future::ready(())
            };
            now(rig.subscriber().handle_batch(100, handler)).unwrap()
        };
        until("all is done", || (0..2).all(|p| cluster.committed(p) == Some(500))).await;
        let calls = calls.lock().unwrap().clone();
        for p in 0..2 {
            let of_it = calls.iter().filter(|(of, _)| *of == p);
            assert_eq!(of_it.flat_map(|(_, o)| o.clone()).collect::<Vec<_>>(), (0..500).collect::<Vec<_>>());
        }
        assert!(calls.iter().all(|(_, offsets)| offsets.len() <= 100));
        assert!(calls.iter().any(|(_, offsets)| offsets.len() > 1));
        assert_eq!(counts(&sub).handled, 1000);
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn with_keys_a_batch_is_of_one_key() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill_keys(0, (0..400).map(|n| format!("k{}", n % 4)));
    let calls = Calls::default();
    let seen = Arc::clone(&calls);
    let handler = move |batch: Batch| {
        assert!(batch.iter().all(|delivery| delivery.key() == batch.as_slice()[0].key()));
        note(&seen, &batch);
    };
    let sub = now(rig.subscriber().ordering(Ordering::Key).handle_batch_blocking(10, handler)).unwrap();
    until("all is done", || cluster.committed(0) == Some(400)).await;
    assert_eq!(counts(&sub).failures, 0);
    let calls = calls.lock().unwrap().clone();
    for key in 0..4 {
        let of_it = calls.iter().filter(|(_, offsets)| offsets[0] % 4 == key);
        let offsets: Vec<i64> = of_it.flat_map(|(_, offsets)| offsets.clone()).collect();
        assert_eq!(offsets, (0..400).filter(|offset| offset % 4 == key).collect::<Vec<_>>());
    }
    assert!(calls.iter().any(|(_, offsets)| offsets.len() > 1));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_failed_is_handled_again_in_order_without_the_rest_and_is_not_overtaken() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 30);
    let calls = Calls::default();
    let seen = Arc::clone(&calls);
    // Odd offsets fail at first.
    let handler = move |batch: Batch| {
        note(&seen, &batch);
        let outcome = |delivery: &Delivery| {
            let fails = delivery.offset() % 2 == 1 && delivery.attempt() == 1;
            if fails { Outcome::Retry } else { Outcome::Done }
        };
        batch.iter().map(outcome).collect::<Vec<_>>()
    };
    let sub = now(rig.subscriber().retry(QUICK).handle_batch_blocking(10, handler)).unwrap();
    until("all is done", || cluster.committed(0) == Some(30)).await;
    let expected: Vec<(i32, Vec<i64>)> = (0..3)
        .flat_map(|tens| {
            let all: Vec<i64> = (tens * 10..tens * 10 + 10).collect();
            let odd = all.iter().copied().filter(|offset| offset % 2 == 1).collect();
            [(0, all), (0, odd)]
        })
        .collect();
    assert_eq!(*calls.lock().unwrap(), expected);
    assert_eq!((counts(&sub).failures, counts(&sub).retries, counts(&sub).handled), (15, 15, 30));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn messages_without_an_outcome_are_handled_again() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let calls = Calls::default();
    let seen = Arc::clone(&calls);
    let handler = move |batch: Batch| {
        note(&seen, &batch);
        let answers = if batch.as_slice()[0].attempt() == 1 { 4 } else { 100 };
        async move { Ok::<_, String>(vec![Outcome::Done; answers]) }
    };
    let sub = now(rig.subscriber().retry(QUICK).handle_batch(10, handler)).unwrap();
    until("all is done", || cluster.committed(0) == Some(10)).await;
    assert_eq!(*calls.lock().unwrap(), [(0, (0..10).collect::<Vec<_>>()), (0, (4..10).collect())]);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_is_done_is_committed_although_others_wait() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let never = Outcome::RetryAfter(Duration::from_secs(3600));
    let handler = move |batch: Batch| {
        let outcome = |d: &Delivery| if d.offset() == 4 { never.clone() } else { Outcome::Done };
        batch.iter().map(outcome).collect::<Vec<_>>()
    };
    let sub = now(rig.subscriber().handle_batch_blocking(10, handler)).unwrap();
    until("what is before it is committed", || cluster.committed(0) == Some(4)).await;
    until("the rest is done", || counts(&sub).handled == 9).await;
    assert_eq!(partition(&sub, 0).trouble.map(|trouble| trouble.offset), Some(4));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_panic_fails_the_whole_batch() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 10);
    let handler = |batch: Batch| assert!(batch.as_slice()[0].attempt() > 1, "boom");
    let sub = now(rig.subscriber().retry(QUICK).handle_batch_blocking(5, handler)).unwrap();
    until("all is done", || cluster.committed(0) == Some(10)).await;
    assert_eq!((counts(&sub).panics, counts(&sub).failures), (2, 10));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn without_an_order_batches_run_beside_one_another() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 500);
    let calls = Calls::default();
    let (seen, blocked) = (Arc::clone(&calls), Arc::new(tokio::sync::Notify::new()));
    let gate = Arc::clone(&blocked);
    let handler = move |batch: Batch| {
        note(&seen, &batch);
        let waits = batch.as_slice()[0].offset() == 0;
        let gate = Arc::clone(&gate);
        async move {
            if waits {
                gate.notified().await;
            }
        }
    };
    let subscriber = rig.subscriber().workers(2).ordering(Ordering::Unordered);
    let sub = now(subscriber.handle_batch(20, handler)).unwrap();
    until("all but one batch are done", || counts(&sub).handled == 480).await;
    blocked.notify_one();
    until("all is done", || cluster.committed(0) == Some(500)).await;
    let mut offsets: Vec<i64> = calls.lock().unwrap().iter().flat_map(|(_, o)| o.clone()).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..500).collect::<Vec<_>>());
    sub.shutdown(LIMIT).await.unwrap();
}

/// Takes every letter.
struct Drawer;

impl DeadLetters for Drawer {
    fn bury(&self, _: Letter, done: Buried) {
        done(Ok(()));
    }
}

#[tokio::test]
async fn messages_of_a_batch_are_given_up_one_by_one() {
    for ordering in [Ordering::Partition, Ordering::Unordered] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill(0, 10);
        let handler = |batch: Batch| {
            let outcome = |delivery: &Delivery| match delivery.offset() {
                2 | 5 => Outcome::dead_letter("no such order"),
                4 if delivery.attempt() < 3 => Outcome::Retry,
                _ => Outcome::Done,
            };
            batch.iter().map(outcome).collect::<Vec<_>>()
        };
        let policy = QUICK.then(Exhausted::DeadLetter);
        let subscriber = rig.subscriber().ordering(ordering).retry(policy).dead_letters(Arc::new(Drawer));
        let sub = now(subscriber.handle_batch_blocking(10, handler)).unwrap();
        until("all is done", || cluster.committed(0) == Some(10)).await;
        let counts = counts(&sub);
        assert_eq!((counts.dead_lettered, counts.retries, counts.handled), (2, 2, 10));
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn batches_of_nothing_are_refused() {
    let (rig, _) = Rig::new(1);
    let none = now(rig.subscriber().handle_batch_blocking(0, |_| ()));
    assert!(matches!(none, Err(SubscribeError::Option { reason, .. }) if reason.contains("batch")));
}
