//! Counters of sending.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use serde::{Serialize, Serializer};
use tokio::time::Instant;
pub use zms_core::pool::ClusterUse;
use zms_core::{name::ClusterName, pool::Usage};

use super::room::Pool;
use crate::serial;

/// Counted since the start; `*_now` and the bytes are gauges.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) delivered: AtomicU64,
    pub(super) not_sent: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) dropped_oneway: AtomicU64,
    pub(super) callback_panics: AtomicU64,
    pub(super) switches: AtomicU64,
    pub(super) late_switches: AtomicU64,
    pub(super) left_behind: AtomicU64,
    pub(super) unusable: AtomicU64,
    pub(super) replaced_clients: AtomicU64,
    pub(super) held_now: AtomicUsize,
    pub(super) clients_now: AtomicUsize,
}

impl Counters {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What sending has come to, as a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProducerStats {
    /// Messages acknowledged.
    pub delivered: u64,
    /// Sends that ended as certainly not sent, refused ones included.
    pub not_sent: u64,
    /// Sends of which nobody knows whether they arrived.
    pub unknown: u64,
    /// One-way messages dropped, because there was no room or nowhere to send them.
    pub dropped_oneway: u64,
    /// Panics caught in callbacks.
    pub callback_panics: u64,
    /// Times that a topic changed its client: another cluster, other properties, or a failed client replaced.
    pub switches: u64,
    /// Those of them that did not wait for all messages in flight on the old client.
    pub late_switches: u64,
    /// Messages that were in flight on the old client at late switches.
    pub left_behind: u64,
    /// Times that no client could be opened for a topic's route.
    pub unusable: u64,
    /// Clients that failed for good and were replaced.
    pub replaced_clients: u64,
    /// Messages held now.
    pub held: usize,
    /// Sends that wait for room now.
    pub waiting: usize,
    /// Bytes of the send buffer free now.
    pub free_bytes: usize,
    /// Clients open now.
    pub clients: usize,
    /// The send buffer.
    pub pool: PoolStats,
}

/// The send buffer as a snapshot; all but the counts since the start are gauges.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PoolStats {
    /// Bytes shared by all messages accepted and not yet reported.
    pub total: usize,
    /// Bytes free; 0 also while more is out than there is, after the buffer was made smaller.
    pub free: usize,
    /// Bytes that one topic may have.
    pub topic_cap: usize,
    /// Sends that wait for room.
    pub waiting: usize,
    /// How long the one has waited that has waited longest, zero when none waits; as JSON `longestWaitMs`, in
    /// milliseconds.
    #[serde(rename = "longestWaitMs", serialize_with = "serial::millis")]
    pub longest_wait: Duration,
    /// Sends since the start for which there was no room at once.
    pub exhaustions: u64,
    /// Sends since the start that took more than a block.
    pub oversize: u64,
    /// Blocks of memory kept for reuse; they count as free.
    pub idle_blocks: usize,
    /// Each cluster in use: what its messages have, what is kept for it, and the most that it may have.
    #[serde(serialize_with = "clusters")]
    pub clusters: Vec<ClusterUse>,
}

fn clusters<S: Serializer>(clusters: &[ClusterUse], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(clusters.iter().map(ClusterView::of))
}

/// A [`ClusterUse`] as it is serialised: the core knows no serde.
#[derive(Serialize)]
struct ClusterView<'a> {
    cluster: Option<&'a str>,
    used: usize,
    floor: usize,
    ceiling: usize,
}

impl<'a> ClusterView<'a> {
    fn of(of: &'a ClusterUse) -> Self {
        let ClusterUse { cluster, used, floor, ceiling } = of;
        let cluster = cluster.as_ref().map(ClusterName::as_str);
        Self { cluster, used: *used, floor: *floor, ceiling: *ceiling }
    }
}

impl PoolStats {
    pub(super) fn of(pool: &Pool) -> Self {
        let (usage, since) = pool.usage();
        let Usage { total, free, topic_cap, waiting, exhaustions, oversize, idle_blocks, clusters } = usage;
        let now = Instant::now();
        let longest_wait = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        Self { total, free, topic_cap, waiting, longest_wait, exhaustions, oversize, idle_blocks, clusters }
    }
}

impl Counters {
    pub(super) fn snapshot(&self) -> ProducerStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProducerStats {
            delivered: count(&self.delivered),
            not_sent: count(&self.not_sent),
            unknown: count(&self.unknown),
            dropped_oneway: count(&self.dropped_oneway),
            callback_panics: count(&self.callback_panics),
            switches: count(&self.switches),
            late_switches: count(&self.late_switches),
            left_behind: count(&self.left_behind),
            unusable: count(&self.unusable),
            replaced_clients: count(&self.replaced_clients),
            held: self.held_now.load(Ordering::Relaxed),
            clients: self.clients_now.load(Ordering::Relaxed),
            waiting: 0,
            free_bytes: 0,
            pool: PoolStats::default(),
        }
    }
}
