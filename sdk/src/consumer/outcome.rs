//! How a handler ends.

use std::{fmt::Display, time::Duration};

/// What a handler says about its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Handled: its position may be committed.
    Done,
    /// Failed: handle it again after the retry policy's back-off.
    Retry,
    /// Failed: handle it again after this delay. Counts as an attempt.
    RetryAfter(Duration),
}

/// What handlers may return: an [`Outcome`], nothing (done), or a result whose error means [`Outcome::Retry`].
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

impl<E: Display> IntoOutcome for Result<(), E> {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        match self {
            Ok(()) => (Outcome::Done, None),
            Err(error) => (Outcome::Retry, Some(error.to_string())),
        }
    }
}

impl<E: Display> IntoOutcome for Result<Outcome, E> {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        match self {
            Ok(outcome) => (outcome, None),
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
        assert_eq!(Ok::<_, String>(later).into_outcome(), (later, None));
        assert_eq!(().into_outcome(), (Outcome::Done, None));
    }
}
