//! A real Kafka cluster of combined brokers and controllers (`KRaft`).

mod admin;
mod broker;
mod builder;

use std::sync::Arc;
use std::thread;

use super::error::ServiceError;

pub use broker::Broker;
pub use builder::KafkaBuilder;

/// A Kafka cluster on loopback ports. Clones share it; the last one to be dropped kills its brokers.
///
/// Group timings are short (no delay of the first rebalance, sessions from 500 ms), a dead broker's partitions move
/// after about three seconds, and topics are created on request only.
#[derive(Clone, Debug)]
pub struct KafkaCluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: String,
    brokers: Vec<Broker>,
}

impl KafkaCluster {
    /// Starts an empty cluster and waits until it serves. One broker does for most tests; three survive the loss of
    /// one.
    ///
    /// # Errors
    /// When Java or Maven is missing, or a broker does not come up within two minutes: the error shows its log.
    pub fn start(brokers: usize) -> Result<Self, ServiceError> {
        Self::builder().brokers(brokers).start()
    }

    /// A cluster with settings of its own.
    pub fn builder() -> KafkaBuilder {
        KafkaBuilder::default()
    }

    /// Kafka's own cluster id, the same after each restart.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The addresses for clients, through the proxies if there are any.
    pub fn bootstrap(&self) -> String {
        self.addresses(Broker::address)
    }

    /// The addresses of a second listener that no proxy stands before: for looking at a cluster that clients cannot
    /// reach.
    pub fn direct_bootstrap(&self) -> String {
        self.addresses(Broker::direct_address)
    }

    /// The brokers; node ids count from 1, this slice from 0.
    pub fn brokers(&self) -> &[Broker] {
        &self.inner.brokers
    }

    /// The broker at `index`, counted from 0.
    ///
    /// # Panics
    /// When the cluster has no more than `index` brokers.
    pub fn broker(&self, index: usize) -> &Broker {
        &self.inner.brokers[index]
    }

    /// The process ids of the brokers that run.
    pub fn pids(&self) -> Vec<u32> {
        self.brokers().iter().filter_map(Broker::pid).collect()
    }

    /// Kills all brokers (SIGKILL).
    pub fn kill(&self) {
        self.brokers().iter().for_each(Broker::kill);
    }

    /// Stops all brokers (SIGTERM), all at once.
    ///
    /// # Errors
    /// When a signal cannot be sent.
    pub fn stop(&self) -> Result<(), ServiceError> {
        self.each(Broker::stop)
    }

    /// Freezes all brokers (SIGSTOP).
    ///
    /// # Errors
    /// When one is not running.
    pub fn pause(&self) -> Result<(), ServiceError> {
        self.each(Broker::pause)
    }

    /// Lets all frozen brokers go on (SIGCONT).
    ///
    /// # Errors
    /// When one is not running.
    pub fn resume(&self) -> Result<(), ServiceError> {
        self.each(Broker::resume)
    }

    /// Starts all brokers that do not run, on the same ports with the same data, and waits until they serve.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&self) -> Result<(), ServiceError> {
        self.each(Broker::restart)
    }

    /// Creates a topic, on every broker (three at most), and waits until all its partitions have leaders.
    ///
    /// # Errors
    /// When the cluster refuses, for example because the topic exists, or does not answer within 30 seconds.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), ServiceError> {
        self.create_topic_with(name, partitions, &[])
    }

    /// As [`create_topic`](Self::create_topic), with topic settings such as `("cleanup.policy", "compact")`.
    ///
    /// # Errors
    /// As [`create_topic`](Self::create_topic).
    pub fn create_topic_with(
        &self,
        name: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Result<(), ServiceError> {
        admin::create_topic(&self.direct_bootstrap(), name, partitions, settings)
    }

    /// Deletes a topic, and waits until no broker knows it any more.
    ///
    /// # Errors
    /// When the cluster refuses, for example because there is no such topic, or does not answer within a minute.
    pub fn delete_topic(&self, name: &str) -> Result<(), ServiceError> {
        admin::delete_topic(&self.direct_bootstrap(), name)
    }

    fn addresses(&self, address: impl Fn(&Broker) -> String) -> String {
        self.brokers().iter().map(address).collect::<Vec<_>>().join(",")
    }

    /// Brokers wait for one another, so they are steered in parallel.
    fn each(&self, act: impl Fn(&Broker) -> Result<(), ServiceError> + Sync) -> Result<(), ServiceError> {
        thread::scope(|scope| {
            let acts: Vec<_> = self.brokers().iter().map(|broker| scope.spawn(|| act(broker))).collect();
            acts.into_iter()
                .try_for_each(|act| act.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }
}
