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

    pub(super) fn failures(&self) -> u32 {
        self.failures
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
    error: Option<EngineError>,
    count: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Streak {
    /// A client reports an outage every few seconds, not with every poll, and a refusal only once. Without a report for
    /// this long it may be over.
    const QUIET: Duration = Duration::from_secs(10);

    /// Counts an error; whether it is news: the first of a streak, or the first that will not pass.
    pub(super) fn take(&mut self, error: &EngineError, now: Instant) -> bool {
        let lasts = |error: &EngineError| error.kind.is_lasting();
        let news = !self.error.as_ref().is_some_and(|present| lasts(present) || !lasts(error));
        // A client that is refused reports that no broker is left, too: that is not the cause.
        if !self.error.as_ref().is_some_and(lasts) || lasts(error) {
            self.error = Some(error.clone());
        }
        self.count += 1;
        self.first.get_or_insert(now);
        self.last = Some(now);
        news
    }

    /// The error that tells most, and when the streak began.
    pub(super) fn present(&self) -> Option<(&EngineError, Instant)> {
        self.error.as_ref().zip(self.first)
    }

    /// Whether nothing was reported for some time.
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) >= Self::QUIET)
    }

    /// It is over: the last error, and how many there were.
    pub(super) fn end(&mut self) -> Option<(EngineError, u64)> {
        let ended = std::mem::take(self);
        Some((ended.error?, ended.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::port::FailureKind;

    fn error(kind: FailureKind) -> EngineError {
        EngineError { kind, reason: format!("{kind:?}") }
    }

    #[test]
    fn a_refusal_is_not_hidden_by_what_follows_from_it() {
        let (mut streak, now) = (Streak::default(), Instant::now());
        assert!(streak.take(&error(FailureKind::Unreachable), now));
        assert!(!streak.take(&error(FailureKind::UnknownTopic), now), "one line for a streak");
        assert!(streak.take(&error(FailureKind::Denied), now), "and one for its cause");
        assert!(!streak.take(&error(FailureKind::Unreachable), now));
        let (shown, since) = streak.present().unwrap();
        assert_eq!((shown.kind, since), (FailureKind::Denied, now));
        assert!(!streak.is_quiet(now) && streak.is_quiet(now + Streak::QUIET));
        assert_eq!(streak.end().map(|(_, count)| count), Some(4));
        assert!(streak.present().is_none());
    }
}
