//! Limits on how fast messages are handled and on how many at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use zms_sdk::consumer::{Batch, Delivery, Ordering, ResizeError, SubscribeError};

use crate::rig::{LIMIT, Rig, counts, now, until};

#[tokio::test]
async fn no_more_are_handled_than_the_rate_allows() {
    for ordering in [Ordering::Partition, Ordering::Key, Ordering::Unordered] {
        let (rig, cluster) = Rig::new(2);
        (0..2).for_each(|p| cluster.fill_keys(p, (0..20).map(|n| n.to_string())));
        let subscriber = rig.subscriber().workers(3).ordering(ordering).rate_limit(30, 10);
        let began = Instant::now();
        let sub = now(subscriber.handle_blocking(|_: Delivery| ())).unwrap();
        until("all is done", || (0..2).all(|p| cluster.committed(p) == Some(20))).await;
        // Ten at once, and thirty more in a second.
        assert!(began.elapsed() >= Duration::from_millis(990), "{:?}", began.elapsed());
        assert_eq!(counts(&sub).handled, 40);
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn each_message_of_a_batch_counts() {
    for ordering in [Ordering::Partition, Ordering::Unordered] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill(0, 40);
        let subscriber = rig.subscriber().ordering(ordering).rate_limit(30, 10);
        let began = Instant::now();
        let handler = |batch: Batch| async move { assert!(batch.len() <= 10) };
        let sub = now(subscriber.handle_batch(25, handler)).unwrap();
        until("all is done", || cluster.committed(0) == Some(40)).await;
        assert!(began.elapsed() >= Duration::from_millis(990), "{:?}", began.elapsed());
        assert_eq!((counts(&sub).handled, counts(&sub).failures), (40, 0));
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn workers_that_wait_for_the_rate_do_not_hold_up_the_end() {
    for blocking in [false, true] {
        let (rig, cluster) = Rig::new(1);
        cluster.fill(0, 1000);
        let subscriber = rig.subscriber().rate_limit(1, 1).drain_limit(Duration::from_secs(100));
        let sub = if blocking {
            now(subscriber.handle_blocking(|_: Delivery| ())).unwrap()
        } else {
            now(subscriber.handle(|_: Delivery| std::future::ready(()))).unwrap()
        };
        until("one is done", || counts(&sub).handled > 0).await;
        sub.shutdown(LIMIT).await.unwrap();
        assert!(counts(&sub).handled < 1000);
    }
}

#[tokio::test]
async fn the_number_of_workers_grows_while_that_costs_no_latency() {
    let (rig, cluster) = Rig::new(1);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, highest) = (Arc::clone(&running), Arc::clone(&most));
    let handler = move |_: Delivery| {
        let (inside, highest) = (Arc::clone(&inside), Arc::clone(&highest));
        async move {
            highest.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
            inside.fetch_sub(1, SeqCst);
        }
    };
    let subscriber = rig.subscriber().ordering(Ordering::Unordered).adaptive(1..=3);
    let sub = now(subscriber.handle(handler)).unwrap();
    let mut filled = 0;
    until("it has grown", || {
        if counts(&sub).handled + 500 > filled {
            cluster.fill(0, 1000);
            filled += 1000;
        }
        most.load(SeqCst) >= 2
    })
    .await;
    assert!(matches!(sub.resize(2), Err(ResizeError::Adaptive { .. })));
    sub.shutdown(LIMIT).await.unwrap();
    assert!(most.load(SeqCst) <= 3);
}

#[tokio::test]
async fn limits_that_cannot_be_are_refused() {
    let (rig, _) = Rig::new(1);
    for subscriber in [rig.subscriber().rate_limit(0, 1), rig.subscriber().adaptive(0..=4)] {
        let refused = now(subscriber.handle_blocking(|_: Delivery| ()));
        assert!(matches!(refused, Err(SubscribeError::Option { .. })), "{refused:?}");
    }
}
