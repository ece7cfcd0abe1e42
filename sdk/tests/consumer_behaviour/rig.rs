//! What every test needs: routes, a handler that the test commands, and waiting for conditions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use zms_core::{
    name::{ClusterName, GroupName, TopicName},
    route::{ChangeId, ClusterSpec, ConsumeFrom, GroupRoute, Source},
};
use zms_sdk::consumer::{Counts, Delivery, PartitionView, Subscriber, Subscription};

use crate::fake::{FakeCluster, FakeEngine};

/// Generous: reached only when a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn route(cluster: &str) -> GroupRoute {
    GroupRoute {
        group: GroupName::new("billing").unwrap(),
        topic: TopicName::new("orders").unwrap(),
        cluster: Arc::new(ClusterSpec {
            name: ClusterName::new(cluster).unwrap(),
            bootstrap: format!("{cluster}:9092"),
            kafka_id: None,
            properties: BTreeMap::new(),
            changed: ChangeId(1),
        }),
        consume_from: ConsumeFrom::Earliest,
        broadcast: false,
        suspended: false,
        consumer: BTreeMap::new(),
        changed: ChangeId(1),
        source: Source::Registry,
    }
}

/// An engine, and the route of one group on it.
pub(crate) struct Rig {
    pub(crate) engine: Arc<FakeEngine>,
    pub(crate) route: watch::Sender<Arc<GroupRoute>>,
}

impl Rig {
    /// With one cluster, `a`.
    pub(crate) fn new(partitions: i32) -> (Self, Arc<FakeCluster>) {
        let engine = Arc::new(FakeEngine::default());
        let cluster = engine.cluster("a", partitions);
        (Self { engine, route: watch::Sender::new(Arc::new(route("a"))) }, cluster)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut GroupRoute)) {
        self.route.send_modify(|route| change(Arc::make_mut(route)));
    }

    pub(crate) fn move_to(&self, cluster: &str) {
        self.change(|present| present.cluster = route(cluster).cluster);
    }

    pub(crate) fn subscriber(&self) -> Subscriber {
        let engine = Arc::clone(&self.engine);
        Subscriber::new(GroupName::new("billing").unwrap(), engine, self.route.subscribe())
            .workers(2)
            .commit_interval(Duration::from_millis(20))
            .drain_limit(Duration::from_secs(30))
    }
}

/// A handler that records its calls and stops at the messages that the test holds.
#[derive(Debug, Default)]
pub(crate) struct Script {
    state: Mutex<Calls>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    held: BTreeSet<(i32, i64)>,
    begun: Vec<(String, i32, i64)>,
    running: BTreeSet<(String, i32)>,
    overlaps: usize,
    running_keys: BTreeSet<(i32, Vec<u8>)>,
    key_overlaps: usize,
    keys: Vec<(Vec<u8>, i64)>,
}

impl Script {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The next call for this message waits until it is released.
    pub(crate) fn hold(&self, partition: i32, offset: i64) {
        self.state.lock().unwrap().held.insert((partition, offset));
    }

    pub(crate) fn release(&self, partition: i32, offset: i64) {
        self.state.lock().unwrap().held.remove(&(partition, offset));
        self.released.notify_waiters();
    }

    pub(crate) async fn call(&self, delivery: &Delivery) {
        let at = (delivery.partition(), delivery.offset());
        let cluster = delivery.cluster().to_string();
        let key = delivery.key().map(<[u8]>::to_vec);
        {
            let mut state = self.state.lock().unwrap();
            state.begun.push((cluster.clone(), at.0, at.1));
            let alone = state.running.insert((cluster.clone(), at.0));
            state.overlaps += usize::from(!alone);
            if let Some(key) = &key {
                state.keys.push((key.clone(), at.1));
                let alone = state.running_keys.insert((at.0, key.clone()));
                state.key_overlaps += usize::from(!alone);
            }
        }
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if !self.state.lock().unwrap().held.contains(&at) {
                break;
            }
            released.await;
        }
        let mut state = self.state.lock().unwrap();
        state.running.remove(&(cluster, at.0));
        if let Some(key) = key {
            state.running_keys.remove(&(at.0, key));
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, subscriber: Subscriber) -> Subscription {
        let script = Arc::clone(self);
        let handler = move |delivery: Delivery| {
            let script = Arc::clone(&script);
            async move { script.call(&delivery).await }
        };
        now(subscriber.handle(handler)).unwrap()
    }

    /// Offsets of the calls begun for a partition on any cluster.
    pub(crate) fn begun(&self, partition: i32) -> Vec<i64> {
        self.state.lock().unwrap().begun.iter().filter(|c| c.1 == partition).map(|c| c.2).collect()
    }

    /// Clusters and offsets of all calls begun, in order.
    pub(crate) fn history(&self) -> Vec<(String, i64)> {
        self.state.lock().unwrap().begun.iter().map(|c| (c.0.clone(), c.2)).collect()
    }

    pub(crate) fn calls(&self) -> usize {
        self.state.lock().unwrap().begun.len()
    }

    /// Calls that began while another of the same partition ran.
    pub(crate) fn overlaps(&self) -> usize {
        self.state.lock().unwrap().overlaps
    }
}

impl Script {
    /// Offsets of the calls begun for a key.
    pub(crate) fn begun_of(&self, key: &str) -> Vec<i64> {
        let state = self.state.lock().unwrap();
        state.keys.iter().filter(|(of, _)| of == key.as_bytes()).map(|(_, offset)| *offset).collect()
    }

    /// Calls that began while another of the same key ran.
    pub(crate) fn key_overlaps(&self) -> usize {
        self.state.lock().unwrap().key_overlaps
    }

    /// As [`call`](Self::call), on a thread.
    pub(crate) fn call_blocking(&self, delivery: &Delivery) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(self.call(delivery));
    }
}

/// Waits until `condition` holds; `what` is the complaint when it never does.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn counts(subscription: &Subscription) -> Counts {
    subscription.inspect().counts
}

pub(crate) fn partition(subscription: &Subscription, partition: i32) -> PartitionView {
    let found = subscription.inspect().partitions.into_iter().find(|view| view.partition == partition);
    found.unwrap_or_else(|| panic!("partition {partition} is not held"))
}

/// Begins a subscription whose group needs no resolving, which takes no wait.
pub(crate) fn now<T>(begin: impl Future<Output = T>) -> T {
    begin.now_or_never().expect("nothing to wait for")
}
