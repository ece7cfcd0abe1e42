//! The adapter against the in-process mock cluster.

mod commits;
mod delivery;
mod groups;
mod identity;
mod outage;
mod parking;
mod questions;
mod round_trip;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded};
use zms_core::{
    name::{ClusterName, GroupName, TopicName},
    route::{ChangeId, ClusterSpec},
};

use super::KafkaEngine;
use crate::{
    engine::port::{
        AssignmentListener, ClusterAdmin, Completion, ConsumerClient, ConsumerControl, ConsumerSpec, Engine,
        EngineError, Membership, Outcome, OwnRecord, ProducerClient, ProducerSpec, Records, Start, Ticket,
    },
    message::Message,
    testing::{FAST_GROUP_PROPERTIES, MockCluster},
};

/// Far more than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn cluster_with(topic: &str, partitions: i32) -> MockCluster {
    let cluster = MockCluster::start(1).unwrap();
    cluster.create_topic(topic, partitions).unwrap();
    cluster
}

fn spec(cluster: &MockCluster) -> Arc<ClusterSpec> {
    Arc::new(ClusterSpec {
        name: ClusterName::new("mock").unwrap(),
        bootstrap: cluster.bootstrap().to_owned(),
        kafka_id: None,
        properties: BTreeMap::new(),
        changed: ChangeId::default(),
    })
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn group() -> GroupName {
    GroupName::new("billing").unwrap()
}

fn owned(properties: &[(&str, &str)]) -> Vec<(String, String)> {
    properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn producer(cluster: &MockCluster, properties: &[(&str, &str)]) -> Arc<dyn ProducerClient> {
    let mut all = owned(&[("reconnect.backoff.ms", "10"), ("reconnect.backoff.max.ms", "200")]);
    all.extend(owned(properties));
    let spec = ProducerSpec { cluster: spec(cluster), client_id: "test".to_owned(), properties: all };
    KafkaEngine::new().open_producer(&spec).unwrap()
}

fn admin(cluster: &MockCluster) -> Arc<dyn ClusterAdmin> {
    KafkaEngine::new().open_admin(&spec(cluster)).unwrap()
}

/// Collects what becomes of records, each under the number that it was sent with.
struct Outcomes {
    sender: Sender<(usize, Outcome)>,
    receiver: Receiver<(usize, Outcome)>,
}

struct Reported {
    number: usize,
    sender: Sender<(usize, Outcome)>,
}

impl Completion for Reported {
    fn complete(self: Box<Self>, outcome: Outcome) {
        self.sender
            .try_send((self.number, outcome))
            .expect("the test collects fewer outcomes than it has room for");
    }
}

impl Outcomes {
    fn new() -> Self {
        let (sender, receiver) = bounded(100_000);
        Self { sender, receiver }
    }

    fn ticket(&self, number: usize) -> Ticket {
        Ticket::new(Box::new(Reported { number, sender: self.sender.clone() }))
    }

    fn next(&self) -> Outcome {
        self.receiver.recv_timeout(PATIENCE).expect("every record has an outcome").1
    }

    /// Exactly this many, by number.
    fn all(&self, count: usize) -> BTreeMap<usize, Outcome> {
        let mut outcomes = BTreeMap::new();
        while outcomes.len() < count {
            let (number, outcome) =
                self.receiver.recv_timeout(PATIENCE).expect("every record has an outcome");
            assert!(outcomes.insert(number, outcome).is_none(), "record {number} ended twice");
        }
        assert!(self.receiver.is_empty(), "more outcomes than records");
        outcomes
    }

    /// Those that are there now.
    fn taken(&self) -> BTreeMap<usize, Outcome> {
        let count = self.receiver.len();
        self.all(count)
    }
}

/// Sends and waits for the acknowledgement of each.
fn send_all(producer: &dyn ProducerClient, to: &str, messages: Vec<Message>) {
    let outcomes = Outcomes::new();
    let count = messages.len();
    for (number, message) in messages.into_iter().enumerate() {
        producer.produce(&topic(to), message, outcomes.ticket(number)).unwrap();
    }
    for (number, outcome) in outcomes.all(count) {
        assert!(matches!(outcome, Outcome::Delivered { .. }), "record {number}: {outcome:?}");
    }
}

fn numbered(partition: i32, numbers: std::ops::Range<usize>) -> Vec<Message> {
    numbers.map(|number| Message::new(number.to_string()).partition(partition)).collect()
}

/// Fills a partition.
fn fill(cluster: &MockCluster, to: &str, partition: i32, numbers: std::ops::Range<usize>) {
    let producer = producer(cluster, &[]);
    send_all(&*producer, to, numbered(partition, numbers));
    producer.close(PATIENCE);
}

#[derive(Default)]
struct Log {
    held: BTreeSet<i32>,
    assignments: usize,
    lost: usize,
}

type OnAssign = Box<dyn Fn(&dyn ConsumerControl, &[i32]) -> Vec<(i32, Start)> + Send + Sync>;
type OnRevoke = Box<dyn Fn(&dyn ConsumerControl, &[i32], bool) + Send + Sync>;

/// Starts where the group has committed, and elsewhere at the beginning.
fn as_committed(control: &dyn ConsumerControl, partitions: &[i32]) -> Vec<(i32, Start)> {
    let committed = control.committed(partitions, Duration::from_secs(30)).unwrap();
    let start = |partition: &i32| {
        let position = committed.iter().find(|position| position.partition == *partition);
        (*partition, position.map_or(Start::Earliest, |position| Start::At(position.offset)))
    };
    partitions.iter().map(start).collect()
}

/// Notes what happens and does what a test wants done.
struct Listener {
    log: Mutex<Log>,
    on_assign: OnAssign,
    on_revoke: OnRevoke,
}

impl Listener {
    fn passive() -> Arc<Self> {
        Self::with(Box::new(as_committed), Box::new(|_, _, _| ()))
    }

    fn starting(on_assign: OnAssign) -> Arc<Self> {
        Self::with(on_assign, Box::new(|_, _, _| ()))
    }

    fn with(on_assign: OnAssign, on_revoke: OnRevoke) -> Arc<Self> {
        Arc::new(Self { log: Mutex::default(), on_assign, on_revoke })
    }

    fn held(&self) -> BTreeSet<i32> {
        self.log.lock().unwrap().held.clone()
    }

    fn assignments(&self) -> usize {
        self.log.lock().unwrap().assignments
    }
}

impl AssignmentListener for Listener {
    fn assigned(&self, control: &dyn ConsumerControl, partitions: &[i32]) -> Vec<(i32, Start)> {
        let mut log = self.log.lock().unwrap();
        for partition in partitions {
            assert!(log.held.insert(*partition), "{partition} was given twice");
        }
        log.assignments += 1;
        drop(log);
        (self.on_assign)(control, partitions)
    }

    fn revoked(&self, control: &dyn ConsumerControl, partitions: &[i32], lost: bool) {
        (self.on_revoke)(control, partitions, lost);
        let mut log = self.log.lock().unwrap();
        for partition in partitions {
            assert!(log.held.remove(partition), "{partition} was taken but not held");
        }
        log.lost += usize::from(lost);
    }
}

/// A consumer, what it got and what it reported.
struct Member {
    client: Box<dyn ConsumerClient>,
    listener: Arc<Listener>,
    records: Vec<OwnRecord>,
    errors: Vec<EngineError>,
}

impl Member {
    fn join(cluster: &MockCluster, to: &str, listener: Arc<Listener>) -> Self {
        Self::join_with(cluster, to, listener, &FAST_GROUP_PROPERTIES)
    }

    /// A member that is not taken for dead for want of a processor; alone in its group, or else it waits long for the
    /// others.
    fn join_steady(cluster: &MockCluster, to: &str, listener: Arc<Listener>) -> Self {
        let mut properties = FAST_GROUP_PROPERTIES.to_vec();
        properties.push(("session.timeout.ms", "30000"));
        Self::join_with(cluster, to, listener, &properties)
    }

    fn join_with(
        cluster: &MockCluster,
        to: &str,
        listener: Arc<Listener>,
        properties: &[(&str, &str)],
    ) -> Self {
        let mut all = owned(&[("auto.offset.reset", "earliest")]);
        all.extend(owned(properties));
        let spec = ConsumerSpec {
            cluster: spec(cluster),
            client_id: "test".to_owned(),
            group: group(),
            topic: topic(to),
            membership: Membership::Group,
            properties: all,
        };
        let heard: Arc<dyn AssignmentListener> = Arc::clone(&listener) as _;
        let client = KafkaEngine::new().open_consumer(&spec, heard).unwrap();
        Self { client, listener, records: Vec::new(), errors: Vec::new() }
    }

    fn poll(&mut self) {
        let mut polled = Vec::new();
        if let Err(error) = self.client.poll(Duration::from_millis(20), 1000, &mut polled) {
            self.errors.push(error);
        }
        self.records.extend(polled.iter().flat_map(Records::iter).map(OwnRecord::from));
    }

    fn poll_until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !reached(self) {
            assert!(
                Instant::now() < deadline,
                "{what}: got {} records, {:?}",
                self.records.len(),
                self.errors
            );
            self.poll();
        }
    }

    fn receive(&mut self, count: usize) {
        self.poll_until("receive", |member| member.records.len() >= count);
    }

    fn hold(&mut self, count: usize) {
        self.poll_until("hold partitions", |member| member.listener.held().len() == count);
    }

    fn texts(&self) -> Vec<String> {
        self.records.iter().map(text).collect()
    }
}

fn text(record: &OwnRecord) -> String {
    String::from_utf8(record.payload.clone().unwrap_or_default().to_vec()).unwrap()
}

/// Polls two members until a condition on both holds.
fn poll_both(
    first: &mut Member,
    second: &mut Member,
    what: &str,
    reached: impl Fn(&Member, &Member) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !reached(first, second) {
        assert!(
            Instant::now() < deadline,
            "{what}: first holds {:?}, second {:?}",
            first.listener.held(),
            second.listener.held()
        );
        first.poll();
        second.poll();
    }
}
