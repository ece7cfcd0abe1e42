//! Who has how much: the accounts of topics and clusters.

use std::collections::{BTreeSet, VecDeque};

use super::line::Waiter;
use crate::name::ClusterName;

/// A topic's account in one ledger, from its opening to its closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicKey(pub(super) usize);

/// Bytes that topics have together on one cluster, or while they have none (`name` is `None`).
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) name: Option<ClusterName>,
    pub(super) used: usize,
    pub(super) floor: usize,
    /// Topics that are on it now.
    pub(super) topics: usize,
    /// First in line of each topic that its topic's cap does not keep: (ticket, topic).
    pub(super) ready: BTreeSet<(u64, usize)>,
}

#[derive(Debug)]
pub(super) struct Topic<W> {
    pub(super) used: usize,
    /// What was taken under an earlier one does not count for the topic any more.
    pub(super) epoch: u32,
    pub(super) cluster: usize,
    pub(super) line: VecDeque<Waiter<W>>,
    /// Its first in line, as the cluster knows it.
    pub(super) ready: Option<u64>,
}

/// How full a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Bytes shared.
    pub total: usize,
    /// Bytes that nobody has.
    pub free: usize,
    /// The most that one topic may have.
    pub topic_cap: usize,
}

/// A pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Bytes shared.
    pub total: usize,
    /// Bytes that nobody has; 0 also while more is out than there is, after the pool was made smaller.
    pub free: usize,
    /// The most that one topic may have.
    pub topic_cap: usize,
    /// Requests in line.
    pub waiting: usize,
    /// Requests since the start that were not served at once.
    pub exhaustions: u64,
    /// Requests since the start that were served with more than a block.
    pub oversize: u64,
    /// Blocks kept for reuse; they are counted as free.
    pub idle_blocks: usize,
    /// Each cluster that topics are on, or that has bytes.
    pub clusters: Vec<ClusterUse>,
}

/// A cluster's part of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterUse {
    /// The cluster; `None` is for topics that have none yet.
    pub cluster: Option<ClusterName>,
    /// Bytes that it has.
    pub used: usize,
    /// Bytes that are kept for it.
    pub floor: usize,
    /// The most that it may have.
    pub ceiling: usize,
}

impl Cluster {
    pub(super) fn new(name: Option<ClusterName>) -> Self {
        Self { name, ..Self::default() }
    }

    /// What its messages and its floor keep from others.
    pub(super) fn committed(&self) -> usize {
        self.used.max(self.floor)
    }

    /// By how much that grows with so many bytes more.
    pub(super) fn growth(&self, bytes: usize) -> usize {
        self.used.saturating_add(bytes).max(self.floor) - self.committed()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.topics == 0 && self.used == 0
    }

    /// Only clusters that have a name and topics have a floor.
    pub(super) fn has_floor(&self) -> bool {
        self.topics > 0 && self.name.is_some()
    }
}

impl<W> Topic<W> {
    pub(super) fn on(cluster: usize, epoch: u32) -> Self {
        Self { used: 0, epoch, cluster, line: VecDeque::new(), ready: None }
    }
}
