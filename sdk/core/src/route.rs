//! What a topic or group resolves to at one moment: immutable, shared, swapped whole.

use std::{collections::BTreeMap, fmt, sync::Arc};

pub use crate::consume_from::{ConsumeFrom, NotAStart};
use crate::name::{ClusterName, GroupName, TopicName};

/// Place of a change in the registry's total order (`ZooKeeper`'s `mzxid`). Later changes compare greater, also
/// across deletion and new creation of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId(pub i64);

/// A Kafka cluster as the registry describes it. Property values may still be references such as `${env:KAFKA_PW}`;
/// they are resolved where the client is opened, so that no secret lives here.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Name in the registry.
    pub name: ClusterName,
    /// Bootstrap servers, `host:port` separated by commas; never empty.
    pub bootstrap: String,
    /// Kafka's own cluster id, when the registry states it; a client that finds another one refuses the cluster.
    pub kafka_id: Option<String>,
    /// librdkafka properties from the registry, already checked against the allow-list.
    pub properties: BTreeMap<String, String>,
    /// The change that this description stems from.
    pub changed: ChangeId,
}

impl ClusterSpec {
    /// Whether a client opened for `self` also serves `other`: the same servers, identity and properties.
    pub fn same_client(&self, other: &Self) -> bool {
        self.name == other.name
            && self.bootstrap == other.bootstrap
            && self.kafka_id == other.kafka_id
            && self.properties == other.properties
    }
}

impl fmt::Debug for ClusterSpec {
    /// Property values are left out: a careless registry may hold a secret in plain text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSpec")
            .field("name", &self.name)
            .field("bootstrap", &self.bootstrap)
            .field("kafka_id", &self.kafka_id)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("changed", &self.changed)
            .finish()
    }
}

/// Where a route was learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Read from the registry in this process.
    Registry,
    /// Taken from the last-known-good snapshot on disk.
    Snapshot {
        /// When the snapshot was written, in milliseconds since the Unix epoch.
        written_at_ms: u64,
    },
}

/// Whether sends of a topic flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traffic {
    /// Sends go to the route's cluster.
    Open,
    /// Sends wait, first in, first out, until a later route opens them.
    Held {
        /// Why, in words for logs and errors.
        reason: String,
    },
}

/// Where a topic's messages go now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRoute {
    /// The topic.
    pub topic: TopicName,
    /// The cluster, with this client's gray release applied.
    pub cluster: Arc<ClusterSpec>,
    /// Whether sends flow.
    pub traffic: Traffic,
    /// Producer overrides of the topic node (`profile`, `linger`, …), text as found.
    pub producer: BTreeMap<String, String>,
    /// The latest change among the nodes that this route was made of.
    pub changed: ChangeId,
    /// Where it was learnt.
    pub source: Source,
}

/// What a consumer group handles now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRoute {
    /// The group.
    pub group: GroupName,
    /// The topic that it is bound to.
    pub topic: TopicName,
    /// The cluster, with this client's gray release applied.
    pub cluster: Arc<ClusterSpec>,
    /// Where it begins without a committed position.
    pub consume_from: ConsumeFrom,
    /// Every member gets every message.
    pub broadcast: bool,
    /// Nothing is handled until the registry says otherwise; members stay joined.
    pub suspended: bool,
    /// Consumer overrides of the group node, text as found.
    pub consumer: BTreeMap<String, String>,
    /// The latest change among the nodes that this route was made of.
    pub changed: ChangeId,
    /// Where it was learnt.
    pub source: Source,
}
