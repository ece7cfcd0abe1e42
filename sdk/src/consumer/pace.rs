//! When something is done again, and what is a streak of errors.

use std::time::{Duration, Instant};

use zms_core::backoff::Backoff;

use crate::engine::port::EngineError;

/// After failures; keeps a dead broker from holding the poll thread all the time.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// When something is to be done next; later after failures.
pub(super) struct Timer {
    at: Instant,
    failures: u32,
}

impl Timer {
    pub(super) fn new(at: Instant) -> Self {
        Self { at, failures: 0 }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.at
    }

    pub(super) fn not_later_than(&mut self, at: Instant) {
        if self.failures == 0 {
            self.at = self.at.min(at);
        }
    }

    pub(super) fn succeed(&mut self, next: Instant) {
        *self = Self::new(next);
    }

    pub(super) fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.at = now + AGAIN.delay(self.failures, u64::MAX);
    }
}

/// Errors in a row.
#[derive(Default)]
pub(super) struct Streak {
    pub(super) error: Option<EngineError>,
    count: u64,
    last: Option<Instant>,
}

impl Streak {
    /// A client reports an outage every few seconds, not with every poll. Without a report for this long it is over.
    const QUIET: Duration = Duration::from_secs(10);

    /// Counts an error; whether it begins a streak.
    pub(super) fn begins_with(&mut self, error: &EngineError) -> bool {
        let begins = self.error.is_none();
        self.error = Some(error.clone());
        self.count += 1;
        self.last = Some(Instant::now());
        begins
    }

    pub(super) fn end_if_quiet(&mut self) -> Option<(EngineError, u64)> {
        self.last.filter(|last| last.elapsed() >= Self::QUIET)?;
        let ended = std::mem::take(self);
        Some((ended.error?, ended.count))
    }
}
