//! Messages handled by one call.

use std::{fmt::Display, slice, vec};

use super::{Delivery, IntoOutcome, Outcome};

/// Messages given to a batch handler: at least one, all of one partition, in the order of their offsets.
#[derive(Debug, Clone)]
pub struct Batch(pub(super) Vec<Delivery>);

impl Batch {
    /// Number of messages.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The messages, in order.
    pub fn iter(&self) -> slice::Iter<'_, Delivery> {
        self.0.iter()
    }

    /// The messages, in order.
    pub fn as_slice(&self) -> &[Delivery] {
        &self.0
    }
}

impl IntoIterator for Batch {
    type Item = Delivery;
    type IntoIter = vec::IntoIter<Delivery>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Delivery;
    type IntoIter = slice::Iter<'a, Delivery>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// What batch handlers may return: one outcome for all messages, which is anything that is [`IntoOutcome`], or one for
/// each, in their order: `Vec<Outcome>`, or a result of it whose error fails all. Messages that have no outcome, because
/// there are fewer than messages, are handled again; outcomes without a message mean nothing.
pub trait IntoOutcomes {
    /// The outcomes.
    fn into_outcomes(self) -> Outcomes;
}

/// The outcomes of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcomes {
    /// One for all, and in words why it is a failure.
    Same(Outcome, Option<String>),
    /// One for each.
    Each(Vec<Outcome>),
}

impl Outcomes {
    /// What it says about a message.
    pub(super) fn of(&self, index: usize) -> (Outcome, Option<String>) {
        match self {
            Self::Same(outcome, reason) => (outcome.clone(), reason.clone()),
            Self::Each(outcomes) => match outcomes.get(index) {
                Some(outcome) => (outcome.clone(), None),
                None => (Outcome::Retry, Some("the batch handler gave no outcome for it".to_owned())),
            },
        }
    }
}

impl<T: IntoOutcome> IntoOutcomes for T {
    fn into_outcomes(self) -> Outcomes {
        let (outcome, reason) = self.into_outcome();
        Outcomes::Same(outcome, reason)
    }
}

impl IntoOutcomes for Vec<Outcome> {
    fn into_outcomes(self) -> Outcomes {
        Outcomes::Each(self)
    }
}

impl<E: Display> IntoOutcomes for Result<Vec<Outcome>, E> {
    fn into_outcomes(self) -> Outcomes {
        match self {
            Ok(outcomes) => Outcomes::Each(outcomes),
            Err(error) => Outcomes::Same(Outcome::Retry, Some(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outcome_stands_for_all_and_a_list_for_each() {
        assert_eq!(().into_outcomes().of(7), (Outcome::Done, None));
        let failed = Err::<(), _>("no stock").into_outcomes();
        assert_eq!(failed.of(3), (Outcome::Retry, Some("no stock".to_owned())));
        let each = vec![Outcome::Done, Outcome::Retry].into_outcomes();
        assert_eq!((each.of(0).0, each.of(1).0), (Outcome::Done, Outcome::Retry));
        assert_eq!(each.of(2).0, Outcome::Retry, "no outcome is no success");
        let failed = Err::<Vec<Outcome>, _>("down").into_outcomes();
        assert_eq!(failed.of(0), (Outcome::Retry, Some("down".to_owned())));
    }
}
