//! From specs to librdkafka's configuration.

use rdkafka::{
    ClientConfig,
    client::ClientContext,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::KafkaError,
};
use zms_core::route::ClusterSpec;

use super::secret;
use crate::engine::port::{ConsumerSpec, OpenError, ProducerSpec};

/// How long a fetcher rests that finds its queue full. librdkafka's default of 1 s makes it stand still with every
/// full queue, however fast the queue is emptied.
const QUEUE_FULL_PAUSE: (&str, &str) = ("fetch.queue.backoff.ms", "10");

/// What a partition's queue holds when its fetcher rests; one more fetch may be under way then. Each partition has a
/// queue of its own, and the library's limits, 64 MiB and 100,000 messages, are meant for one queue of all. A message
/// fetched ahead costs some 500 bytes beside its own, so that the number counts for small ones. The size is also the
/// limit of a broker's answer to one fetch, unless that is set apart.
const QUEUE_FULL: [(&str, &str); 2] =
    [("queued.max.messages.kbytes", "4096"), ("queued.min.messages", "10000")];
/// How long a broker may keep a fetch that finds nothing. There is one fetch at a time for each broker, so that one sent
/// while the busy partitions' queues were full, for idle partitions alone, keeps the busy ones waiting for that long. With
/// the library's 500 ms their queues ran dry meanwhile.
const FETCH_WAIT: (&str, &str) = ("fetch.wait.max.ms", "100");

/// Hash of keys as in Java's client, so that both put a key on the same partition.
const PARTITIONER: (&str, &str) = ("partitioner", "murmur2_random");
/// How long a new client waits for a topic that its cluster does not know. The library's own limit, 30 s, is not below
/// the delivery timeout, so that a message to a missing topic would end as one that just took too long.
const UNKNOWN_TOPIC_LIMIT: (&str, &str) = ("topic.metadata.propagation.max.ms", "5000");
/// The longest wait between two attempts to connect. With the library's own, 10 s, sends in flight to a dead broker ended
/// up to that much after their delivery timeout, and a broker that came back was not noticed for as long.
const RECONNECT: (&str, &str) = ("reconnect.backoff.max.ms", "2000");
const ASSIGNMENT: (&str, &str) = ("partition.assignment.strategy", "cooperative-sticky");

/// A client's properties, ready to open it. No `Debug`: values may be secrets.
pub(super) struct Settings {
    cluster: String,
    config: ClientConfig,
    /// Properties whose value came from a reference.
    secret: Vec<String>,
}

impl Settings {
    /// For a producer.
    pub(super) fn producer(spec: &ProducerSpec) -> Result<Self, OpenError> {
        let mut settings = Self::new(&spec.cluster);
        for (property, value) in [PARTITIONER, UNKNOWN_TOPIC_LIMIT] {
            settings.put(property, value);
        }
        settings.layer(&spec.cluster, &spec.properties)?;
        settings.put("client.id", &spec.client_id);
        Ok(settings)
    }

    /// For a member of a group.
    pub(super) fn consumer(spec: &ConsumerSpec) -> Result<Self, OpenError> {
        let mut settings = Self::new(&spec.cluster);
        for (property, value) in QUEUE_FULL.into_iter().chain([QUEUE_FULL_PAUSE, FETCH_WAIT]) {
            settings.put(property, value);
        }
        settings.layer(&spec.cluster, &spec.properties)?;
        settings.default_assignment();
        settings.put("client.id", &spec.client_id);
        settings.put("group.id", spec.group.as_str());
        settings.put("enable.auto.commit", "false");
        settings.put("enable.auto.offset.store", "false");
        settings.put("enable.partition.eof", "false");
        // Asked when the log leaves a running reader behind: retention overtook it, or the topic was created again. The
        // library's default leaps to the end, past messages that nobody has handled.
        settings.put("auto.offset.reset", "earliest");
        Ok(settings)
    }

    /// Whether librdkafka knows these properties and takes their values. References are left out: what they stand for may
    /// be there later.
    pub(super) fn check(properties: &[(String, String)]) -> Result<(), String> {
        let mut config = ClientConfig::new();
        for (property, value) in properties.iter().filter(|(_, value)| !secret::is_reference(value)) {
            config.set(property, value);
        }
        let settings = Self { cluster: String::new(), config, secret: Vec::new() };
        let checked = settings.config.create_native_config();
        checked.map(drop).map_err(|error| settings.reason(&error))
    }

    /// For questions: sees the whole log, also what open transactions hold back, and reports only by return values,
    /// because nobody polls such a client for its log lines.
    pub(super) fn questions(cluster: &ClusterSpec) -> Result<Self, OpenError> {
        let mut settings = Self::new(cluster);
        settings.put("client.id", "zms-admin");
        settings.layer(cluster, &[])?;
        settings.put("isolation.level", "read_uncommitted");
        settings.config.set_log_level(RDKafkaLogLevel::Emerg);
        Ok(settings)
    }

    /// The same under a group's name.
    pub(super) fn for_group(mut self, group: &str) -> Self {
        self.put("group.id", group);
        self.put("enable.auto.commit", "false");
        self
    }

    /// Opens the client.
    pub(super) fn open<C, T>(&self, context: C) -> Result<T, OpenError>
    where
        C: ClientContext,
        T: FromClientConfigAndContext<C>,
    {
        self.config.create_with_context(context).map_err(|error| self.refused(&error))
    }

    /// Why librdkafka refused.
    pub(super) fn refused(&self, error: &KafkaError) -> OpenError {
        OpenError::Config { cluster: self.cluster.clone(), reason: self.reason(error) }
    }

    fn reason(&self, error: &KafkaError) -> String {
        match error {
            KafkaError::ClientConfig(_, words, property, _) if self.may_show(property) => {
                format!("property {property}: {words}")
            }
            KafkaError::ClientConfig(_, _, property, _) => {
                format!("property {property} has an invalid value")
            }
            other => self.without_secrets(other.to_string()),
        }
    }

    /// Why a client cannot be used, in our own words.
    pub(super) fn unusable(&self, reason: &str) -> OpenError {
        OpenError::Config { cluster: self.cluster.clone(), reason: reason.to_owned() }
    }

    fn new(cluster: &ClusterSpec) -> Self {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Info);
        Self { cluster: cluster.name.to_string(), config, secret: Vec::new() }
    }

    fn put(&mut self, property: &str, value: &str) {
        self.config.set(property, value);
    }

    /// The cluster's properties, the caller's over them, and what holds for every client.
    fn layer(&mut self, cluster: &ClusterSpec, own: &[(String, String)]) -> Result<(), OpenError> {
        let own = own.iter().map(|(property, value)| (property, value));
        for (property, value) in cluster.properties.iter().chain(own) {
            self.resolved(property, value)?;
        }
        self.default_reconnect();
        if self.config.get("debug").is_some() {
            self.config.set_log_level(RDKafkaLogLevel::Debug);
        }
        self.put("bootstrap.servers", &cluster.bootstrap);
        self.put("allow.auto.create.topics", "false");
        Ok(())
    }

    fn resolved(&mut self, property: &str, value: &str) -> Result<(), OpenError> {
        let plain = secret::resolve(value).map_err(|unreadable| OpenError::Secret {
            cluster: self.cluster.clone(),
            property: property.to_owned(),
            reference: unreadable.0,
        })?;
        if secret::is_reference(value) {
            self.secret.push(property.to_owned());
        }
        self.put(property, &plain);
        Ok(())
    }

    /// The library refuses a longest wait below the first one, so one that is set stands alone.
    fn default_reconnect(&mut self) {
        if [RECONNECT.0, "reconnect.backoff.ms"].iter().all(|set| self.config.get(set).is_none()) {
            self.put(RECONNECT.0, RECONNECT.1);
        }
    }

    /// The broker assigns under the consumer protocol; librdkafka then refuses a strategy.
    fn default_assignment(&mut self) {
        let by_broker =
            self.config.get("group.protocol").is_some_and(|it| it.eq_ignore_ascii_case("consumer"));
        if !by_broker && self.config.get(ASSIGNMENT.0).is_none() {
            self.put(ASSIGNMENT.0, ASSIGNMENT.1);
        }
    }

    /// What librdkafka said up to where it quotes the value of a reference, be it only the beginning of it.
    fn without_secrets(&self, mut words: String) -> String {
        for value in self.secret.iter().filter_map(|property| self.config.get(property)) {
            let beginning: String = value.trim_start().chars().take(16).collect();
            if let Some(at) = words.find(&beginning).filter(|_| !beginning.is_empty()) {
                words.truncate(at);
                words.push_str("(the value of a reference)");
            }
        }
        words
    }

    /// librdkafka quotes the value in its words.
    fn may_show(&self, property: &str) -> bool {
        const SENSITIVE: [&str; 8] =
            ["password", "secret", "token", "key", "pem", "username", "jaas", "oauth"];
        !self.secret.iter().any(|secret| secret == property)
            && !SENSITIVE.iter().any(|word| property.contains(word))
    }
}
