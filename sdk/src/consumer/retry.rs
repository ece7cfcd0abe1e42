//! What happens to a message whose handler fails.

use std::time::Duration;

use zms_core::backoff::Backoff;

use super::Outcome;

/// How often and how soon a failed message is handled again, and what then. While a message waits, its lane waits:
/// nothing overtakes it; other lanes go on.
///
/// ```
/// use std::time::Duration;
/// use zms_sdk::consumer::{Exhausted, RetryPolicy};
/// let policy = RetryPolicy::new()
///     .attempts(3)
///     .backoff(Duration::from_millis(50), Duration::from_secs(2))
///     .then(Exhausted::Skip);
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    attempts: u32,
    backoff: Backoff,
    exhausted: Exhausted,
}

/// What happens after the last attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// Keep trying at the longest delay. The position does not move; the message is counted, logged once and shown by
    /// [`Subscription::inspect`](super::Subscription::inspect).
    #[default]
    Block,
    /// Go on as if it were done: counted and logged. The message is not handled again.
    Skip,
}

/// Longer delays than this are cut, so that adding one to a clock cannot overflow.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What to do after a run of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    Skip,
    /// Run it again after the delay; `blocks` is true at the one run that used up the attempts.
    Again {
        delay: Duration,
        blocks: bool,
    },
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryPolicy {
    /// Five attempts, 100 ms to 30 s apart, then [`Exhausted::Block`].
    pub const fn new() -> Self {
        Self {
            attempts: 5,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(30)),
            exhausted: Exhausted::Block,
        }
    }

    /// Attempts in all, the first one included. Default 5; 0 is taken as 1.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Delay after the first failure, doubling up to `max`; up to half of each is random. Default 100 ms to 30 s.
    #[must_use]
    pub const fn backoff(mut self, initial: Duration, max: Duration) -> Self {
        self.backoff = Backoff::new(initial, max);
        self
    }

    /// What happens after the last attempt. Default [`Exhausted::Block`].
    #[must_use]
    pub const fn then(mut self, exhausted: Exhausted) -> Self {
        self.exhausted = exhausted;
        self
    }

    /// Judges the `attempt`-th run, counted from 1. `random` spreads the delay.
    pub(super) fn judge(&self, attempt: u32, outcome: Outcome, random: u64) -> Verdict {
        let asked = match outcome {
            Outcome::Done => return Verdict::Done,
            Outcome::Retry => None,
            Outcome::RetryAfter(delay) => Some(delay),
        };
        let last = self.attempts.max(1);
        if attempt >= last && self.exhausted == Exhausted::Skip {
            return Verdict::Skip;
        }
        let delay = asked.unwrap_or_else(|| self.backoff.delay(attempt, random)).min(LONGEST_DELAY);
        Verdict::Again { delay, blocks: attempt == last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy::new().attempts(2).backoff(Duration::from_millis(10), Duration::from_millis(40));

    fn again(millis: u64, blocks: bool) -> Verdict {
        Verdict::Again { delay: Duration::from_millis(millis), blocks }
    }

    #[test]
    fn a_blocked_message_is_tried_for_ever_at_the_longest_delay() {
        assert_eq!(POLICY.judge(1, Outcome::Retry, 0), again(5, false));
        assert_eq!(POLICY.judge(2, Outcome::Retry, 0), again(10, true));
        assert_eq!(POLICY.judge(1000, Outcome::Retry, 0), again(20, false));
        assert_eq!(POLICY.judge(1001, Outcome::Done, 0), Verdict::Done);
    }

    #[test]
    fn skipping_comes_after_the_last_attempt() {
        let policy = POLICY.then(Exhausted::Skip);
        assert_eq!(policy.judge(1, Outcome::Retry, 0), again(5, false));
        assert_eq!(policy.judge(2, Outcome::Retry, 0), Verdict::Skip);
        assert_eq!(policy.attempts(0).judge(1, Outcome::Retry, 0), Verdict::Skip);
    }

    #[test]
    fn a_delay_asked_for_is_kept() {
        assert_eq!(
            POLICY.judge(1, Outcome::RetryAfter(Duration::from_secs(7)), u64::MAX),
            again(7000, false)
        );
        let endless = POLICY.judge(1, Outcome::RetryAfter(Duration::MAX), 0);
        assert_eq!(endless, Verdict::Again { delay: LONGEST_DELAY, blocks: false });
    }
}
