//! Clusters, messages on them, and a handler that records what it sees.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use tokio::sync::{Notify, watch};
use zms_core::{
    name::{ClusterName, GroupName, TopicName},
    route::{ChangeId, ClusterSpec, ConsumeFrom, GroupRoute, Source},
};
use zms_sdk::{
    Message,
    consumer::{Delivery, Subscriber, Subscription},
    engine::port::{ClusterAdmin, Completion, Engine, Outcome, ProducerClient, ProducerSpec, Ticket},
    kafka::KafkaEngine,
    testing::{FAST_GROUP_PROPERTIES, MockCluster},
};

/// Generous: reached only when a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const TOPIC: &str = "orders";

/// A session that no member outlives that merely gets no processor, for tests that count each delivery. A group that
/// forms anew while it has members waits for all of it.
pub(crate) const LONG_SESSION: (&str, &str) = ("session.timeout.ms", "30000");

/// The same where members come and go, which then takes some seconds.
pub(crate) const STEADY_SESSION: (&str, &str) = ("session.timeout.ms", "6000");

/// A cluster with one topic, a producer to fill it, and eyes on what is committed.
pub(crate) struct Kafka {
    pub(crate) mock: MockCluster,
    pub(crate) spec: Arc<ClusterSpec>,
    producer: Arc<dyn ProducerClient>,
    admin: Arc<dyn ClusterAdmin>,
}

impl Kafka {
    pub(crate) fn start(name: &str, partitions: i32) -> Self {
        let mock = MockCluster::start(1).unwrap();
        mock.create_topic(TOPIC, partitions).unwrap();
        let spec = Arc::new(ClusterSpec {
            name: ClusterName::new(name).unwrap(),
            bootstrap: mock.bootstrap().to_owned(),
            kafka_id: None,
            properties: BTreeMap::new(),
            changed: ChangeId(1),
        });
        let producer = ProducerSpec {
            cluster: Arc::clone(&spec),
            client_id: "test".to_owned(),
            properties: vec![
                ("reconnect.backoff.ms".to_owned(), "10".to_owned()),
                ("reconnect.backoff.max.ms".to_owned(), "200".to_owned()),
            ],
        };
        let producer = KafkaEngine::new().open_producer(&producer).unwrap();
        let admin = KafkaEngine::new().open_admin(&spec).unwrap();
        Self { mock, spec, producer, admin }
    }

    /// Sends and waits until the cluster has it all.
    pub(crate) fn send(&self, messages: impl IntoIterator<Item = Message>) {
        let delivered = Arc::new(AtomicUsize::new(0));
        let mut sent = 0;
        for message in messages {
            let mut next = (message, Ticket::new(Box::new(Report(Arc::clone(&delivered)))));
            while let Err(refused) = self.producer.produce(&topic(), next.0, next.1) {
                std::thread::sleep(Duration::from_millis(1));
                next = (refused.message, refused.ticket);
            }
            sent += 1;
        }
        let deadline = Instant::now() + LIMIT;
        while delivered.load(SeqCst) < sent {
            assert!(Instant::now() < deadline, "not all messages were delivered");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends `count` messages to a partition.
    pub(crate) fn fill(&self, partition: i32, count: usize) {
        self.send((0..count).map(|n| Message::new(n.to_string()).partition(partition)));
    }

    /// Committed positions of the group, by partition.
    pub(crate) fn committed(&self) -> BTreeMap<i32, i64> {
        let answer = self.admin.committed(&group(), &topic(), LIMIT).unwrap();
        answer.into_iter().map(|position| (position.partition, position.offset)).collect()
    }

    pub(crate) fn subscriber(&self) -> Subscriber {
        subscriber(&watch::Sender::new(route(&self.spec)))
    }
}

struct Report(Arc<AtomicUsize>);

impl Completion for Report {
    fn complete(self: Box<Self>, outcome: Outcome) {
        if matches!(outcome, Outcome::Delivered { .. }) {
            self.0.fetch_add(1, SeqCst);
        }
    }
}

pub(crate) fn topic() -> TopicName {
    TopicName::new(TOPIC).unwrap()
}

pub(crate) fn group() -> GroupName {
    GroupName::new("billing").unwrap()
}

pub(crate) fn route(cluster: &Arc<ClusterSpec>) -> Arc<GroupRoute> {
    Arc::new(GroupRoute {
        group: group(),
        topic: topic(),
        cluster: Arc::clone(cluster),
        consume_from: ConsumeFrom::Earliest,
        broadcast: false,
        suspended: false,
        consumer: BTreeMap::new(),
        changed: ChangeId(1),
        source: Source::Registry,
    })
}

pub(crate) fn subscriber(route: &watch::Sender<Arc<GroupRoute>>) -> Subscriber {
    with_properties(route, &FAST_GROUP_PROPERTIES)
}

pub(crate) fn with_properties(
    route: &watch::Sender<Arc<GroupRoute>>,
    properties: &[(&str, &str)],
) -> Subscriber {
    let subscriber = Subscriber::new(group(), Arc::new(KafkaEngine::new()), route.subscribe())
        .workers(2)
        .commit_interval(Duration::from_millis(50));
    properties.iter().fold(subscriber, |subscriber, (name, value)| subscriber.property(*name, *value))
}

/// Records calls, and stops at the messages that the test holds.
#[derive(Debug, Default)]
pub(crate) struct Log {
    calls: Mutex<Vec<Delivery>>,
    held: Mutex<BTreeSet<(i32, i64)>>,
    released: Notify,
}

impl Log {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn hold(&self, partition: i32, offset: i64) {
        self.held.lock().unwrap().insert((partition, offset));
    }

    pub(crate) fn release_all(&self) {
        self.held.lock().unwrap().clear();
        self.released.notify_waiters();
    }

    async fn call(&self, delivery: Delivery) {
        let at = (delivery.partition(), delivery.offset());
        self.calls.lock().unwrap().push(delivery);
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if !self.held.lock().unwrap().contains(&at) {
                return;
            }
            released.await;
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, subscriber: Subscriber) -> Subscription {
        let log = Arc::clone(self);
        let handler = move |delivery: Delivery| {
            let log = Arc::clone(&log);
            async move { log.call(delivery).await }
        };
        now(subscriber.handle(handler)).unwrap()
    }

    pub(crate) fn calls(&self) -> Vec<Delivery> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Offsets handled, by cluster and partition, in the order of the calls.
    pub(crate) fn offsets(&self) -> BTreeMap<(String, i32), Vec<i64>> {
        let mut offsets: BTreeMap<_, Vec<i64>> = BTreeMap::new();
        for call in self.calls.lock().unwrap().iter() {
            offsets.entry((call.cluster().to_string(), call.partition())).or_default().push(call.offset());
        }
        offsets
    }

    /// Distinct messages handled.
    pub(crate) fn distinct(&self) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|c| (c.cluster().clone(), c.partition(), c.offset())).collect::<BTreeSet<_>>().len()
    }
}

pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the whole group has committed `offset` on each of `partitions` partitions.
pub(crate) async fn until_committed(kafka: &Kafka, partitions: i32, offset: i64) {
    let wanted: BTreeMap<i32, i64> = (0..partitions).map(|p| (p, offset)).collect();
    until(&format!("everything is committed up to {offset}"), || kafka.committed() == wanted).await;
}

/// Begins a subscription whose group needs no resolving, which takes no wait.
pub(crate) fn now<T>(begin: impl Future<Output = T>) -> T {
    begin.now_or_never().expect("nothing to wait for")
}
