//! What a subscription shows of itself: the answer to "why is it stuck".

use std::time::Duration;

use serde::Serialize;
use zms_core::name::{ClusterName, TopicName};

use super::{Counts, Trouble};
use crate::serial;

/// What a subscription is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum State {
    /// No client is open: the first one is being opened, or the last attempt failed and is repeated.
    Opening,
    /// A client is open and waits for its first partitions.
    Joining,
    /// Member of the group with an assignment.
    Running,
    /// The group has moved to another cluster; what is left on the old one is handled first.
    Switching,
    /// Being shut down.
    Stopping,
    /// Ended.
    Closed,
}

/// A subscription at one moment.
///
/// It can be serialised, for an HTTP route for example. Names are those of the fields in `camelCase` and stay; fields may be
/// added. Times have their unit in their name.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Inspection {
    /// What it is doing.
    pub state: State,
    /// The cluster that is handled now.
    #[serde(serialize_with = "serial::text")]
    pub cluster: ClusterName,
    /// The cluster that the group's route names; another one while switching.
    #[serde(serialize_with = "serial::text")]
    pub route: ClusterName,
    /// The topic that is handled now.
    #[serde(serialize_with = "serial::text")]
    pub topic: TopicName,
    /// The present failure of opening or polling, in words; `None` when all is well.
    pub failure: Option<String>,
    /// Messages in memory: queued, running, waiting for a retry, or done and held by neighbours that are not: memory is
    /// freed some 64 messages at a time.
    pub buffered_messages: usize,
    /// Their bytes.
    pub buffered_bytes: usize,
    /// Counts since the subscription began.
    pub counts: Counts,
    /// Partitions held, in order.
    pub partitions: Vec<PartitionView>,
}

/// One partition held.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PartitionView {
    /// Its number.
    pub partition: i32,
    /// The offset of the next message to handle; `None` while it is not known where to start.
    pub position: Option<i64>,
    /// The position last committed.
    pub committed: Option<i64>,
    /// Messages delivered from the position on: queued, running, waiting for a retry, or done behind one that is not.
    pub queued_messages: usize,
    /// Bytes of those not done.
    pub queued_bytes: usize,
    /// Messages that have used up their attempts and are tried on, or whose dead letter is not taken.
    pub blocked_messages: usize,
    /// Why it is not fetched now.
    pub paused: Option<PauseReason>,
    /// The message that holds the position.
    pub oldest: Option<OldestView>,
    /// The last failure, while its message is not done.
    pub trouble: Option<Trouble>,
}

/// The unfinished message with the lowest offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OldestView {
    /// Its offset.
    pub offset: i64,
    /// How long ago it was fetched; as JSON `ageMs`, in milliseconds.
    #[serde(rename = "ageMs", serialize_with = "serial::millis")]
    pub age: Duration,
    /// Which attempt at it runs, or failed last; `None` when there was none.
    pub attempt: Option<u32>,
    /// Where messages are ordered by key: the hash of its partition and key, while it runs. The same in one subscription
    /// on one cluster for the same key, another one in each process. As JSON a text of 16 hexadecimal digits.
    #[serde(serialize_with = "serial::some_hash")]
    pub key_hash: Option<u64>,
    /// The worker that handles it, counted from 0; `None` while it waits.
    pub worker: Option<usize>,
}

/// Why a partition is not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PauseReason {
    /// The broker has not told yet where to start.
    Starting,
    /// The subscription ends or leaves the cluster.
    Leaving,
    /// The registry has suspended the group.
    Suspended,
    /// The application has paused it.
    Requested,
    /// The subscription's buffer is full.
    BufferFull,
    /// The partition has used its share of the buffer.
    ShareFull,
    /// Too many messages were taken up behind one that is not finished, most of them done: see
    /// [`PartitionView::oldest`].
    FarAhead,
}
