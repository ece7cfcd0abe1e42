//! Handlers that fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use zms_sdk::consumer::{Delivery, Exhausted, Outcome, RetryPolicy};

use crate::{
    fake::Event,
    rig::{LIMIT, Rig, counts, now, partition, until},
};

const QUICK: RetryPolicy =
    RetryPolicy::new().attempts(3).backoff(Duration::from_millis(2), Duration::from_millis(5));
const SLOW: RetryPolicy = RetryPolicy::new().backoff(Duration::from_secs(3600), Duration::from_secs(3600));

#[tokio::test]
async fn a_rejected_message_is_not_overtaken() {
    let (rig, cluster) = Rig::new(2);
    (0..2).for_each(|p| cluster.fill(p, 3));
    let broken = Arc::new(AtomicBool::new(true));
    let mends = Arc::clone(&broken);
    let handler = move |delivery: Delivery| {
        let fails = (delivery.partition(), delivery.offset()) == (0, 1) && broken.load(SeqCst);
        async move { if fails { Err("out of stock") } else { Ok(()) } }
    };
    let sub = now(rig.subscriber().retry(QUICK).handle(handler)).unwrap();
    until("attempts are used up", || counts(&sub).blocked == 1).await;
    until("the other partition is done", || cluster.committed(1) == Some(3)).await;
    until("what is before it is committed", || cluster.committed(0) == Some(1)).await;
    until("it is tried on", || partition(&sub, 0).trouble.is_some_and(|t| t.attempts > 5)).await;
    let trouble = partition(&sub, 0).trouble.unwrap();
    assert_eq!((trouble.offset, trouble.reason.as_str()), (1, "out of stock"));
    assert_eq!(cluster.committed(0), Some(1));

    mends.store(false, SeqCst);
    until("all is done", || cluster.committed(0) == Some(3)).await;
    assert_eq!(partition(&sub, 0).trouble, None);
    assert_eq!((counts(&sub).blocked, counts(&sub).skipped, counts(&sub).handled), (1, 0, 6));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_message_is_skipped_after_its_last_attempt_when_asked() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 3);
    let attempts = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&attempts);
    let handler = move |delivery: Delivery| {
        if delivery.offset() == 1 {
            assert_eq!(delivery.attempt() as usize, seen.fetch_add(1, SeqCst) + 1);
            return Outcome::Retry;
        }
        Outcome::Done
    };
    let policy = QUICK.then(Exhausted::Skip);
    let sub = now(rig.subscriber().retry(policy).handle_blocking(handler)).unwrap();
    until("all is committed", || cluster.committed(0) == Some(3)).await;
    assert_eq!(attempts.load(SeqCst), 3);
    let counts = counts(&sub);
    assert_eq!((counts.skipped, counts.retries, counts.failures), (1, 2, 3));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn panics_are_failures() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 2);
    let handler = |delivery: Delivery| async move {
        assert!(delivery.attempt() > 2, "boom");
    };
    let sub = now(rig.subscriber().retry(QUICK).handle(handler)).unwrap();
    until("all is committed", || cluster.committed(0) == Some(2)).await;
    assert_eq!((counts(&sub).panics, counts(&sub).handled), (4, 2));
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn panics_in_blocking_handlers_are_failures() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 2);
    let handler = |delivery: Delivery| assert!(delivery.attempt() > 1, "boom");
    let sub = now(rig.subscriber().retry(QUICK).handle_blocking(handler)).unwrap();
    until("all is committed", || cluster.committed(0) == Some(2)).await;
    assert_eq!(counts(&sub).panics, 2);
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_delay_asked_for_is_used_in_place_of_the_policys() {
    let (rig, cluster) = Rig::new(1);
    cluster.fill(0, 1);
    let handler = |delivery: Delivery| async move {
        match delivery.attempt() {
            1 => Outcome::RetryAfter(Duration::from_millis(1)),
            _ => Outcome::Done,
        }
    };
    let sub = now(rig.subscriber().retry(SLOW).handle(handler)).unwrap();
    until("it is done", || cluster.committed(0) == Some(1)).await;
    sub.shutdown(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_wait_for_a_retry_holds_up_neither_revocation_nor_shutdown() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(1);
        let cluster = cluster.scripted();
        cluster.fill(0, 2);
        let subscriber = rig.subscriber().retry(SLOW).drain_limit(Duration::from_secs(100));
        let fails = |_: Delivery| Err::<(), _>("no");
        let begun = if blocking {
            now(subscriber.handle_blocking(fails))
        } else {
            now(subscriber.handle(move |d| async move { fails(d) }))
        };
        let sub = begun.unwrap();
        until("a member is there", || !cluster.state().members.is_empty()).await;
        cluster.tell(0, Event::Assign(vec![0]));
        until("it waits for a retry", || counts(&sub).failures == 1).await;
        cluster.tell(0, Event::Revoke(vec![0]));
        cluster.tell(0, Event::Assign(vec![0]));
        until("it waits for a retry again", || counts(&sub).failures == 2).await;
        sub.shutdown(LIMIT).await.unwrap();
        assert_eq!(cluster.committed(0), Some(0));
    }
}
