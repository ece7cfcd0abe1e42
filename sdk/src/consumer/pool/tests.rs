//! A pool by itself, without a poll thread.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

use zms_core::{
    flow::Load,
    name::{ClusterName, GroupName, TopicName},
    tracker::{Delivered, Epoch, Tracker},
};

use super::*;
use crate::{
    consumer::{
        Delivery, Outcome, RetryPolicy,
        assignment::Assignment,
        burial::Burials,
        delivery::{Origin, Parcel},
        stats::{Gauge, Stats},
    },
    engine::port::RecordsBuilder,
};

/// Reached only when a test fails.
const LIMIT: Duration = Duration::from_secs(30);

/// What a test gives messages to.
struct Rig {
    pool: Pool,
    assignment: Arc<Assignment>,
    gauge: Arc<Gauge>,
    stats: Arc<Stats>,
    next: i64,
}

impl Rig {
    fn new<H>(ordering: Ordering, workers: usize, handler: H) -> Self
    where
        H: Fn(Delivery) -> Outcome + Send + Sync + 'static,
    {
        let group = GroupName::new("billing").unwrap();
        let (stats, gauge) = (Arc::new(Stats::default()), Arc::new(Gauge::default()));
        let policy = RetryPolicy::new();
        let burials = Burials::new(None, &policy, &group, Arc::clone(&stats));
        let plan = Plan {
            ordering,
            portion: Portion::One,
            runner: Arc::new(Threads { name: "test".to_owned(), handler: Arc::new(Each(handler)) }),
            conduct: Arc::new(Conduct::new(policy, burials, Governor::new(None, None), Arc::clone(&stats))),
        };
        let origin = Origin {
            group,
            cluster: ClusterName::new("a").unwrap(),
            topic: TopicName::new("orders").unwrap(),
        };
        let tracker = Tracker::new(Epoch(1), 0, None);
        let assignment = Arc::new(Assignment::new(Arc::new(origin), 0, Arc::clone(&gauge), tracker));
        let pool = Pool::start(&plan, NonZeroUsize::new(workers).unwrap()).unwrap();
        Self { pool, assignment, gauge, stats, next: 0 }
    }

    /// Gives the pool a parcel of messages with these keys.
    fn give(&mut self, keys: impl IntoIterator<Item = u64>) {
        let mut records = RecordsBuilder::with_capacity(0, Load::default());
        let mut book = self.assignment.book();
        for key in keys {
            assert_eq!(book.tracker.deliver(self.next, 8, 0), Delivered::Accepted);
            records.push(self.next, None, Some(&key.to_be_bytes()), None);
            self.next += 1;
        }
        drop(book);
        let load = records.load();
        self.gauge.take(load);
        let parcel = Parcel::new(Arc::clone(&self.assignment.origin), records.build());
        self.pool.add(Item { assignment: Arc::clone(&self.assignment), parcel, load });
    }

    fn strands(&self) -> usize {
        self.pool.shared.strands.len()
    }

    fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let until = Instant::now() + LIMIT;
        while !condition(self) {
            assert!(Instant::now() < until, "not within {LIMIT:?}: {what}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn an_idle_key_takes_no_memory() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let mut rig = Rig::new(Ordering::Key, 2, move |_| {
        seen.fetch_add(1, SeqCst);
        Outcome::Done
    });
    for round in 1..=20_u64 {
        for parcel in 0..10 {
            rig.give((0..64).map(|n| (round * 10 + parcel) * 64 + n));
        }
        rig.pool.send();
        rig.wait("all are done", |rig| rig.strands() == 0 && rig.gauge.load().messages == 0);
    }
    assert_eq!(calls.load(SeqCst), 20 * 640);
}

#[test]
fn a_waiting_key_is_one_entry_until_its_assignment_ends() {
    let mut rig = Rig::new(Ordering::Key, 2, |delivery| match delivery.offset() % 64 {
        0 => Outcome::RetryAfter(LIMIT * 100),
        _ => Outcome::Done,
    });
    rig.give(0..64);
    rig.give(0..64);
    rig.pool.send();
    rig.wait("all others are done", |rig| rig.stats.snapshot().handled == 126);
    rig.wait("one key is left", |rig| rig.strands() == 1);
    rig.assignment.stop();
    assert_eq!((rig.pool.purge(), rig.strands(), rig.gauge.load()), (2, 0, Load::default()));
}
