//! What waits for what, and what does not.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use zms_sdk::consumer::{Delivery, Ordering, Outcome, RetryPolicy, Subscription};

use crate::{
    fake::Event,
    rig::{LIMIT, Rig, Script, counts, now, partition, until},
};

const NEVER: Duration = Duration::from_secs(3600);
const QUICK: RetryPolicy =
    RetryPolicy::new().attempts(9).backoff(Duration::from_millis(1), Duration::from_millis(3));

/// Offset `n` has the key `k<n % keys>`.
fn keys(keys: i64, count: i64) -> impl Iterator<Item = String> {
    (0..count).map(move |n| format!("k{}", n % keys))
}

fn subscribe(script: &Arc<Script>, rig: &Rig, workers: usize, blocking: bool) -> Subscription {
    let subscriber = rig.subscriber().workers(workers).ordering(Ordering::Key);
    if !blocking {
        return script.subscribe(subscriber);
    }
    let script = Arc::clone(script);
    now(subscriber.handle_blocking(move |delivery: Delivery| script.call_blocking(&delivery))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stuck_keys_hold_up_no_other_while_a_worker_is_free() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill_keys(0, keys(40, 2000));
        let script = Script::new();
        (0..3).for_each(|offset| script.hold(0, offset));
        let sub = subscribe(&script, &rig, 4, blocking);
        // Three of forty keys are stuck, each with fifty messages.
        until("all others are done", || counts(&sub).handled == 37 * 50).await;
        assert_eq!((script.begun_of("k0"), script.begun_of("k2")), (vec![0], vec![2]));
        assert_eq!(partition(&sub, 0).position, Some(0));
        (0..3).for_each(|offset| script.release(0, offset));
        until("all is done", || cluster.committed(0) == Some(2000)).await;
        for key in 0..40 {
            let offsets: Vec<i64> = (0..50).map(|n| n * 40 + key).collect();
            assert_eq!(script.begun_of(&format!("k{key}")), offsets);
        }
        assert_eq!(script.key_overlaps(), 0);
        sub.shutdown(LIMIT).await.unwrap();
    }
}

/// Fails each message's first calls, a few, and notes all calls.
#[derive(Default)]
struct Fickle(Mutex<Vec<(i64, u32)>>);

impl Fickle {
    fn call(&self, delivery: &Delivery) -> Outcome {
        self.0.lock().unwrap().push((delivery.offset(), delivery.attempt()));
        let failures = u32::try_from(delivery.offset() * 7 % 4).unwrap();
        if delivery.attempt() > failures { Outcome::Done } else { Outcome::Retry }
    }

    /// Panics unless the calls of each key are each of its messages' attempts, one after the other.
    fn check(&self, count: i64, key_of: impl Fn(i64) -> i64) {
        let mut next: BTreeMap<i64, Vec<(i64, u32)>> = BTreeMap::new();
        for &(offset, attempt) in self.0.lock().unwrap().iter() {
            next.entry(key_of(offset)).or_default().push((offset, attempt));
        }
        for (key, calls) in next {
            let messages = (0..count).filter(|offset| key_of(*offset) == key);
            let expected = messages.flat_map(|offset| {
                let failures = u32::try_from(offset * 7 % 4).unwrap();
                (1..=failures + 1).map(move |attempt| (offset, attempt))
            });
            assert_eq!(calls, expected.collect::<Vec<_>>(), "key {key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_across_retries() {
    for (ordering, keys_kept) in [(Ordering::Key, 7), (Ordering::Partition, 1)] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill_keys(0, keys(7, 300));
        let fickle = Arc::new(Fickle::default());
        let called = Arc::clone(&fickle);
        let subscriber = rig.subscriber().workers(4).ordering(ordering).retry(QUICK);
        let sub = now(subscriber.handle_blocking(move |delivery: Delivery| called.call(&delivery))).unwrap();
        until("all is done", || cluster.committed(0) == Some(300)).await;
        fickle.check(300, |offset| offset % keys_kept);
        sub.shutdown(LIMIT).await.unwrap();
    }
}

/// Fails messages for good whose offset is below `below`.
async fn with_failures(rig: &Rig, ordering: Ordering, below: i64) -> Subscription {
    let handler = move |delivery: Delivery| async move {
        let fails = delivery.partition() == 0 && delivery.offset() < below;
        if fails { Outcome::RetryAfter(NEVER) } else { Outcome::Done }
    };
    rig.subscriber().workers(1).ordering(ordering).handle(handler).await.unwrap()
}

#[tokio::test]
async fn a_partition_that_waits_for_a_retry_does_not_hold_up_its_workers_others() {
    let (rig, cluster) = Rig::new(3);
    (0..3).for_each(|p| cluster.fill(p, 300));
    let sub = with_failures(&rig, Ordering::Partition, 1).await;
    until("the others are done", || (1..3).all(|p| cluster.committed(p) == Some(300))).await;
    let view = partition(&sub, 0);
    assert_eq!((view.position, view.queued_messages), (Some(0), 300));
    let oldest = view.oldest.unwrap();
    assert_eq!((oldest.offset, oldest.attempt, oldest.worker), (0, Some(1), None));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn messages_that_wait_for_a_retry_hold_no_worker() {
    for ordering in [Ordering::Key, Ordering::Unordered] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill_keys(0, keys(500, 2000));
        let sub = with_failures(&rig, ordering, 400).await;
        // Those of the same keys wait behind them in order.
        let waiting = if ordering == Ordering::Key { 1600 } else { 400 };
        until("all others are done", || counts(&sub).handled == 2000 - waiting).await;
        assert_eq!((counts(&sub).failures, partition(&sub, 0).position), (400, Some(0)));
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn retries_that_wait_for_a_taken_partition_are_dropped_at_once() {
    for ordering in [Ordering::Partition, Ordering::Key, Ordering::Unordered] {
        let (rig, cluster) = Rig::new(2);
        let cluster = cluster.scripted();
        cluster.fill_keys(0, keys(100, 200));
        let sub = with_failures(&rig, ordering, 200).await;
        until("a member is there", || !cluster.state().members.is_empty()).await;
        for round in 1..=3 {
            cluster.tell(0, Event::Assign(vec![0]));
            let each = if ordering == Ordering::Partition { 1 } else { 100 };
            until("it waits", || counts(&sub).failures >= round * each).await;
            cluster.tell(0, Event::Revoke(vec![0]));
            until("nothing of it is kept", || {
                counts(&sub).revocations == round && sub.inspect().buffered_messages == 0
            })
            .await;
        }
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_given_back_waits_for_its_earlier_run_and_no_other_does() {
    let (rig, cluster) = Rig::new(1);
    let cluster = cluster.scripted();
    cluster.fill_keys(0, keys(10, 100));
    let script = Script::new();
    script.hold(0, 3);
    let subscriber = rig.subscriber().workers(2).ordering(Ordering::Key);
    // Nothing is committed, so that everything comes again.
    let sub = script.subscribe(subscriber.commit_interval(NEVER));
    until("a member is there", || !cluster.state().members.is_empty()).await;
    cluster.tell(0, Event::Assign(vec![0]));
    until("one key is stuck, all others are done", || counts(&sub).handled == 90).await;
    cluster.tell(0, Event::Lose(vec![0]));
    cluster.tell(0, Event::Assign(vec![0]));
    until("all others are done again", || counts(&sub).handled == 180).await;
    assert_eq!(script.begun_of("k3"), [3], "the second delivery waits for the first run");
    script.release(0, 3);
    until("all is done", || counts(&sub).handled == 190).await;
    let again: Vec<i64> = (0..10).map(|n| n * 10 + 3).collect();
    assert_eq!(script.begun_of("k3"), [vec![3], again].concat());
    assert_eq!((script.key_overlaps(), counts(&sub).late_completions), (0, 1));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn without_an_order_all_is_handled_around_a_stuck_message() {
    for ordering in [Ordering::Unordered, Ordering::Key] {
        let (rig, cluster) = Rig::new(1);
        // Without keys.
        cluster.fill(0, 1000);
        let script = Script::new();
        script.hold(0, 0);
        let sub = script.subscribe(rig.subscriber().workers(2).ordering(ordering));
        until("all others are done", || counts(&sub).handled == 999).await;
        assert_eq!(cluster.committed(0), Some(0));
        script.release(0, 0);
        until("all is done", || cluster.committed(0) == Some(1000)).await;
        assert_eq!(script.calls(), 1000);
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn the_view_tells_who_handles_the_oldest_message() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill_keys(0, keys(2, 4));
    let script = Script::new();
    script.hold(0, 0);
    let sub = script.subscribe(rig.subscriber().workers(1).ordering(Ordering::Key));
    until("it runs", || script.calls() == 1).await;
    let running = || partition(&sub, 0).oldest.filter(|oldest| oldest.worker.is_some());
    until("it is seen", || running().is_some()).await;
    let oldest = running().unwrap();
    assert_eq!((oldest.offset, oldest.attempt, oldest.worker), (0, Some(1), Some(0)));
    assert!(oldest.key_hash.is_some());
    script.release(0, 0);
    until("all is done", || cluster.committed(0) == Some(4)).await;
    assert_eq!(partition(&sub, 0).oldest, None);
    sub.shutdown(LIMIT).await.unwrap();
}
