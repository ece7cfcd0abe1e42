//! A Kafka cluster inside the process.

use std::{fmt, time::Duration};

use rdkafka::{error::RDKafkaErrorCode, types::RDKafkaRespErr};

use crate::kafka::native::MockHandle;

/// Consumer properties under which groups of the classic protocol form at once on a [`MockCluster`], and change within
/// seconds: for that it waits for a session but one second.
///
/// On a machine so busy that a client gets no processor for three seconds, a member is taken for dead: its messages are
/// delivered again. A test that cannot bear that sets a longer `session.timeout.ms`; while a group has one member, that
/// costs no time.
pub const FAST_GROUP_PROPERTIES: [(&str, &str); 6] = [
    ("session.timeout.ms", "3000"),
    ("heartbeat.interval.ms", "100"),
    ("fetch.wait.max.ms", "5"),
    ("fetch.queue.backoff.ms", "10"),
    ("reconnect.backoff.ms", "10"),
    ("reconnect.backoff.max.ms", "200"),
];

/// The same for groups of the consumer protocol (KIP-848), where the broker sets the timing.
pub const FAST_CONSUMER_PROTOCOL_PROPERTIES: [(&str, &str); 5] = [
    ("group.protocol", "consumer"),
    ("fetch.wait.max.ms", "5"),
    ("fetch.queue.backoff.ms", "10"),
    ("reconnect.backoff.ms", "10"),
    ("reconnect.backoff.max.ms", "200"),
];

/// A Kafka cluster inside the process, on ports of the loopback interface. It is librdkafka's mock: quick, and good for
/// faults, but no reference. It differs from a real cluster in this:
///
/// - a log keeps 5 MiB or 100,000 batches per partition and silently drops the oldest;
/// - it never refuses a message for its size, and checks neither idempotence nor transactions;
/// - topics can be neither created through a client, nor grown, deleted or compacted, and have no settings to read;
/// - a broker that is down keeps its leaderships;
/// - a commit during an eager rebalance is refused, where a real broker accepts it;
/// - the timestamp in its acknowledgements is always 1234, not the record's;
/// - it finds no message by its time: a seek or a start at a time goes to the end of the log;
/// - there is no TLS and no authentication.
///
/// Cheap: about a millisecond, and a few threads. Can be shared between threads; the cluster ends when it is dropped,
/// before or after its clients.
///
/// ```
/// use zms_sdk::testing::MockCluster;
/// let cluster = MockCluster::start(1)?;
/// cluster.create_topic("orders", 3)?;
/// assert!(cluster.bootstrap().starts_with("127.0.0.1:"));
/// # Ok::<(), zms_sdk::testing::MockClusterError>(())
/// ```
pub struct MockCluster {
    native: MockHandle,
    bootstrap: String,
    brokers: i32,
}

/// A mock cluster could not do as told.
#[derive(Debug, Clone, thiserror::Error)]
#[error("mock cluster: cannot {action}: {reason}")]
pub struct MockClusterError {
    action: String,
    reason: String,
}

/// A kind of request whose answers can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Api {
    /// Sending records.
    Produce,
    /// Reading records.
    Fetch,
    /// Asking where a log begins and ends.
    ListOffsets,
    /// Asking for brokers, topics and leaders.
    Metadata,
    /// Committing positions.
    OffsetCommit,
    /// Asking for committed positions.
    OffsetFetch,
    /// Asking for a group's coordinator.
    FindCoordinator,
    /// Joining a group of the classic protocol.
    JoinGroup,
    /// Learning one's partitions in the classic protocol.
    SyncGroup,
    /// Staying a member in the classic protocol.
    Heartbeat,
    /// Leaving a group of the classic protocol.
    LeaveGroup,
    /// Staying a member, and learning one's partitions, in the consumer protocol.
    ConsumerGroupHeartbeat,
    /// Getting the number that idempotent producers need.
    InitProducerId,
}

impl Api {
    fn key(self) -> i16 {
        match self {
            Self::Produce => 0,
            Self::Fetch => 1,
            Self::ListOffsets => 2,
            Self::Metadata => 3,
            Self::OffsetCommit => 8,
            Self::OffsetFetch => 9,
            Self::FindCoordinator => 10,
            Self::JoinGroup => 11,
            Self::Heartbeat => 12,
            Self::LeaveGroup => 13,
            Self::SyncGroup => 14,
            Self::InitProducerId => 22,
            Self::ConsumerGroupHeartbeat => 68,
        }
    }
}

/// What a broker answers to a request that it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerError {
    /// It does not know the topic or partition.
    UnknownTopicOrPartition,
    /// Another broker leads the partition.
    NotLeader,
    /// It took too long.
    RequestTimedOut,
    /// The message is larger than the topic's limit.
    MessageTooLarge,
    /// Too few replicas are in sync; nothing was written.
    NotEnoughReplicas,
    /// The record breaks a policy of the broker.
    PolicyViolation,
    /// Not allowed on this topic.
    TopicDenied,
    /// Not allowed in this group.
    GroupDenied,
    /// The group's coordinator is starting.
    CoordinatorLoading,
    /// Another broker coordinates the group.
    NotCoordinator,
    /// The group has formed anew without this member.
    IllegalGeneration,
    /// The group does not know this member.
    UnknownMember,
    /// The group is forming anew.
    RebalanceInProgress,
    /// The text kept with a position is too long.
    OffsetMetadataTooLarge,
    /// No answer: the connection is cut.
    Disconnect,
}

impl BrokerError {
    fn native(self) -> RDKafkaRespErr {
        use RDKafkaRespErr as Native;
        match self {
            Self::UnknownTopicOrPartition => Native::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            Self::NotLeader => Native::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Self::RequestTimedOut => Native::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            Self::MessageTooLarge => Native::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            Self::NotEnoughReplicas => Native::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            Self::PolicyViolation => Native::RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
            Self::TopicDenied => Native::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
            Self::GroupDenied => Native::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
            Self::CoordinatorLoading => Native::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            Self::NotCoordinator => Native::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            Self::IllegalGeneration => Native::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            Self::UnknownMember => Native::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            Self::RebalanceInProgress => Native::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            Self::OffsetMetadataTooLarge => Native::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
            Self::Disconnect => Native::RD_KAFKA_RESP_ERR__TRANSPORT,
        }
    }
}

/// Number of all brokers, in librdkafka's words.
const ALL: i32 = -1;

impl MockCluster {
    /// Starts a cluster of `brokers` brokers, numbered from 1.
    ///
    /// # Errors
    /// When there are no threads or ports left.
    pub fn start(brokers: u16) -> Result<Self, MockClusterError> {
        let brokers = i32::from(brokers.max(1));
        let native = MockHandle::new(brokers).map_err(|code| MockClusterError::new("start", code))?;
        native.set_group_timing(0, 100);
        let bootstrap = native.bootstrap();
        Ok(Self { native, bootstrap, brokers })
    }

    /// Bootstrap servers.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Creates a topic with `partitions` partitions, replicated to up to three brokers.
    ///
    /// # Errors
    /// When it exists.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), MockClusterError> {
        self.native
            .create_topic(topic, partitions, self.brokers.min(3))
            .map_err(|code| MockClusterError::new(&format!("create topic {topic}"), code))
    }

    /// Cuts every connection and takes no new ones. Logs, groups and leaderships stay.
    ///
    /// # Errors
    /// Never in practice.
    pub fn all_brokers_down(&self) -> Result<(), MockClusterError> {
        self.native.set_down(ALL).map_err(|code| MockClusterError::new("take all brokers down", code))
    }

    /// Takes connections again.
    ///
    /// # Errors
    /// Never in practice.
    pub fn all_brokers_up(&self) -> Result<(), MockClusterError> {
        self.native.set_up(ALL).map_err(|code| MockClusterError::new("bring all brokers up", code))
    }

    /// Cuts the connections of one broker.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn broker_down(&self, broker: i32) -> Result<(), MockClusterError> {
        self.native
            .set_down(broker)
            .map_err(|code| MockClusterError::new(&format!("take broker {broker} down"), code))
    }

    /// Brings one broker back.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn broker_up(&self, broker: i32) -> Result<(), MockClusterError> {
        self.native
            .set_up(broker)
            .map_err(|code| MockClusterError::new(&format!("bring broker {broker} up"), code))
    }

    /// Delays every answer of every broker. Zero ends it.
    ///
    /// # Errors
    /// Never in practice.
    pub fn round_trip_time(&self, time: Duration) -> Result<(), MockClusterError> {
        let milliseconds = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        self.native
            .set_round_trip(ALL, milliseconds)
            .map_err(|code| MockClusterError::new("set the round-trip time", code))
    }

    /// Moves a partition's leadership.
    ///
    /// # Errors
    /// When there is no such broker. A partition cannot be made leaderless: librdkafka's mock crashes on that.
    pub fn move_leader(&self, topic: &str, partition: i32, broker: i32) -> Result<(), MockClusterError> {
        let action = format!("move {topic}/{partition} to broker {broker}");
        if !(1..=self.brokers).contains(&broker) {
            return Err(MockClusterError { action, reason: format!("brokers are 1 to {}", self.brokers) });
        }
        self.native.set_leader(topic, partition, broker).map_err(|code| MockClusterError::new(&action, code))
    }

    /// Lets the next requests of a kind fail, each with the next of these errors. librdkafka retries some of them by
    /// itself, so that the application never sees them.
    pub fn fail_requests(&self, api: Api, errors: &[BrokerError]) {
        let errors: Vec<_> = errors.iter().map(|error| error.native()).collect();
        self.native.push_errors(api.key(), &errors);
    }

    /// Takes back what [`Self::fail_requests`] has left.
    pub fn heal_requests(&self, api: Api) {
        self.native.clear_errors(api.key());
    }

    /// Lets the cluster deny that it knows a topic, or know it again. Its log stays.
    ///
    /// # Errors
    /// When the name is no topic name.
    pub fn hide_topic(&self, topic: &str) -> Result<(), MockClusterError> {
        self.native
            .topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            .map_err(|code| MockClusterError::new(&format!("hide topic {topic}"), code))
    }

    /// Lets the cluster refuse a topic to everybody, or no longer with [`Self::show_topic`]. Its log stays.
    ///
    /// # Errors
    /// When the name is no topic name.
    pub fn deny_topic(&self, topic: &str) -> Result<(), MockClusterError> {
        self.native
            .topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
            .map_err(|code| MockClusterError::new(&format!("deny topic {topic}"), code))
    }

    /// Ends [`Self::hide_topic`] and [`Self::deny_topic`].
    ///
    /// # Errors
    /// When the name is no topic name.
    pub fn show_topic(&self, topic: &str) -> Result<(), MockClusterError> {
        self.native
            .topic_error(topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR)
            .map_err(|code| MockClusterError::new(&format!("show topic {topic}"), code))
    }
}

impl MockClusterError {
    fn new(action: &str, code: RDKafkaErrorCode) -> Self {
        Self { action: action.to_owned(), reason: code.to_string() }
    }
}

impl fmt::Debug for MockCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockCluster").field("bootstrap", &self.bootstrap).finish_non_exhaustive()
    }
}
