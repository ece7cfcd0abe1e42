//! What a handle shows of itself.

use std::time::Duration;

use serde::Serialize;

use crate::{producer::ProducerStats, registry::port::Session, routing::RoutingCounters, serial};

/// A handle at one moment.
///
/// It can be serialised; names are those of the fields in `camelCase` and stay, fields may be added.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Status {
    /// The connection to the registry.
    pub registry: Session,
    /// Topics that this handle sends to.
    pub topics: usize,
    /// Groups that it subscribes to.
    pub groups: usize,
    /// Routes in use that come from the snapshot on disk, because the registry has not answered yet.
    pub routes_from_snapshot: usize,
    /// Age of the snapshot on disk, when there is one; as JSON `snapshotAgeMs`, in milliseconds.
    #[serde(rename = "snapshotAgeMs", serialize_with = "serial::some_millis")]
    pub snapshot_age: Option<Duration>,
    /// Entries that cannot be followed now, with the reason; their last good route stands.
    pub troubles: Vec<String>,
    /// Counts of following the registry.
    pub routing: RoutingCounters,
    /// Sends.
    pub sends: ProducerStats,
}
