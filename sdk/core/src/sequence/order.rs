//! Checks that calls follow one another one at a time and in order.

use std::collections::BTreeSet;

use super::numbers::NumberSet;

/// The calls of one lane: of one partition, numbered by offset, or of one stream, numbered by message.
///
/// Report each call with [`start`](Self::start) and its end with [`end`](Self::end). A call that is repeated breaks no
/// order (a repetition is a duplicate, which a [`Checker`](super::Checker) finds); one that comes first time after a
/// higher one does, and so does one that starts while another runs, or while a lower one is still to be done.
#[derive(Clone, Debug, Default)]
pub struct Order {
    started: NumberSet,
    done: NumberSet,
    running: BTreeSet<u64>,
}

/// How a call broke the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It started while another call of the lane was running.
    #[error("{number} started while {running} was running")]
    Overlap {
        /// The call.
        number: u64,
        /// The other call.
        running: u64,
    },
    /// It started for the first time after a higher one had started.
    #[error("{number} came first time after {highest}")]
    Late {
        /// The call.
        number: u64,
        /// The highest that had started.
        highest: u64,
    },
    /// It started although a lower one had started and was not done.
    #[error("{number} started before {unfinished} was done")]
    Overtook {
        /// The call.
        number: u64,
        /// The lowest that was not done.
        unfinished: u64,
    },
}

impl Order {
    /// A call starts.
    ///
    /// # Errors
    /// How it breaks the order; it is noted all the same.
    pub fn start(&mut self, number: u64) -> Result<(), Violation> {
        let verdict = self.judge(number);
        self.started.insert(number);
        self.running.insert(number);
        verdict
    }

    /// A call ends; `done` unless it is to be repeated.
    pub fn end(&mut self, number: u64, done: bool) {
        self.running.remove(&number);
        if done {
            self.done.insert(number);
        }
    }

    fn judge(&self, number: u64) -> Result<(), Violation> {
        if let Some(&running) = self.running.first() {
            return Err(Violation::Overlap { number, running });
        }
        let highest = self.started.last();
        if let Some(highest) = highest.filter(|highest| number < *highest && !self.started.contains(number)) {
            return Err(Violation::Late { number, highest });
        }
        match self.started.first_missing_below(number, &self.done) {
            Some(unfinished) => Err(Violation::Overtook { number, unfinished }),
            None => Ok(()),
        }
    }
}
