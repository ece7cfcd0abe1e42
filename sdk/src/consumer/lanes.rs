//! The way from the poll thread to the workers.

use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use zms_core::{flow::Load, lane};

use super::{assignment::Assignment, delivery::Parcel, worker::Runner};

/// Messages of one partition on their way to their handler. Dropping it returns what they took of the buffer limits: all
/// at once, because that is how their memory is freed.
pub(super) struct Item {
    pub(super) assignment: Arc<Assignment>,
    pub(super) parcel: Parcel,
    pub(super) load: Load,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.assignment.gauge.give_back(self.load);
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
    fn items(&self) -> MutexGuard<'_, VecDeque<Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest item. It cannot be purged any more.
    pub(super) fn take(&self) -> Option<Item> {
        self.items().pop_front()
    }

    fn append(&self, batch: &mut Vec<Item>) {
        self.items().extend(batch.drain(..));
    }

    fn purge(&self) -> usize {
        let mut items = self.items();
        let mut purged = 0;
        items.retain(|item| {
            let stopped = item.assignment.is_stopped();
            purged += if stopped { item.parcel.len() } else { 0 };
            !stopped
        });
        purged
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
    /// How many messages.
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
