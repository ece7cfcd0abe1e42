//! What the routing driver counts, and what it tells when asked.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use zms_core::{name::ClusterName, route::Source};

/// One count that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) adoptions: Counter,
    pub(super) stale_reads: Counter,
    pub(super) unreadable_nodes: Counter,
    pub(super) missing_in_use: Counter,
    pub(super) failed_reads: Counter,
    pub(super) reconnects: Counter,
    pub(super) rereads: Counter,
    pub(super) failed_registrations: Counter,
    pub(super) failed_adoptions: Counter,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RoutingCounters {
    /// Routes pushed to producers and groups.
    pub adoptions: u64,
    /// Readings older than what was adopted; not followed.
    pub stale_reads: u64,
    /// States of nodes that were not understood or not supported; the last good route stayed.
    pub unreadable_nodes: u64,
    /// Times that an entry in use, or the cluster it names, was found missing; the last good route stayed.
    pub missing_in_use: u64,
    /// Readings that the registry did not answer.
    pub failed_reads: u64,
    /// Connections after the first.
    pub reconnects: u64,
    /// Slow periodic re-reads of everything.
    pub rereads: u64,
    /// Registrations that the registry refused; traffic goes on without.
    pub failed_registrations: u64,
    /// Adoptions that ended in a panic of whoever adopts.
    pub failed_adoptions: u64,
    /// Snapshots that could not be written.
    pub failed_snapshots: u64,
}

impl Counters {
    pub(super) fn values(&self, failed_snapshots: u64) -> RoutingCounters {
        RoutingCounters {
            adoptions: self.adoptions.value(),
            stale_reads: self.stale_reads.value(),
            unreadable_nodes: self.unreadable_nodes.value(),
            missing_in_use: self.missing_in_use.value(),
            failed_reads: self.failed_reads.value(),
            reconnects: self.reconnects.value(),
            rereads: self.rereads.value(),
            failed_registrations: self.failed_registrations.value(),
            failed_adoptions: self.failed_adoptions.value(),
            failed_snapshots,
        }
    }
}

/// The routing driver at one moment.
#[derive(Debug, Clone)]
pub(crate) struct RoutingInspection {
    /// All entries in use.
    pub(crate) entries: Vec<EntryInspection>,
    /// Counts since the start.
    pub(crate) counters: RoutingCounters,
    /// Age of the snapshot that this process wrote last; `None` before the first.
    pub(crate) snapshot_age: Option<Duration>,
}

/// One topic or group in use.
#[derive(Debug, Clone)]
pub(crate) struct EntryInspection {
    /// `topic orders` or `group billing`.
    pub(crate) entry: String,
    /// Where it leads, and how that was learnt; `None` before the first adoption.
    pub(crate) route: Option<(ClusterName, Source)>,
    /// Why it has no route yet, or why what was read last was not adopted.
    pub(crate) trouble: Option<String>,
}

impl RoutingInspection {
    /// Number of routes read from the registry, and of those taken from the snapshot.
    pub(crate) fn routes_by_source(&self) -> (usize, usize) {
        let sources = || self.entries.iter().filter_map(|entry| Some(entry.route.as_ref()?.1));
        let live = sources().filter(|source| *source == Source::Registry).count();
        (live, sources().count() - live)
    }
}
