//! How a handler ends.

use std::{fmt::Display, time::Duration};

/// What a handler says about its message.
///
/// Handlers ported from ZMS may return [`ZmsAnswer`](super::ZmsAnswer) in its place; its table says what each answer
/// means here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Handled: its position may be committed.
    Done,
    /// Failed: handle it again after the retry policy's back-off.
    Retry,
    /// Failed: handle it again after this delay. It counts as an attempt like any failure, so that the policy's
    /// attempts bound also a handler that only ever asks for a delay.
    ///
    /// No worker waits meanwhile, and only messages that must not overtake this one wait with it. Until it is done the
    /// partition's position stands still, and what is delivered behind it counts against the partition's share of
    /// the buffer: when that is full the partition stops. A delay of an hour on a busy partition is
    /// a stop of most of an hour. After a restart or a rebalance the message comes back at once, at attempt 1.
    RetryAfter(Duration),
    /// Failed for good: no further attempt is of use. The message goes to the group's dead-letter topic with this
    /// reason, whatever attempts are left and whatever [`RetryPolicy::then`](super::RetryPolicy::then) says; its
    /// position moves when the dead letter is acknowledged. The reason is kept up to 1 KiB.
    DeadLetter(String),
}

impl Outcome {
    /// [`Outcome::DeadLetter`] with a reason.
    pub fn dead_letter(reason: impl Display) -> Self {
        Self::DeadLetter(reason.to_string())
    }
}

/// What handlers may return: an [`Outcome`], a [`ZmsAnswer`](super::ZmsAnswer), nothing (done), or a result of one of
/// these, whose error means [`Outcome::Retry`].
pub trait IntoOutcome {
    /// The outcome, and in words why it is a failure.
    fn into_outcome(self) -> (Outcome, Option<String>);
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (self, None)
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (Outcome::Done, None)
    }
}

impl<O: IntoOutcome, E: Display> IntoOutcome for Result<O, E> {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        match self {
            Ok(outcome) => outcome.into_outcome(),
            Err(error) => (Outcome::Retry, Some(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_convert_and_keep_the_reason() {
        assert_eq!(Ok::<(), String>(()).into_outcome(), (Outcome::Done, None));
        assert_eq!(Err::<(), _>("no stock").into_outcome(), (Outcome::Retry, Some("no stock".to_owned())));
        let later = Outcome::RetryAfter(Duration::from_secs(1));
        assert_eq!(Ok::<_, String>(later.clone()).into_outcome(), (later, None));
        let hopeless = Outcome::dead_letter("no such order");
        assert_eq!(hopeless.clone().into_outcome(), (hopeless, None));
        assert_eq!(().into_outcome(), (Outcome::Done, None));
    }
}
