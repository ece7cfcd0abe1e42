//! One assignment of one partition, as the poll thread and the workers share it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use zms_core::{
    gate::TopicGate,
    tracker::{Completed, Epoch, Tracker},
};

use super::{delivery::Origin, stats::Gauge};

/// Work items hold the assignment that they were delivered under, so that a partition that is taken and given back is
/// never confused with itself: its earlier work completes into the earlier book, which is closed.
pub(super) struct Assignment {
    pub(super) origin: Arc<Origin>,
    pub(super) partition: i32,
    pub(super) epoch: Epoch,
    pub(super) gauge: Arc<Gauge>,
    // A plain lock: held for a few instructions by the poll thread once per batch and by a worker once per message.
    book: Mutex<Book>,
    /// Counts the runs, and holds new ones back for good once the assignment is stopped. A run enters the gate before it
    /// calls a handler, so that whoever stops the assignment and then sees no run knows that none will begin.
    runs: TopicGate,
    /// Signalled from the stop on by each run that ends.
    changed: Condvar,
}

pub(super) struct Book {
    pub(super) tracker: Tracker,
    pub(super) trouble: Option<Trouble>,
    /// Messages that have used up their attempts and are tried on.
    pub(super) blocked: BTreeSet<i64>,
}

/// The message that holds the partition up, as its last run ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Trouble {
    /// Its offset.
    pub offset: i64,
    /// Failed attempts so far.
    pub attempts: u32,
    /// Why the last one failed.
    pub reason: String,
}

impl Assignment {
    pub(super) fn new(origin: Arc<Origin>, partition: i32, gauge: Arc<Gauge>, tracker: Tracker) -> Self {
        let runs = TopicGate::held();
        runs.open();
        Self {
            origin,
            partition,
            epoch: tracker.epoch(),
            gauge,
            book: Mutex::new(Book { tracker, trouble: None, blocked: BTreeSet::new() }),
            runs,
            changed: Condvar::new(),
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a run, unless the assignment is stopped.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Run> {
        self.runs.enter().then(|| Run(Arc::clone(self)))
    }

    /// Runs that have begun and not ended.
    pub(super) fn running(&self) -> usize {
        self.runs.in_flight()
    }

    pub(super) fn note_trouble(&self, trouble: Trouble) {
        self.book().trouble = Some(trouble);
    }

    /// This message is tried on although it has used up its attempts.
    pub(super) fn note_blocked(&self, offset: i64) {
        self.book().blocked.insert(offset);
    }

    /// Queued work is skipped from now on, running handlers go on.
    pub(super) fn stop(&self) {
        self.book().tracker.stop();
        self.runs.hold();
    }

    /// Waits until no handler runs; whether that came true before `deadline`. Only after [`stop`](Self::stop).
    pub(super) fn drained_by(&self, deadline: Instant) -> bool {
        let mut book = self.book();
        while self.running() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            book = self.changed.wait_timeout(book, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.runs.is_held()
    }

    fn complete(&self, offset: i64) -> Completed {
        let mut book = self.book();
        if book.trouble.as_ref().is_some_and(|trouble| trouble.offset == offset) {
            book.trouble = None;
        }
        if !book.blocked.is_empty() {
            book.blocked.remove(&offset);
        }
        book.tracker.complete(offset)
    }

    fn end_run(&self) {
        if self.runs.leave() {
            // Whoever waits looks at the count under this lock; without it the signal could come between the look and
            // the wait.
            drop(self.book());
            self.changed.notify_all();
        }
    }
}

/// Some messages of one assignment being handled, one after the other or in one call. While it lives they count as
/// running; dropped, those not completed end without an outcome, also when their task is cancelled.
pub(super) struct Run(Arc<Assignment>);

impl Run {
    /// A message is done.
    pub(super) fn complete(&self, offset: i64) -> Completed {
        self.0.complete(offset)
    }

    /// Whether nothing more may begin in this run.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.end_run();
    }
}
