//! Many messages through all kinds of workers: nothing gets lost or stands still.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use zms_sdk::consumer::{Delivery, Ordering};

use crate::rig::{LIMIT, Rig, counts, now, until};

const PARTITIONS: i32 = 4;
const WORKERS: [usize; 4] = [1, 2, 5, 16];
/// In each partition, and with each number of workers. 100,000 in all for each kind.
const MESSAGES: i64 = 6250;

async fn storm(ordering: Ordering, blocking: bool) {
    for workers in WORKERS {
        let (rig, cluster) = Rig::new(PARTITIONS);
        let calls = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&calls);
        let handler = move |_: Delivery| {
            seen.fetch_add(1, Relaxed);
        };
        let subscriber = rig.subscriber().workers(workers).ordering(ordering);
        let sub = if blocking {
            now(subscriber.handle_blocking(handler)).unwrap()
        } else {
            now(subscriber.handle(move |delivery| {
                handler(delivery);
                std::future::ready(())
            }))
            .unwrap()
        };
        // In parts, so that workers run dry and fall asleep in between.
        for part in 1..=10 {
            let count = MESSAGES / 10;
            for p in 0..PARTITIONS {
                cluster.fill_keys(p, (0..count).map(|n| (n % 97).to_string()));
            }
            until("this part is done", || {
                (0..PARTITIONS).all(|p| cluster.committed(p) == Some(part * count))
            })
            .await;
        }
        let all = u64::try_from(MESSAGES).unwrap() * 4;
        assert_eq!((calls.load(Relaxed), counts(&sub).handled), (all, all), "{workers} workers");
        sub.shutdown(LIMIT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_by_partition() {
    storm(Ordering::Partition, false).await;
    storm(Ordering::Partition, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_by_key() {
    storm(Ordering::Key, false).await;
    storm(Ordering::Key, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_without_an_order() {
    storm(Ordering::Unordered, false).await;
    storm(Ordering::Unordered, true).await;
}
