//! What happens to a message whose handler fails.

use std::time::Duration;

use zms_core::{
    backoff::Backoff,
    name::{GroupName, NameError, TopicName},
};

use super::Outcome;

/// How often and how soon a failed message is handled again, and what then. While a message waits, nothing that its
/// ordering puts behind it overtakes it; everything else goes on.
///
/// ```
/// use std::time::Duration;
/// use zms_sdk::consumer::{Exhausted, RetryPolicy};
/// let policy = RetryPolicy::new()
///     .attempts(3)
///     .backoff(Duration::from_millis(50), Duration::from_secs(2))
///     .then(Exhausted::DeadLetter);
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    attempts: u32,
    backoff: Backoff,
    exhausted: Exhausted,
    dead_letter_topic: Option<String>,
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
    /// Send it to the group's dead-letter topic, and go on once that is acknowledged. While it cannot be sent, the
    /// message blocks as with [`Block`](Self::Block), but its handler is not called again: only the sending is repeated.
    /// See [`RetryPolicy::dead_letter_topic`].
    DeadLetter,
}

/// What the names of dead-letter topics begin with, unless another name is chosen.
pub(super) const DEAD_LETTER_PREFIX: &str = "dlq.";

/// Longer delays than this are cut, so that adding one to a clock cannot overflow.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What to do after a run of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    Skip,
    /// Send it to the dead-letter topic.
    Bury,
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
            dead_letter_topic: None,
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

    /// The topic that dead letters go to, which must be registered like any topic. Default: `dlq.` and the group's name.
    /// One that several groups share is fine; each letter names its group. A group that itself reads a dead-letter
    /// topic (its own target, or one that begins with `dlq.`) must name another topic here: letters about letters
    /// would go from topic to topic for ever.
    #[must_use]
    pub fn dead_letter_topic(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter_topic = Some(topic.into());
        self
    }

    /// Where the dead letters of `group` go, and whether that was said or is the default.
    pub(super) fn grave(&self, group: &GroupName) -> Result<(TopicName, bool), NameError> {
        match &self.dead_letter_topic {
            Some(topic) => Ok((TopicName::new(topic)?, true)),
            None => Ok((TopicName::new(format!("{DEAD_LETTER_PREFIX}{group}"))?, false)),
        }
    }

    /// Whether messages may be buried without their handler asking for it.
    pub(super) fn buries(&self) -> bool {
        self.exhausted == Exhausted::DeadLetter || self.dead_letter_topic.is_some()
    }

    /// The wait before a dead letter is sent again that has failed to go out `failures` times.
    pub(super) fn burial_delay(&self, failures: u32, random: u64) -> Duration {
        self.backoff.delay(failures, random).min(LONGEST_DELAY)
    }

    /// Judges the `attempt`-th run, counted from 1. `random` spreads the delay.
    pub(super) fn judge(&self, attempt: u32, outcome: &Outcome, random: u64) -> Verdict {
        let asked = match outcome {
            Outcome::Done => return Verdict::Done,
            Outcome::DeadLetter(_) => return Verdict::Bury,
            Outcome::Retry => None,
            Outcome::RetryAfter(delay) => Some(*delay),
        };
        let last = self.attempts.max(1);
        if attempt >= last {
            match self.exhausted {
                Exhausted::Skip => return Verdict::Skip,
                Exhausted::DeadLetter => return Verdict::Bury,
                Exhausted::Block => {}
            }
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
        assert_eq!(POLICY.judge(1, &Outcome::Retry, 0), again(5, false));
        assert_eq!(POLICY.judge(2, &Outcome::Retry, 0), again(10, true));
        assert_eq!(POLICY.judge(1000, &Outcome::Retry, 0), again(20, false));
        assert_eq!(POLICY.judge(1001, &Outcome::Done, 0), Verdict::Done);
    }

    #[test]
    fn skipping_comes_after_the_last_attempt() {
        let policy = POLICY.clone().then(Exhausted::Skip);
        assert_eq!(policy.judge(1, &Outcome::Retry, 0), again(5, false));
        assert_eq!(policy.judge(2, &Outcome::Retry, 0), Verdict::Skip);
        assert_eq!(policy.attempts(0).judge(1, &Outcome::Retry, 0), Verdict::Skip);
    }

    #[test]
    fn a_message_is_buried_after_the_last_attempt_or_when_its_handler_says_so() {
        let policy = POLICY.then(Exhausted::DeadLetter);
        assert_eq!(policy.judge(1, &Outcome::Retry, 0), again(5, false));
        assert_eq!(policy.judge(2, &Outcome::Retry, 0), Verdict::Bury);
        assert_eq!(policy.judge(2, &Outcome::RetryAfter(Duration::ZERO), 0), Verdict::Bury);
        for any in [POLICY, POLICY.then(Exhausted::Skip), policy] {
            assert_eq!(any.judge(1, &Outcome::dead_letter("no"), 0), Verdict::Bury);
        }
    }

    #[test]
    fn dead_letters_go_to_the_groups_topic_or_the_one_chosen() {
        let group = GroupName::new("billing").unwrap();
        let grave = |policy: RetryPolicy| policy.grave(&group).map(|(topic, said)| (topic.to_string(), said));
        assert_eq!(grave(POLICY), Ok(("dlq.billing".to_owned(), false)));
        assert_eq!(grave(POLICY.dead_letter_topic("lost")), Ok(("lost".to_owned(), true)));
        assert!(grave(POLICY.dead_letter_topic("not a name")).is_err());
    }

    #[test]
    fn a_delay_asked_for_is_kept() {
        assert_eq!(
            POLICY.judge(1, &Outcome::RetryAfter(Duration::from_secs(7)), u64::MAX),
            again(7000, false)
        );
        let endless = POLICY.judge(1, &Outcome::RetryAfter(Duration::MAX), 0);
        assert_eq!(endless, Verdict::Again { delay: LONGEST_DELAY, blocks: false });
    }
}
