//! The accounting of the pool.

use std::fmt;

use super::{
    accounts::{Cluster, ClusterUse, Level, Topic, TopicKey, Usage},
    shares::{Limits, Shares},
};
use crate::name::ClusterName;

/// Bytes that topics on several clusters share; see the [module](super) for the rules.
///
/// Calling order: [`open`](Self::open) a topic, [`take`](Self::take) for each message; where the answer is
/// [`Shortage::Wait`], [`enqueue`](Self::enqueue) within the same lock. [`give_back`](Self::give_back),
/// [`withdraw`](Self::withdraw) and every change of a limit answer whose turn it is now: the bytes of each [`Grant`]
/// are taken on its behalf, and whoever cannot use its grant gives it back. `W` is how the driver reaches a waiter.
#[derive(Debug)]
pub struct Ledger<W> {
    shares: Shares,
    block: usize,
    pub(super) limits: Limits,
    used: usize,
    /// What messages and floors keep from further requests: see [`Cluster::committed`].
    committed: usize,
    pub(super) clusters: Vec<Cluster>,
    pub(super) topics: Vec<Topic<W>>,
    closed_topics: Vec<usize>,
    pub(super) next_ticket: u64,
    pub(super) waiting: usize,
    idle_blocks: usize,
    pub(super) closed: bool,
    exhaustions: u64,
    oversize: u64,
}

/// Bytes taken. Whoever has it gives it back, once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the bytes are taken: give them back"]
pub struct Charge {
    bytes: usize,
    topic: usize,
    epoch: u32,
    cluster: usize,
}

impl Charge {
    /// Takes a part out, to be given back by itself: as many bytes as asked for, or all there are.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { bytes, ..*self }
    }
}

/// Bytes taken on behalf of a waiter, who has left the line.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the bytes are taken: hand them over or give them back"]
pub struct Grant<W> {
    /// How the driver reaches the waiter.
    pub reach: W,
    /// What is its own now.
    pub charge: Charge,
}

/// A waiter sent away: it asks for more than there can be now.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal<W> {
    /// How the driver reaches the waiter.
    pub reach: W,
    /// The most that it could have at once.
    pub limit: usize,
    /// What limits it.
    pub bound: Bound,
}

/// What a change of limits came to.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "waiters are to be told"]
pub struct Outcome<W> {
    /// Those whose turn it is.
    pub grants: Vec<Grant<W>>,
    /// Those who can never be served any more.
    pub refused: Vec<Refusal<W>>,
}

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Too few are free, or others were there first: wait.
    Wait,
    /// More than there ever will be.
    TooLarge {
        /// The most that could be taken at once.
        limit: usize,
        /// What limits it.
        bound: Bound,
    },
    /// Nothing is given out any more.
    Closed,
}

/// What limits a single request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The topic's cap.
    Topic,
    /// The cluster's ceiling.
    Cluster,
    /// The total, less what is kept for other clusters.
    Pool,
}

/// What a topic's requests wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Messages of the topic itself.
    Topic {
        /// Bytes that it has.
        used: usize,
        /// The most that it may have.
        cap: usize,
    },
    /// Messages of its cluster.
    Cluster {
        /// The cluster; `None` stands for topics that have none yet.
        cluster: Option<ClusterName>,
        /// Bytes that it has.
        used: usize,
        /// The most that it may have.
        ceiling: usize,
    },
    /// Messages of all.
    Pool {
        /// Bytes that all have.
        used: usize,
        /// Bytes shared.
        total: usize,
        /// The cluster that has most of them; `None` stands for topics that have none yet.
        mostly: Option<ClusterName>,
        /// Bytes that it has.
        holds: usize,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic { used, cap } => write!(
                f,
                "unacknowledged messages of the topic itself have {used} bytes, and one topic may have {cap}"
            ),
            Self::Cluster { cluster, used, ceiling } => write!(
                f,
                "unacknowledged messages {} have {used} bytes, and one cluster may have {ceiling}",
                To(cluster.as_ref())
            ),
            Self::Pool { used, total, mostly, holds } => write!(
                f,
                "unacknowledged messages have {used} of {total} bytes, {holds} of them {}; what is free is kept for \
                 other clusters, or for those who waited before",
                To(mostly.as_ref())
            ),
        }
    }
}

/// Whom messages are for.
struct To<'a>(Option<&'a ClusterName>);

impl fmt::Display for To<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cluster) => write!(f, "to cluster {cluster}"),
            None => f.write_str("of topics that have no cluster yet"),
        }
    }
}

impl<W> Ledger<W> {
    /// Shares `total` bytes, some of them as blocks of `block` bytes.
    pub fn new(total: usize, block: usize, shares: Shares) -> Self {
        Self {
            shares,
            block: block.max(1),
            limits: Limits::new(shares, total, 0),
            used: 0,
            committed: 0,
            clusters: vec![Cluster::new(None)],
            topics: Vec::new(),
            closed_topics: Vec::new(),
            next_ticket: 0,
            waiting: 0,
            idle_blocks: 0,
            closed: false,
            exhaustions: 0,
            oversize: 0,
        }
    }

    /// Opens the account of a topic that is on no cluster yet.
    pub fn open(&mut self) -> TopicKey {
        self.clusters[0].topics += 1;
        if let Some(index) = self.closed_topics.pop() {
            self.topics[index] = Topic::on(0, self.topics[index].epoch);
            return TopicKey(index);
        }
        self.topics.push(Topic::on(0, 0));
        TopicKey(self.topics.len() - 1)
    }

    /// Closes a topic's account; its key is not used any more. What it has can still be returned. Its waiters are
    /// sent away.
    pub fn close_topic(&mut self, key: TopicKey) -> (Vec<W>, Outcome<W>) {
        let sent_away: Vec<_> = self.topics[key.0].line.drain(..).map(|waiter| waiter.reach).collect();
        self.waiting -= sent_away.len();
        self.refresh(key.0);
        self.forget(key.0);
        let cluster = self.topics[key.0].cluster;
        self.clusters[cluster].topics -= 1;
        self.closed_topics.push(key.0);
        (sent_away, self.settle_limits(self.limits.total))
    }

    /// Moves a topic to a cluster, with those who wait; what it has stays with the cluster that it was taken on.
    pub fn house(&mut self, key: TopicKey, cluster: &ClusterName) -> Outcome<W> {
        let from = self.topics[key.0].cluster;
        if self.clusters[from].name.as_ref() == Some(cluster) {
            return Outcome { grants: Vec::new(), refused: Vec::new() };
        }
        if let Some(ticket) = self.topics[key.0].ready.take() {
            self.clusters[from].ready.remove(&(ticket, key.0));
        }
        let to = self.cluster(cluster);
        self.clusters[from].topics -= 1;
        self.clusters[to].topics += 1;
        self.topics[key.0].cluster = to;
        self.settle_limits(self.limits.total)
    }

    /// Lets a topic have its whole cap again, whatever it has: that is left to its cluster's account.
    pub fn renew(&mut self, key: TopicKey) -> Vec<Grant<W>> {
        self.forget(key.0);
        self.refresh(key.0);
        self.serve()
    }

    /// Changes the total. Made smaller, it takes effect as bytes return.
    pub fn resize(&mut self, total: usize) -> Outcome<W> {
        self.settle_limits(total)
    }

    /// Takes bytes for a topic, if it is its turn.
    ///
    /// # Errors
    /// [`Shortage`] says whether waiting helps.
    pub fn take(&mut self, key: TopicKey, bytes: usize) -> Result<Charge, Shortage> {
        if self.closed {
            return Err(Shortage::Closed);
        }
        let topic = &self.topics[key.0];
        let (limit, bound) = self.most(topic.cluster);
        if bytes > limit {
            return Err(Shortage::TooLarge { limit, bound });
        }
        let cluster = &self.clusters[topic.cluster];
        let growth = cluster.growth(bytes);
        let turn = self.waiting == 0
            || (topic.line.is_empty()
                && cluster.ready.is_empty()
                && (growth == 0 || !self.somebody_waits_for_the_pool()));
        let fits = topic.used + bytes <= self.limits.cap
            && cluster.used + bytes <= self.limits.ceiling
            && (growth == 0 || self.has_room_for(growth));
        if turn && fits {
            return Ok(self.charge(key, bytes));
        }
        self.exhaustions += 1;
        Err(Shortage::Wait)
    }

    /// Returns bytes; whose turn it is now.
    #[expect(clippy::needless_pass_by_value, reason = "a charge is given back once")]
    pub fn give_back(&mut self, charge: Charge) -> Vec<Grant<W>> {
        let Charge { bytes, topic, epoch, cluster } = charge;
        self.used -= bytes;
        let account = &mut self.clusters[cluster];
        let before = account.committed();
        account.used -= bytes;
        self.committed -= before - account.committed();
        let topic_account = &mut self.topics[topic];
        if topic_account.epoch == epoch {
            topic_account.used -= bytes;
        }
        if self.waiting == 0 {
            return Vec::new();
        }
        self.refresh(topic);
        self.serve()
    }

    /// Whether there is an idle block to take up, after bytes for one were taken.
    pub fn reuse_block(&mut self) -> bool {
        let reuse = self.idle_blocks > 0;
        self.idle_blocks -= usize::from(reuse);
        reuse
    }

    /// Whether to keep the memory of a block whose bytes were returned, as an idle one.
    pub fn keep_block(&mut self) -> bool {
        let keep = !self.closed && (self.idle_blocks + 1).saturating_mul(self.block) <= self.free();
        self.idle_blocks += usize::from(keep);
        keep
    }

    /// How many idle blocks have to be let go now, so that their memory and what was taken do not exceed the total.
    pub fn shed_blocks(&mut self) -> usize {
        let room = if self.closed { 0 } else { self.free() / self.block };
        let surplus = self.idle_blocks.saturating_sub(room);
        self.idle_blocks -= surplus;
        surplus
    }

    /// What a topic's requests, of so many bytes, wait for now.
    pub fn cause(&self, key: TopicKey, bytes: usize) -> Cause {
        let topic = &self.topics[key.0];
        let bytes = topic.line.front().map_or(bytes, |first| first.bytes);
        let Limits { total, cap, ceiling, .. } = self.limits;
        if topic.used.saturating_add(bytes) > cap {
            return Cause::Topic { used: topic.used, cap };
        }
        let cluster = &self.clusters[topic.cluster];
        let first = cluster.ready.first().and_then(|(_, topic)| self.topics[*topic].line.front());
        let bytes = first.map_or(bytes, |first| first.bytes);
        if cluster.used.saturating_add(bytes) > ceiling {
            return Cause::Cluster { cluster: cluster.name.clone(), used: cluster.used, ceiling };
        }
        let most = self.clusters.iter().max_by_key(|cluster| cluster.used);
        let (mostly, holds) = most.map_or((None, 0), |most| (most.name.clone(), most.used));
        Cause::Pool { used: self.used, total, mostly, holds }
    }

    /// The most that a topic on no or any cluster can take at once.
    pub fn largest(&self) -> usize {
        self.most(0).0
    }

    /// Bytes that nobody has.
    pub fn free(&self) -> usize {
        self.limits.total.saturating_sub(self.used)
    }

    /// How full it is.
    pub fn level(&self) -> Level {
        Level { total: self.limits.total, free: self.free(), topic_cap: self.limits.cap }
    }

    /// Requests in line.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Everything at this moment.
    pub fn usage(&self) -> Usage {
        let ceiling = self.limits.ceiling;
        let in_use = self.clusters.iter().filter(|cluster| !cluster.is_unused());
        let clusters =
            in_use.map(|it| ClusterUse { cluster: it.name.clone(), used: it.used, floor: it.floor, ceiling });
        Usage {
            total: self.limits.total,
            free: self.free(),
            topic_cap: self.limits.cap,
            waiting: self.waiting,
            exhaustions: self.exhaustions,
            oversize: self.oversize,
            idle_blocks: self.idle_blocks,
            clusters: clusters.collect(),
        }
    }

    pub(super) fn has_room_for(&self, growth: usize) -> bool {
        self.committed.saturating_add(growth) <= self.limits.total
    }

    /// The most that can be taken at once on a cluster, and by what.
    pub(super) fn most(&self, cluster: usize) -> (usize, Bound) {
        let Limits { total, cap, ceiling, reserved, .. } = self.limits;
        let pool = total - (reserved - self.clusters[cluster].floor);
        if cap <= ceiling && cap <= pool {
            (cap, Bound::Topic)
        } else if ceiling <= pool {
            (ceiling, Bound::Cluster)
        } else {
            (pool, Bound::Pool)
        }
    }

    pub(super) fn charge(&mut self, key: TopicKey, bytes: usize) -> Charge {
        let topic = &mut self.topics[key.0];
        topic.used += bytes;
        let cluster = &mut self.clusters[topic.cluster];
        self.committed += cluster.growth(bytes);
        cluster.used += bytes;
        self.used += bytes;
        self.oversize += u64::from(bytes > self.block);
        Charge { bytes, topic: key.0, epoch: topic.epoch, cluster: topic.cluster }
    }

    /// Of each cluster's first, those that the ceiling does not keep wait for the pool: they would have been served.
    fn somebody_waits_for_the_pool(&self) -> bool {
        self.clusters.iter().any(|cluster| {
            let first = cluster.ready.first().and_then(|(_, topic)| self.topics[*topic].line.front());
            first.is_some_and(|first| cluster.used.saturating_add(first.bytes) <= self.limits.ceiling)
        })
    }

    fn forget(&mut self, topic: usize) {
        let topic = &mut self.topics[topic];
        topic.used = 0;
        topic.epoch = topic.epoch.wrapping_add(1);
    }

    /// The account of a cluster; one that nobody uses any more is given to the next. The first is for topics without.
    fn cluster(&mut self, name: &ClusterName) -> usize {
        let known = self.clusters.iter().position(|cluster| cluster.name.as_ref() == Some(name));
        if let Some(index) = known {
            return index;
        }
        let unused = self.clusters.iter().skip(1).position(Cluster::is_unused).map(|place| place + 1);
        let index = unused.unwrap_or(self.clusters.len());
        if unused.is_none() {
            self.clusters.push(Cluster::default());
        }
        self.clusters[index] = Cluster::new(Some(name.clone()));
        index
    }

    fn settle_limits(&mut self, total: usize) -> Outcome<W> {
        let count = self.clusters.iter().filter(|cluster| cluster.has_floor()).count();
        self.limits = Limits::new(self.shares, total, count);
        self.committed = 0;
        for cluster in &mut self.clusters {
            cluster.floor = if cluster.has_floor() { self.limits.floor } else { 0 };
            self.committed += cluster.committed();
        }
        self.settle_line()
    }
}
