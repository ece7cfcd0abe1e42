//! The way from the poll thread to the workers.

use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use zms_core::lane;

use super::{assignment::Assignment, delivery::Delivery, worker::Runner};

/// A message on its way to its handler. Dropping it returns what it took of the buffer limits.
pub(super) struct Item {
    pub(super) assignment: Arc<Assignment>,
    pub(super) delivery: Delivery,
    pub(super) bytes: usize,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.assignment.gauge.give_back(self.bytes);
    }
}

/// What waits for one lane's worker.
///
/// The poll thread must never wait for a worker, and a batch must cost one lock, not one for each message. So messages
/// lie in a queue under a plain lock, and a channel with room for one signal serves as a doorbell: a full channel means
/// that the bell has rung already. The queue is bounded by the buffer limits: each item counts against them until it
/// is dropped, and at the limits the poll thread pauses fetching.
#[derive(Default)]
pub(super) struct Inbox(Mutex<VecDeque<Item>>);

impl Inbox {
    /// How many items a worker takes at once. What it has taken cannot be purged any more.
    const HANDFUL: usize = 64;

    fn items(&self) -> MutexGuard<'_, VecDeque<Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves a handful of the oldest items into `into`; whether there were any.
    pub(super) fn take(&self, into: &mut Vec<Item>) -> bool {
        let mut items = self.items();
        let count = items.len().min(Self::HANDFUL);
        into.extend(items.drain(..count));
        count > 0
    }

    fn append(&self, batch: &mut Vec<Item>) {
        self.items().extend(batch.drain(..));
    }

    fn purge(&self) -> usize {
        let mut items = self.items();
        let before = items.len();
        items.retain(|item| !item.assignment.is_stopped());
        before - items.len()
    }
}

/// Wakes a worker. Dropped, it lets the worker end once its inbox is empty.
pub(super) enum Bell {
    Thread(crossbeam_channel::Sender<()>),
    Task { bell: tokio::sync::mpsc::Sender<()>, task: tokio::task::AbortHandle },
}

impl Bell {
    fn ring(&self) {
        // Full: it has rung. Closed: the worker is gone with its runtime; the marks then pause what would pile up.
        match self {
            Self::Thread(bell) => drop(bell.try_send(())),
            Self::Task { bell, .. } => drop(bell.try_send(())),
        }
    }
}

/// The lanes of one topic on one cluster. They outlive a client that is replaced, so that the order of a partition
/// holds across the replacement, and are never shared with another cluster or topic.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    count: NonZeroUsize,
}

struct Lane {
    inbox: Arc<Inbox>,
    bell: Bell,
    /// Filled during one dispatch, empty between.
    batch: Vec<Item>,
}

impl Lanes {
    /// Starts `count` workers.
    pub(super) fn start(runner: &dyn Runner, count: NonZeroUsize) -> io::Result<Self> {
        let start = |index| {
            let inbox = Arc::new(Inbox::default());
            let bell = runner.start(index, Arc::clone(&inbox))?;
            Ok(Lane { inbox, bell, batch: Vec::new() })
        };
        Ok(Self { lanes: (0..count.get()).map(start).collect::<io::Result<_>>()?, count })
    }

    /// Puts an item into its lane's batch; [`send`](Self::send) hands the batches over.
    pub(super) fn add(&mut self, item: Item) {
        let lane = lane::of_partition(item.assignment.partition, self.count);
        self.lanes[lane].batch.push(item);
    }

    /// Hands over what was added.
    pub(super) fn send(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| !lane.batch.is_empty()) {
            lane.inbox.append(&mut lane.batch);
            lane.bell.ring();
        }
    }

    /// Drops the queued items of stopped assignments, which a busy worker would hold in memory until it is free.
    /// How many.
    pub(super) fn purge(&self) -> usize {
        self.lanes.iter().map(|lane| lane.inbox.purge()).sum()
    }

    /// Cancels handlers that run as tasks; those on threads run on.
    pub(super) fn abort(&self) {
        for lane in &self.lanes {
            if let Bell::Task { task, .. } = &lane.bell {
                task.abort();
            }
        }
    }
}
