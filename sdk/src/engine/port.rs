//! The port: what the SDK needs of a broker's clients.
//!
//! Adapters translate and decide nothing. Calls marked *blocking* may wait up to their limit and belong on threads of
//! their own, never on an async worker.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use zms_core::{
    name::{GroupName, TopicName},
    route::ClusterSpec,
};

#[cfg(test)]
pub(crate) use super::records::OwnRecord;
pub use super::records::{Record, Records, RecordsBuilder};
use crate::message::Message;

/// Opens clients of one kind of broker. Blocking calls.
pub trait Engine: Send + Sync + fmt::Debug + 'static {
    /// Opens a producer. Does not wait for the cluster to be reachable, but for a short time when its identity is stated.
    ///
    /// # Errors
    /// [`OpenError`] when the configuration is refused, or the cluster is not the one stated.
    fn open_producer(&self, spec: &ProducerSpec) -> Result<Arc<dyn ProducerClient>, OpenError>;

    /// Opens a consumer of `spec.topic`, a member of `spec.group` or not, as `spec.membership` says. Waits as
    /// [`open_producer`](Self::open_producer).
    ///
    /// # Errors
    /// [`OpenError`] when the configuration is refused, or the cluster is not the one stated.
    fn open_consumer(
        &self,
        spec: &ConsumerSpec,
        listener: Arc<dyn AssignmentListener>,
    ) -> Result<Box<dyn ConsumerClient>, OpenError>;

    /// Checks properties of consumers as far as can be told without opening a client. Does not block.
    ///
    /// # Errors
    /// In words, the first property that no consumer can be opened with, whatever the cluster's properties are.
    fn check_consumer_properties(&self, _properties: &[(String, String)]) -> Result<(), String> {
        Ok(())
    }

    /// Opens a handle for questions and administration.
    ///
    /// # Errors
    /// [`OpenError`] when the configuration is refused.
    fn open_admin(&self, cluster: &ClusterSpec) -> Result<Arc<dyn ClusterAdmin>, OpenError>;
}

/// What a producer is opened with.
#[derive(Clone)]
pub struct ProducerSpec {
    /// The cluster.
    pub cluster: Arc<ClusterSpec>,
    /// `client.id`.
    pub client_id: String,
    /// librdkafka properties of the profile; they win over the cluster's.
    pub properties: Vec<(String, String)>,
}

/// What a consumer is opened with.
#[derive(Clone)]
pub struct ConsumerSpec {
    /// The cluster.
    pub cluster: Arc<ClusterSpec>,
    /// `client.id`.
    pub client_id: String,
    /// `group.id`: whose member it is, and under which name positions are committed and asked for.
    pub group: GroupName,
    /// The one topic that it reads.
    pub topic: TopicName,
    /// How it comes by its partitions.
    pub membership: Membership,
    /// librdkafka properties of the subscription; they win over the cluster's.
    pub properties: Vec<(String, String)>,
}

/// How a consumer comes by its partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Membership {
    /// The group gives and takes them.
    #[default]
    Group,
    /// It is no member of a group, and has those that [`ConsumerClient::assign`] says.
    Alone,
}

impl fmt::Debug for ProducerSpec {
    /// Property values are left out: a caller may have put a secret there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerSpec")
            .field("cluster", &self.cluster)
            .field("client_id", &self.client_id)
            .field("properties", &names(&self.properties))
            .finish()
    }
}

impl fmt::Debug for ConsumerSpec {
    /// Property values are left out: a caller may have put a secret there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerSpec")
            .field("cluster", &self.cluster)
            .field("client_id", &self.client_id)
            .field("group", &self.group)
            .field("topic", &self.topic)
            .field("membership", &self.membership)
            .field("properties", &names(&self.properties))
            .finish()
    }
}

fn names(properties: &[(String, String)]) -> Vec<&str> {
    properties.iter().map(|(name, _)| name.as_str()).collect()
}

/// Why a client could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A property is unknown, out of range, or not available in this build.
    #[error("cluster {cluster}: client configuration refused: {reason}")]
    Config {
        /// The cluster.
        cluster: String,
        /// The client library's words.
        reason: String,
    },
    /// The cluster says that it is another one than the registry states: an address was reused, or mistyped.
    #[error(
        "cluster {cluster}: the registry states Kafka cluster id {stated}, the brokers at its address say {found}; correct `bootstrap`, or the id with `zmsctl cluster set {cluster} --kafka-id {found}`"
    )]
    OtherCluster {
        /// The cluster.
        cluster: String,
        /// The id that the registry states.
        stated: String,
        /// The id found.
        found: String,
    },
    /// A `${env:…}` or `${file:…}` reference could not be resolved. The value is never shown.
    #[error("cluster {cluster}: property {property} refers to {reference}, which cannot be read")]
    Secret {
        /// The cluster.
        cluster: String,
        /// The property.
        property: String,
        /// The reference, such as `${env:KAFKA_PW}`.
        reference: String,
    },
}

/// What kind of broker-side or client-side failure happened, as far as decisions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// No broker answered in time.
    Unreachable,
    /// The message is larger than the client's or the topic's limit, or the text of a commit than the broker's.
    TooLarge,
    /// The topic (or partition) does not exist on this cluster.
    UnknownTopic,
    /// Not allowed to do this, or not known to the brokers at all.
    Denied,
    /// The brokers do not take the client as it is set: a session timeout out of their range, another assignment strategy
    /// than the group's, a mechanism or a version that they do not support.
    Unsuited,
    /// The broker refused the record for good (closed topic, invalid record, policy).
    Rejected,
    /// The client's own queue is full.
    QueueFull,
    /// The client is closing and gave the record up.
    Purged,
    /// The group moved on without this member (rebalance, generation, fencing).
    Superseded,
    /// Another client has joined the group as the same static member. This one has failed for good; to open another one
    /// would fence that one in turn.
    Fenced,
    /// The client has failed for good and must be replaced.
    Fatal,
    /// Anything else; may pass.
    Other,
}

impl FailureKind {
    /// Whether it stays until somebody mends its cause; the client goes on trying where it can.
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::Denied | Self::Unsuited | Self::Fenced | Self::Fatal)
    }
}

/// A failure in the engine: its kind, and the words of the client library.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct EngineError {
    /// What decisions depend on.
    pub kind: FailureKind,
    /// The client library's words, with its error code.
    pub reason: String,
}

/// How a record handed over ended. Exactly one for each.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The broker acknowledged it.
    Delivered {
        /// Partition.
        partition: i32,
        /// Offset, where the broker told.
        offset: Option<i64>,
        /// Timestamp in milliseconds since the Unix epoch, where known.
        timestamp_ms: Option<i64>,
    },
    /// It certainly never was persisted: safe to send again.
    NotSent(EngineError),
    /// It may have been persisted.
    Unknown(EngineError),
}

/// Learns how one record ended. Whoever made the ticket gets its own type back from [`Ticket::into_completion`].
pub trait Completion: Any + Send {
    /// Called exactly once, on the client's own thread: must not block.
    fn complete(self: Box<Self>, outcome: Outcome);
}

/// A promise of exactly one [`Outcome`]. Dropped without one, it completes as [`Outcome::Unknown`], so that no sender
/// ever waits for nothing.
pub struct Ticket(Option<Box<dyn Completion>>);

impl Ticket {
    /// Wraps a completion.
    pub fn new(completion: Box<dyn Completion>) -> Self {
        Self(Some(completion))
    }

    /// Fulfils the promise.
    pub fn complete(mut self, outcome: Outcome) {
        if let Some(completion) = self.0.take() {
            completion.complete(outcome);
        }
    }

    /// Takes the promise back: for whoever gets its record back in [`Refused`] and tries another client.
    pub fn into_completion(mut self) -> Option<Box<dyn Completion>> {
        self.0.take()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(completion) = self.0.take() {
            completion.complete(Outcome::Unknown(EngineError {
                kind: FailureKind::Other,
                reason: "the client dropped the record without a report".to_owned(),
            }));
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

/// A record that was not taken: everything comes back.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: EngineError,
    /// The message, unchanged.
    pub message: Message,
    /// Its ticket, not completed.
    pub ticket: Ticket,
}

/// A producer on one cluster, shared by many topics.
pub trait ProducerClient: Send + Sync + fmt::Debug {
    /// Hands a record over. Never blocks. Records of one partition are sent in the order of these calls.
    ///
    /// # Errors
    /// [`Refused`] with the message and ticket when the client did not take it.
    #[expect(clippy::result_large_err, reason = "the refused message goes back to its owner")]
    fn produce(&self, topic: &TopicName, message: Message, ticket: Ticket) -> Result<(), Refused>;

    /// Blocking: fetches metadata of a topic, so that its first record does not wait for it.
    ///
    /// # Errors
    /// [`EngineError`] when the cluster is unreachable or the topic unknown on it.
    fn warm(&self, topic: &TopicName, limit: Duration) -> Result<TopicInfo, EngineError>;

    /// Records handed over and not yet reported.
    fn outstanding(&self) -> usize;

    /// Blocking: has what waits for its batch to fill sent without further waiting, until nothing is outstanding or the
    /// limit has passed. Does nothing where records do not wait.
    fn hurry(&self, _limit: Duration) {}

    /// The failure after which this client cannot work any more, if there was one.
    fn fatal(&self) -> Option<EngineError>;

    /// Blocking: sends what is queued, and at the limit gives the rest up. When it returns every ticket is completed.
    /// The number given up. Idempotent.
    fn close(&self, limit: Duration) -> usize;
}

/// A topic as its cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicInfo {
    /// Number of partitions.
    pub partitions: i32,
    /// Partitions without a leader now.
    pub leaderless: Vec<i32>,
    /// Smallest number of replicas of any partition.
    pub replication: i32,
}

/// A committed position: the offset of the next message to handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Partition.
    pub partition: i32,
    /// Offset of the next message to handle.
    pub offset: i64,
    /// Text kept with it; empty when none.
    pub metadata: String,
}

/// Where a partition's reading starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The oldest message still there.
    Earliest,
    /// The end.
    Latest,
    /// This offset.
    At(i64),
}

/// The log of one partition: `[low, high)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// Offset of the oldest message still there.
    pub low: i64,
    /// High watermark: the offset that the next message will get.
    pub high: i64,
}

/// Learns of assignments. Called inside [`ConsumerClient::poll`], [`ConsumerClient::assign`] and
/// [`ConsumerClient::close`], on their thread.
pub trait AssignmentListener: Send + Sync {
    /// These partitions are given to this member, none when the group has more members than partitions; the answer tells
    /// where each starts. Partitions not answered for start at their end: pause them inside this call, and seek when it is
    /// known. All others are delivered from then on, whatever was paused in an earlier assignment.
    fn assigned(&self, control: &dyn ConsumerControl, partitions: &[i32]) -> Vec<(i32, Start)>;

    /// These partitions are taken away when this returns. `lost`: they are gone already and commits are in vain.
    fn revoked(&self, control: &dyn ConsumerControl, partitions: &[i32], lost: bool);
}

/// Questions and orders that a consumer's own thread may give at any time, also inside [`AssignmentListener`] calls.
pub trait ConsumerControl {
    /// Stops delivery of these partitions; what was fetched ahead may be kept. Partitions that are not assigned are
    /// passed over.
    fn pause(&self, partitions: &[i32]);

    /// Starts delivery again.
    fn resume(&self, partitions: &[i32]);

    /// Moves the fetch position of an assigned partition.
    ///
    /// # Errors
    /// [`EngineError`] when the partition is not assigned or the broker did not answer.
    fn seek(&self, partition: i32, start: Start, limit: Duration) -> Result<(), EngineError>;

    /// Blocking: commits these positions and waits for the broker's answer, some seconds at most; it may still take
    /// effect after that. Only for partitions that are held: a commit by a member that has just lost its place makes
    /// it begin its joining anew, so one that retries without polling may never get in again.
    ///
    /// # Errors
    /// [`EngineError`] when one of them failed; with [`FailureKind::Superseded`] the group has moved on.
    fn commit(&self, positions: &[Position]) -> Result<(), EngineError>;

    /// Blocking: committed positions of the group; partitions without one are left out.
    ///
    /// # Errors
    /// [`EngineError`] when the broker does not answer in time.
    fn committed(&self, partitions: &[i32], limit: Duration) -> Result<Vec<Position>, EngineError>;

    /// Blocking: the logs of these partitions, up to the high watermark; those that do not answer may be left out.
    ///
    /// # Errors
    /// [`EngineError`] when none answers in time. One partition without a leader may use up the time of all.
    fn log_ranges(&self, partitions: &[i32], limit: Duration) -> Result<Vec<(i32, LogRange)>, EngineError>;

    /// Blocking: for each of these partitions the offset of its first message whose timestamp is not before
    /// `timestamp_ms`, `None` where there is none; those that do not answer may be left out.
    ///
    /// # Errors
    /// [`EngineError`] when none answers in time.
    fn offsets_for_times(
        &self,
        partitions: &[i32],
        timestamp_ms: i64,
        limit: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError>;
}

/// A consumer of one topic on one cluster, a member of a group or not. Belongs to one thread.
pub trait ConsumerClient: ConsumerControl + Send {
    /// Waits up to `limit` for a first record, then takes what is there, up to `max` records, into `into`. Must be
    /// called at least once in `max.poll.interval.ms`, also while everything is paused.
    ///
    /// # Errors
    /// [`EngineError`] for whatever the client reports; all but [`FailureKind::Fatal`] and [`FailureKind::Fenced`] pass,
    /// keep polling.
    fn poll(&mut self, limit: Duration, max: usize, into: &mut Vec<Records>) -> Result<(), EngineError>;

    /// As [`commit`](ConsumerControl::commit), but does not wait for the answer, which [`poll_commit`] gives. One that
    /// is still on its way is given up: it may take effect, and nobody learns of it.
    ///
    /// [`poll_commit`]: Self::poll_commit
    ///
    /// # Errors
    /// [`EngineError`] when the client does not take it.
    fn begin_commit(&mut self, positions: &[Position]) -> Result<(), EngineError>;

    /// The answer to the last [`begin_commit`](Self::begin_commit), once; `None` while there is none. Never waits.
    fn poll_commit(&mut self) -> Option<Result<(), EngineError>>;

    /// Of a consumer opened as [`Membership::Alone`]: takes these partitions, beside those that it has.
    /// [`AssignmentListener::assigned`] is called for them before this returns; those that it does not answer for start at
    /// the end. Nobody takes them away again.
    ///
    /// # Errors
    /// [`EngineError`] when the client refuses.
    fn assign(&mut self, partitions: &[i32]) -> Result<(), EngineError>;

    /// Blocking: how many partitions the topic has, 0 when it does not exist.
    ///
    /// # Errors
    /// [`EngineError`] when no broker answers in time.
    fn partitions(&self, limit: Duration) -> Result<i32, EngineError>;

    /// Blocking: leaves the group ([`AssignmentListener::revoked`] is called for what is held) and closes.
    fn close(self: Box<Self>);
}

/// Questions to a cluster, and administration of its topics. All calls block up to their limit.
pub trait ClusterAdmin: Send + Sync + fmt::Debug {
    /// Kafka's own cluster id, as the brokers said it last. To learn who answers at the addresses now, open a new
    /// handle.
    ///
    /// # Errors
    /// [`EngineError`] when no broker has answered yet and none does in time.
    fn cluster_id(&self, limit: Duration) -> Result<String, EngineError>;

    /// What the cluster knows of a topic; `None` when it does not exist.
    ///
    /// # Errors
    /// [`EngineError`] when no broker answers.
    fn topic(&self, topic: &TopicName, limit: Duration) -> Result<Option<TopicInfo>, EngineError>;

    /// Creates a topic.
    ///
    /// # Errors
    /// [`EngineError`] when it exists, the settings are refused, or no broker answers.
    fn create_topic(&self, topic: &NewTopic, limit: Duration) -> Result<(), EngineError>;

    /// Settings of a topic as they are in force.
    ///
    /// # Errors
    /// [`EngineError`] when it does not exist or no broker answers.
    fn topic_settings(
        &self,
        topic: &TopicName,
        limit: Duration,
    ) -> Result<std::collections::BTreeMap<String, String>, EngineError>;

    /// Settings of each broker as they are in force; those that do not answer are left out, and all of a
    /// kind of cluster that does not tell.
    ///
    /// # Errors
    /// [`EngineError`] when none answers, or none may be asked.
    fn broker_settings(&self, _limit: Duration) -> Result<Vec<BrokerSettings>, EngineError> {
        Ok(Vec::new())
    }

    /// The log of each partition, up to the high watermark.
    ///
    /// # Errors
    /// [`EngineError`] when a partition has no leader or no broker answers.
    fn log_ranges(&self, topic: &TopicName, limit: Duration) -> Result<Vec<LogRange>, EngineError>;

    /// Committed positions of a group on a topic, without joining it.
    ///
    /// # Errors
    /// [`EngineError`] when no broker answers.
    fn committed(
        &self,
        group: &GroupName,
        topic: &TopicName,
        limit: Duration,
    ) -> Result<Vec<Position>, EngineError>;

    /// The members of a group, with what they have of a topic; empty where the engine cannot tell, as for groups whose
    /// assignment is the broker's (`group.protocol=consumer`).
    ///
    /// # Errors
    /// [`EngineError`] when no broker answers.
    fn members(
        &self,
        _group: &GroupName,
        _topic: &TopicName,
        _limit: Duration,
    ) -> Result<Vec<GroupMember>, EngineError> {
        Ok(Vec::new())
    }
}

/// A member of a consumer group, as the brokers know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The id that the group has given it.
    pub id: String,
    /// Its `client.id`.
    pub client_id: String,
    /// The address that it comes from.
    pub host: String,
    /// What it has of the topic.
    pub partitions: Vec<i32>,
}

/// What one broker is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSettings {
    /// Its id.
    pub broker: i32,
    /// The settings in force, by Kafka's names; secrets are left out.
    pub settings: std::collections::BTreeMap<String, String>,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub topic: TopicName,
    /// Number of partitions, at least 1.
    pub partitions: i32,
    /// Replication factor; `None` is the broker's default.
    pub replication: Option<i32>,
    /// Topic settings, by Kafka's names.
    pub settings: std::collections::BTreeMap<String, String>,
}
