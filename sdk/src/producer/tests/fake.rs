//! Clusters whose every report is up to the test.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use zms_core::{name::TopicName, route::ClusterSpec};

use crate::{
    engine::port::{
        AssignmentListener, ClusterAdmin, ConsumerClient, ConsumerSpec, Engine, EngineError, FailureKind,
        OpenError, Outcome, ProducerClient, ProducerSpec, Refused, Ticket, TopicInfo,
    },
    message::Message,
};

/// A record as some cluster took it.
#[derive(Debug, Clone)]
pub(super) struct Delivered {
    pub(super) cluster: String,
    pub(super) message: Message,
}

#[derive(Debug, Default)]
pub(super) struct FakeEngine {
    clusters: Mutex<BTreeMap<String, Arc<FakeCluster>>>,
    /// What all clusters took, in one order.
    log: Arc<Mutex<Vec<Delivered>>>,
    pub(super) opened: AtomicUsize,
    pub(super) together: Arc<Meeting>,
    /// Opening is refused with these words.
    pub(super) refuse_open: Mutex<Option<String>>,
}

/// Where threads wait for one another, with patience.
#[derive(Debug, Default)]
pub(super) struct Meeting {
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    /// Whether `count` threads came.
    fn meet(&self, count: usize) -> bool {
        let mut arrived = lock(&self.arrived);
        *arrived += 1;
        self.changed.notify_all();
        let patience = Duration::from_secs(20);
        let (_arrived, timeout) =
            self.changed.wait_timeout_while(arrived, patience, |arrived| *arrived < count).unwrap();
        !timeout.timed_out()
    }
}

type Hook = Box<dyn FnOnce() + Send>;

pub(super) struct FakeCluster {
    name: String,
    log: Arc<Mutex<Vec<Delivered>>>,
    /// Nothing is reported any more, but by closing a client.
    pub(super) dead: AtomicBool,
    /// The next records are refused with these.
    pub(super) refusals: Mutex<VecDeque<EngineError>>,
    clients: Mutex<Vec<Weak<FakeClient>>>,
    warmed: Mutex<Vec<String>>,
    /// Runs inside the next hand-over, once the record is queued.
    pub(super) on_produce: Mutex<Option<Hook>>,
    /// Where closing waits, and for how many.
    close_with: Mutex<Option<(Arc<Meeting>, usize)>>,
    met: AtomicBool,
    pub(super) closed: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct FakeClient {
    cluster: Arc<FakeCluster>,
    queue: Mutex<VecDeque<(TopicName, Message, Ticket)>>,
    delivering: Mutex<()>,
    outstanding: AtomicUsize,
    closed: AtomicBool,
    fatal: Mutex<Option<EngineError>>,
}

pub(super) fn failure(kind: FailureKind, reason: &str) -> EngineError {
    EngineError { kind, reason: reason.to_owned() }
}

impl FakeEngine {
    pub(super) fn cluster(&self, name: &str) -> Arc<FakeCluster> {
        let mut clusters = lock(&self.clusters);
        let make = || {
            Arc::new(FakeCluster {
                name: name.to_owned(),
                log: self.log.clone(),
                dead: AtomicBool::new(false),
                refusals: Mutex::default(),
                clients: Mutex::default(),
                warmed: Mutex::default(),
                on_produce: Mutex::default(),
                close_with: Mutex::default(),
                met: AtomicBool::new(false),
                closed: AtomicUsize::new(0),
            })
        };
        clusters.entry(name.to_owned()).or_insert_with(make).clone()
    }

    pub(super) fn log(&self) -> Vec<Delivered> {
        lock(&self.log).clone()
    }

    pub(super) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// Reports whatever living clusters have.
    pub(super) fn pump(&self) {
        let clusters: Vec<_> = lock(&self.clusters).values().cloned().collect();
        for cluster in clusters {
            cluster.pump();
        }
    }
}

impl FakeCluster {
    pub(super) fn pump(&self) {
        if !self.dead.load(Ordering::SeqCst) {
            self.clients().iter().for_each(|client| client.deliver_all());
        }
    }

    /// Ends the oldest record of each client by an outcome.
    pub(super) fn report_first(&self, outcome: &Outcome) {
        for client in self.clients() {
            if let Some((_, _, ticket)) = client.next() {
                client.report(ticket, outcome.clone());
            }
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.clients().iter().map(|client| lock(&client.queue).len()).sum()
    }

    pub(super) fn fail_clients(&self) {
        for client in self.clients() {
            *lock(&client.fatal) = Some(failure(FailureKind::Fatal, "fenced"));
        }
    }

    pub(super) fn close_with(&self, meeting: &Arc<Meeting>, count: usize) {
        *lock(&self.close_with) = Some((meeting.clone(), count));
    }

    pub(super) fn met(&self) -> bool {
        self.met.load(Ordering::SeqCst)
    }

    pub(super) fn warmed(&self) -> Vec<String> {
        lock(&self.warmed).clone()
    }

    pub(super) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    fn clients(&self) -> Vec<Arc<FakeClient>> {
        lock(&self.clients).iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for FakeCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FakeClient {
    fn deliver_all(&self) {
        // One at a time: who takes a record out of the queue also logs it before the next is taken.
        let _turn = lock(&self.delivering);
        while let Some((_, message, ticket)) = self.next() {
            let cluster = self.cluster.name.clone();
            let offset = {
                let mut log = lock(&self.cluster.log);
                log.push(Delivered { cluster, message });
                i64::try_from(log.len()).ok()
            };
            self.report(ticket, Outcome::Delivered { partition: 0, offset, timestamp_ms: None });
        }
    }

    fn next(&self) -> Option<(TopicName, Message, Ticket)> {
        lock(&self.queue).pop_front()
    }

    fn report(&self, ticket: Ticket, outcome: Outcome) {
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
        ticket.complete(outcome);
    }
}

impl Engine for FakeEngine {
    fn open_producer(&self, spec: &ProducerSpec) -> Result<Arc<dyn ProducerClient>, OpenError> {
        let cluster = spec.cluster.name.to_string();
        if let Some(reason) = lock(&self.refuse_open).clone() {
            return Err(OpenError::Config { cluster, reason });
        }
        self.opened.fetch_add(1, Ordering::SeqCst);
        let cluster = self.cluster(&cluster);
        let client = Arc::new(FakeClient {
            cluster: cluster.clone(),
            queue: Mutex::default(),
            delivering: Mutex::default(),
            outstanding: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            fatal: Mutex::default(),
        });
        lock(&cluster.clients).push(Arc::downgrade(&client));
        Ok(client)
    }

    fn open_consumer(
        &self,
        spec: &ConsumerSpec,
        _: Arc<dyn AssignmentListener>,
    ) -> Result<Box<dyn ConsumerClient>, OpenError> {
        let cluster = spec.cluster.name.to_string();
        Err(OpenError::Config { cluster, reason: "only producers are faked".to_owned() })
    }

    fn open_admin(&self, cluster: &ClusterSpec) -> Result<Arc<dyn ClusterAdmin>, OpenError> {
        let cluster = cluster.name.to_string();
        Err(OpenError::Config { cluster, reason: "only producers are faked".to_owned() })
    }
}

impl ProducerClient for FakeClient {
    fn produce(&self, topic: &TopicName, message: Message, ticket: Ticket) -> Result<(), Refused> {
        if let Some(error) = self.fatal() {
            return Err(Refused { error, message, ticket });
        }
        if let Some(error) = lock(&self.cluster.refusals).pop_front() {
            return Err(Refused { error, message, ticket });
        }
        let mut queue = lock(&self.queue);
        if self.closed.load(Ordering::SeqCst) {
            drop(queue);
            return Err(Refused { error: failure(FailureKind::Purged, "closed"), message, ticket });
        }
        self.outstanding.fetch_add(1, Ordering::SeqCst);
        queue.push_back((topic.clone(), message, ticket));
        drop(queue);
        let hook = lock(&self.cluster.on_produce).take();
        if let Some(hook) = hook {
            hook();
        }
        Ok(())
    }

    fn warm(&self, topic: &TopicName, limit: Duration) -> Result<TopicInfo, EngineError> {
        lock(&self.cluster.warmed).push(topic.to_string());
        if self.cluster.dead.load(Ordering::SeqCst) {
            return Err(failure(FailureKind::Unreachable, &format!("no answer in {limit:?}")));
        }
        Ok(TopicInfo { partitions: 1, leaderless: Vec::new(), replication: 1 })
    }

    fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::SeqCst)
    }

    fn fatal(&self) -> Option<EngineError> {
        lock(&self.fatal).clone()
    }

    fn close(&self, _: Duration) -> usize {
        let meeting = lock(&self.cluster.close_with).take();
        if let Some((meeting, count)) = meeting {
            self.cluster.met.store(meeting.meet(count), Ordering::SeqCst);
        }
        let given_up: Vec<_> = {
            let mut queue = lock(&self.queue);
            if self.closed.swap(true, Ordering::SeqCst) {
                return 0;
            }
            self.cluster.closed.fetch_add(1, Ordering::SeqCst);
            if self.cluster.dead.load(Ordering::SeqCst) || self.fatal().is_some() {
                queue.drain(..).collect()
            } else {
                Vec::new()
            }
        };
        self.deliver_all();
        let count = given_up.len();
        for (place, (_, _, ticket)) in given_up.into_iter().enumerate() {
            // The first may be on the wire.
            let error = failure(FailureKind::Purged, "given up at close");
            self.report(ticket, if place == 0 { Outcome::Unknown(error) } else { Outcome::NotSent(error) });
        }
        count
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
