//! One assignment of one partition, as the poll thread and the lanes share it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;
use zms_core::tracker::{Completed, Tracker};

use super::{delivery::Origin, stats::Gauge};

/// Work items hold the assignment that they were delivered under, so that a partition that is taken and given back is
/// never confused with itself: its earlier work completes into the earlier book, which is closed.
pub(super) struct Assignment {
    pub(super) origin: Arc<Origin>,
    pub(super) partition: i32,
    pub(super) gauge: Arc<Gauge>,
    // A plain lock: held for a few instructions by the poll thread once per batch and by a lane once per message.
    book: Mutex<Book>,
    /// Signalled when the assignment stops, and from then on by each run that ends.
    changed: Condvar,
    stopped: watch::Sender<bool>,
}

pub(super) struct Book {
    pub(super) tracker: Tracker,
    pub(super) trouble: Option<Trouble>,
}

/// The message that holds the partition up, as its last run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
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
        Self {
            origin,
            partition,
            gauge,
            book: Mutex::new(Book { tracker, trouble: None }),
            changed: Condvar::new(),
            stopped: watch::Sender::new(false),
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a run, unless the assignment is stopped.
    pub(super) fn begin(&self) -> Option<Run<'_>> {
        let begun = self.book().tracker.begin();
        begun.then(|| Run { assignment: self, ended: false })
    }

    pub(super) fn note_trouble(&self, trouble: Trouble) {
        self.book().trouble = Some(trouble);
    }

    /// Queued work is skipped from now on, retries stop waiting, running handlers go on.
    pub(super) fn stop(&self) {
        self.book().tracker.stop();
        self.stopped.send_replace(true);
        self.changed.notify_all();
    }

    /// Waits until no handler runs; whether that came true before `deadline`. Only after [`stop`](Self::stop).
    pub(super) fn drained_by(&self, deadline: Instant) -> bool {
        let mut book = self.book();
        while book.tracker.running() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            book = self.changed.wait_timeout(book, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.book().tracker.is_stopped()
    }

    /// Blocks a worker thread for `delay`, or until the assignment stops.
    pub(super) fn pause_blocking(&self, delay: Duration) {
        let until = Instant::now() + delay;
        let mut book = self.book();
        while !book.tracker.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            book = self.changed.wait_timeout(book, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for `delay`, or until the assignment stops.
    pub(super) async fn pause(&self, delay: Duration) {
        let mut stopped = self.stopped.subscribe();
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }

    fn end(&self, offset: Option<i64>) -> Completed {
        let mut book = self.book();
        let completed = if let Some(offset) = offset {
            book.tracker.complete(offset)
        } else {
            book.tracker.abandon();
            Completed::Unknown
        };
        if book.trouble.as_ref().is_some_and(|t| Some(t.offset) == offset) {
            book.trouble = None;
        }
        if book.tracker.is_stopped() {
            drop(book);
            self.changed.notify_all();
        }
        completed
    }
}

/// A run of a handler. Dropped without [`complete`](Self::complete), it ends without an outcome, also when its task is
/// cancelled.
pub(super) struct Run<'a> {
    assignment: &'a Assignment,
    ended: bool,
}

impl Run<'_> {
    pub(super) fn complete(mut self, offset: i64) -> Completed {
        self.ended = true;
        self.assignment.end(Some(offset))
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.assignment.end(None);
        }
    }
}
