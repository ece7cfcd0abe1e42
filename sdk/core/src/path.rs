//! Where things stand in the registry. A chroot may stand in front of all of it.

use crate::name::{ClusterName, GroupName, TopicName};

/// The parent of all clusters.
pub const CLUSTERS: &str = "/zms/cluster";
/// The parent of all topics.
pub const TOPICS: &str = "/zms/topic";
/// The parent of all consumer groups.
pub const GROUPS: &str = "/zms/consumergroup";
/// The parent of all records of moves.
pub const MIGRATIONS: &str = "/zms/migration";

/// The node of a cluster.
pub fn cluster(name: &ClusterName) -> String {
    format!("{CLUSTERS}/{name}")
}

/// The node of a topic; its producers register below it.
///
/// ```
/// use zms_core::{name::TopicName, path};
/// assert_eq!(path::topic(&TopicName::new("orders")?), "/zms/topic/orders");
/// # Ok::<(), zms_core::name::NameError>(())
/// ```
pub fn topic(name: &TopicName) -> String {
    format!("{TOPICS}/{name}")
}

/// The node of a consumer group; its members register below it.
pub fn group(name: &GroupName) -> String {
    format!("{GROUPS}/{name}")
}

/// The record of a topic's present or last move.
pub fn migration(topic: &TopicName) -> String {
    format!("{MIGRATIONS}/{topic}")
}
