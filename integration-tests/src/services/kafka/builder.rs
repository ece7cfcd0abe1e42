//! Settings of a test cluster.

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::super::error::{Attempting, ServiceError};
use super::super::install;
use super::super::port::PortLease;
use super::broker::{Broker, Ports, Storage};
use super::{Inner, KafkaCluster};
use crate::proxy::Proxy;

/// Builds a [`KafkaCluster`].
#[derive(Clone, Debug)]
pub struct KafkaBuilder {
    brokers: usize,
    proxied: bool,
    properties: Vec<(String, String)>,
    place: Option<Place>,
}

/// Where a cluster that people use by hand lives.
#[derive(Clone, Debug)]
struct Place {
    directory: PathBuf,
    first_port: u16,
}

impl Default for KafkaBuilder {
    fn default() -> Self {
        Self { brokers: 1, proxied: false, properties: Vec::new(), place: None }
    }
}

impl KafkaBuilder {
    /// How many brokers; default 1. Topics and the group offsets are replicated on up to three.
    #[must_use]
    pub fn brokers(mut self, brokers: usize) -> Self {
        self.brokers = brokers.max(1);
        self
    }

    /// Puts a [`Proxy`] in front of each broker, whose port is the one that clients are told.
    #[must_use]
    pub fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// Sets a broker property; overrides the defaults of this harness.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// Puts the cluster into a directory and, if they are free, on ports that people can find again.
    pub(crate) fn at(mut self, directory: &Path, first_port: u16) -> Self {
        self.place = Some(Place { directory: directory.to_owned(), first_port });
        self
    }

    /// Starts the cluster and waits until all brokers serve.
    ///
    /// # Errors
    /// As [`KafkaCluster::start`].
    pub fn start(self) -> Result<KafkaCluster, ServiceError> {
        install::java_class_path()?;
        let id = random_cluster_id();
        let ports = (0..self.brokers).map(|index| self.take_ports(index)).collect::<Result<Vec<_>, _>>()?;
        let voters = voters(&ports);
        let brokers: Result<Vec<_>, _> = thread::scope(|scope| {
            let (id, voters, builder) = (&id, &voters, &self);
            let prepare = |(index, ports)| scope.spawn(move || builder.prepare(index, ports, voters, id));
            let preparing: Vec<_> = (1..).zip(ports).map(prepare).collect();
            let joined = preparing.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|broker| broker.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let cluster = KafkaCluster { inner: Arc::new(Inner { id, brokers: brokers? }) };
        cluster.restart()?;
        Ok(cluster)
    }

    fn take_ports(&self, index: usize) -> Result<Ports, ServiceError> {
        let offset = u16::try_from(index).unwrap_or(u16::MAX);
        let client = match &self.place {
            Some(place) => PortLease::preferring(place.first_port.saturating_add(offset))?,
            None => PortLease::any()?,
        };
        let proxy = self.proxied.then(|| Proxy::start(client.port())).transpose()?;
        Ok(Ports { client, direct: PortLease::any()?, controller: PortLease::any()?, proxy })
    }

    fn prepare(&self, id: i32, ports: Ports, voters: &str, cluster_id: &str) -> Result<Broker, ServiceError> {
        let directory = match &self.place {
            Some(place) => place.directory.join(format!("broker-{id}")),
            None => install::run_directory(&format!("kafka-{id}"))?,
        };
        std::fs::create_dir_all(&directory).attempting(format_args!("create {}", directory.display()))?;
        let properties = self.server_properties(id, &ports, voters, &directory);
        Broker::prepare(id, ports, &directory, &Storage { cluster_id, properties: &properties })
    }

    fn server_properties(&self, id: i32, ports: &Ports, voters: &str, directory: &Path) -> String {
        let (client, direct, controller) =
            (ports.client.port(), ports.direct.port(), ports.controller.port());
        let listener = |name: &str, port: u16| format!("{name}://127.0.0.1:{port}");
        let (told, peers) = (listener("CLIENT", ports.advertised()), listener("DIRECT", direct));
        let listeners =
            [listener("CLIENT", client), peers.clone(), listener("CONTROLLER", controller)].join(",");
        let replicas = self.brokers.min(3).to_string();

        let mut text = format!(
            "node.id={id}\ncontroller.quorum.voters={voters}\nlisteners={listeners}\n\
             advertised.listeners={told},{peers}\nlog.dirs={}\n",
            directory.join("data").display()
        );
        let replicated = REPLICATED.iter().map(|name| (*name, replicas.as_str()));
        let own = self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in FIXED.iter().copied().chain(replicated).chain(own) {
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }
}

const REPLICATED: &[&str] = &[
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.replication.factor",
];

/// Small, quick to start, and with short waits; everything else is Kafka's default.
const FIXED: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "DIRECT"),
    ("listener.security.protocol.map", "CLIENT:PLAINTEXT,DIRECT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    ("auto.create.topics.enable", "false"),
    // Groups.
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "500"),
    ("group.consumer.min.heartbeat.interval.ms", "100"),
    ("group.consumer.heartbeat.interval.ms", "300"),
    ("group.consumer.min.session.timeout.ms", "1000"),
    ("group.consumer.session.timeout.ms", "6000"),
    ("offsets.topic.num.partitions", "4"),
    ("transaction.state.log.num.partitions", "2"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.num.partitions", "2"),
    ("share.coordinator.state.topic.min.isr", "1"),
    // A dead broker is noticed soon, a busy machine's is not taken for dead.
    ("broker.heartbeat.interval.ms", "500"),
    ("broker.session.timeout.ms", "3000"),
    // Small.
    ("num.network.threads", "2"),
    ("num.io.threads", "2"),
    ("background.threads", "2"),
    ("log.cleaner.dedupe.buffer.size", "4194304"),
    ("log.index.size.max.bytes", "1048576"),
];

fn voters(ports: &[Ports]) -> String {
    let voter = |(id, ports): (i32, &Ports)| format!("{id}@{}", ports.controller.address());
    (1..).zip(ports).map(voter).collect::<Vec<_>>().join(",")
}

/// A random UUID as Kafka writes it: 22 characters of base 64, the last of which carries two bits only.
fn random_cluster_id() -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let random = RandomState::new();
    let letter = |index: u64| char::from(LETTERS[usize::try_from(random.hash_one(index) % 32).unwrap_or(0)]);
    (0..21).map(letter).chain(['A']).collect()
}
