//! A set of numbers, kept as ranges.

use std::collections::BTreeMap;

/// A set of `u64` that costs one entry per run of consecutive numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberSet {
    /// First to last number of each run, both included. Runs neither overlap nor touch.
    runs: BTreeMap<u64, u64>,
}

impl NumberSet {
    /// Adds a number; `false` if it was in the set before.
    pub fn insert(&mut self, number: u64) -> bool {
        let below = self.runs.range(..=number).next_back().map(|(&first, &last)| (first, last));
        if below.is_some_and(|(_, last)| number <= last) {
            return false;
        }
        let mut run = (number, number);
        if let Some((first, last)) = below
            && last + 1 == number
        {
            run.0 = first;
        }
        if let Some(above) = number.checked_add(1).and_then(|next| self.runs.remove(&next)) {
            run.1 = above;
        }
        self.runs.insert(run.0, run.1);
        true
    }

    /// Whether the number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, &last)| number <= last)
    }

    /// How many numbers are in the set; stops at `u64::MAX`.
    pub fn len(&self) -> u64 {
        self.runs
            .iter()
            .fold(0, |sum: u64, (first, last)| sum.saturating_add((last - first).saturating_add(1)))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The highest number.
    pub fn last(&self) -> Option<u64> {
        self.runs.last_key_value().map(|(_, &last)| last)
    }

    /// How many runs of consecutive numbers the set consists of: what it costs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The runs of numbers that are in this set and not in `other`: first and last of each, both included, ascending.
    pub fn missing_in<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.runs.iter().flat_map(move |(&first, &last)| other.gaps(first, last))
    }

    /// How many numbers are in this set and not in `other`; stops at `u64::MAX`.
    pub fn count_missing_in(&self, other: &Self) -> u64 {
        let length = |(first, last): (u64, u64)| (last - first).saturating_add(1);
        self.missing_in(other).map(length).fold(0, u64::saturating_add)
    }

    /// The lowest number that is in this set, below `limit`, and not in `other`.
    pub fn first_missing_below(&self, limit: u64, other: &Self) -> Option<u64> {
        self.missing_in(other).next().map(|(first, _)| first).filter(|first| *first < limit)
    }

    /// The runs of numbers between `first` and `last` that are not in this set.
    fn gaps(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        // The run that `first` may lie in starts at or below it; the others that matter start within the bounds.
        let start = self.runs.range(..=first).next_back().map_or(first, |(&start, _)| start);
        let mut inside = self.runs.range(start..=last);
        let mut next = Some(first);
        std::iter::from_fn(move || {
            loop {
                let from = next.filter(|from| *from <= last)?;
                let Some((&run_first, &run_last)) = inside.next() else {
                    next = None;
                    return Some((from, last));
                };
                next = run_last.checked_add(1).map(|after| after.max(from));
                if run_first > from {
                    return Some((from, run_first - 1));
                }
            }
        })
    }
}
