//! What a handle shows of itself.

use std::time::Duration;

use crate::{producer::ProducerStats, registry::port::Session, routing::RoutingCounters};

/// A handle at one moment.
#[derive(Debug, Clone)]
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
    /// Age of the snapshot on disk, when there is one.
    pub snapshot_age: Option<Duration>,
    /// Entries that cannot be followed now, with the reason; their last good route stands.
    pub troubles: Vec<String>,
    /// Counts of following the registry.
    pub routing: RoutingCounters,
    /// Sends.
    pub sends: ProducerStats,
}
