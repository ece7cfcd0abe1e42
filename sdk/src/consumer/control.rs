//! What an application may order while a subscription runs: pause, resume, seek.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{mpsc, oneshot};
use zms_core::name::GroupName;

use super::{Subscription, inspect::PauseReason};

/// Seeks that wait for the poll thread; more wait with their callers.
const WAITING: usize = 16;

/// Where to go on handling a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeekTo {
    /// The oldest message still there.
    Earliest,
    /// The end: only messages sent from now on.
    Latest,
    /// This offset; outside the log it is the log's nearest end.
    Offset(i64),
    /// The first message whose timestamp, in milliseconds since the Unix epoch, is not before this; the end where there
    /// is none.
    Timestamp(i64),
}

/// Why a partition goes on where it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeekError {
    /// The partition is not held here. Ask the subscription that holds it, or wait until this one does.
    #[error("group {group} does not hold partition {partition} here")]
    NotHeld {
        /// The group.
        group: GroupName,
        /// The partition.
        partition: i32,
    },
    /// The broker did not tell where that is. Trying again is useful.
    #[error("group {group}, partition {partition}: the broker did not tell where to go on: {reason}")]
    NoAnswer {
        /// The group.
        group: GroupName,
        /// The partition.
        partition: i32,
        /// What the client reports.
        reason: String,
    },
    /// The subscription has ended.
    #[error("group {group}: the subscription is closed")]
    Closed {
        /// The group.
        group: GroupName,
    },
}

impl Subscription {
    /// Stops fetching, of all partitions held now or later, until [`resume`](Self::resume). Takes effect within some
    /// 100 ms; what is in memory by then is still handled, [`max_buffered_messages`](super::Subscriber::max_buffered_messages)
    /// at most. The subscription stays in its group, and a pause outlives rebalances and moves to another cluster, which
    /// wait for it to end.
    pub fn pause(&self) {
        self.context.books.pauses.lock().all = true;
    }

    /// Takes [`pause`](Self::pause) back. Partitions that were paused by number stay so.
    pub fn resume(&self) {
        self.context.books.pauses.lock().all = false;
    }

    /// Stops fetching these partitions, whenever they are held here, until they are resumed by number. Otherwise as
    /// [`pause`](Self::pause). Numbers of partitions that do not exist do nothing.
    pub fn pause_partitions(&self, partitions: &[i32]) {
        self.context.books.pauses.lock().partitions.extend(partitions);
    }

    /// Takes [`pause_partitions`](Self::pause_partitions) back.
    pub fn resume_partitions(&self, partitions: &[i32]) {
        self.context.books.pauses.lock().partitions.retain(|partition| !partitions.contains(partition));
    }

    /// Goes on handling a partition elsewhere, and tells the offset. The new position is committed, also below the one
    /// before. Messages that wait are not handled; a handler that runs ends as it likes and does not count, and the first
    /// one from the new position begins after it.
    ///
    /// The partition has to be held by this subscription. Dropping the future does not take the order back.
    ///
    /// # Errors
    /// [`SeekError`] when the partition is not held here, the broker does not tell where that is, or the subscription has
    /// ended. The partition goes on where it was.
    pub async fn seek(&self, partition: i32, to: SeekTo) -> Result<i64, SeekError> {
        let closed = || SeekError::Closed { group: self.context.group.clone() };
        let (answer, answered) = oneshot::channel();
        let order = SeekOrder { partition, to, answer };
        self.context.orders.sender.send(order).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

/// Partitions that the application has paused.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<Paused>);

#[derive(Debug, Clone, Default)]
pub(super) struct Paused {
    all: bool,
    partitions: BTreeSet<i32>,
}

impl Pauses {
    /// As they are now.
    pub(super) fn now(&self) -> Paused {
        self.lock().clone()
    }

    // Short: a set of numbers is changed or copied, which is nearly always empty.
    fn lock(&self) -> MutexGuard<'_, Paused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Paused {
    /// Why this partition must not flow.
    pub(super) fn reason(&self, partition: i32) -> Option<PauseReason> {
        (self.all || self.partitions.contains(&partition)).then_some(PauseReason::Requested)
    }

    /// Whether something may be held up.
    pub(super) fn is_any(&self) -> bool {
        self.all || !self.partitions.is_empty()
    }
}

/// A seek that waits for the poll thread. Dropped, its caller learns that the subscription has ended.
#[derive(Debug)]
pub(super) struct SeekOrder {
    pub(super) partition: i32,
    pub(super) to: SeekTo,
    pub(super) answer: oneshot::Sender<Result<i64, SeekError>>,
}

impl SeekOrder {
    /// Nothing is held now.
    pub(super) fn refuse(self, group: &GroupName) {
        let refusal = SeekError::NotHeld { group: group.clone(), partition: self.partition };
        // Whoever gave the order may have gone.
        let _ = self.answer.send(Err(refusal));
    }
}

/// Orders on their way to the poll thread.
#[derive(Debug)]
pub(super) struct Orders {
    sender: mpsc::Sender<SeekOrder>,
    // Taken from by the poll thread alone.
    receiver: Mutex<mpsc::Receiver<SeekOrder>>,
}

impl Default for Orders {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Self { sender, receiver: Mutex::new(receiver) }
    }
}

impl Orders {
    pub(super) fn next(&self) -> Option<SeekOrder> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }

    /// None is taken any more; those that wait are dropped.
    pub(super) fn close(&self) {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.close();
        while receiver.try_recv().is_ok() {}
    }
}
