//! Checks numbered messages for loss, duplicates and reordering.
//!
//! Every sender numbers the messages of each key from 0 up, and writes [`stamp`]ed payloads. A [`Checker`] is told
//! what was acknowledged and what was handled, in the order in which that happened, and answers with a [`Report`].
//! [`Order`] checks how calls of a handler follow one another. Both remember ranges of numbers: their memory grows
//! with the number of gaps, not with the number of messages.

mod numbers;
mod order;
mod report;

use std::collections::BTreeMap;

pub use numbers::NumberSet;
pub use order::{Order, Violation};
pub use report::{Example, Findings, Report};

/// One numbered series of messages: those of one key from one sender.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// Who sends; two senders number their messages independently.
    pub producer: String,
    /// The messages' key.
    pub key: String,
}

/// Where a handled message was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The cluster.
    pub cluster: String,
    /// The partition of the topic that is checked.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// The payload of message `number` of `producer`: readable, and read back by [`read_stamp`].
pub fn stamp(producer: &str, number: u64) -> String {
    format!("zms {number} {producer}")
}

/// Takes a [`stamp`] apart into sender and number; `None` for any other payload.
pub fn read_stamp(payload: &[u8]) -> Option<(&str, u64)> {
    let text = std::str::from_utf8(payload).ok()?.strip_prefix("zms ")?;
    let (number, producer) = text.split_once(' ')?;
    Some((producer, number.parse().ok()?))
}

/// Compares what was acknowledged with what was handled.
///
/// Feed it with [`acknowledged`](Self::acknowledged) and [`handled`](Self::handled), in any interleaving: a message may
/// be handled before its sender hears of it. Ask [`outstanding`](Self::outstanding) whether the end is reached, and
/// then [`report`](Self::report).
///
/// ```
/// use zms_core::sequence::{Checker, Position, Stream};
/// let stream = Stream { producer: "p".into(), key: "k".into() };
/// let mut checker = Checker::default();
/// checker.acknowledged(&stream, 0);
/// checker.acknowledged(&stream, 1);
/// checker.handled(&stream, 1, &Position { cluster: "a".into(), partition: 0, offset: 7 });
/// assert_eq!(checker.report().lost.count, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checker {
    streams: BTreeMap<Stream, Progress>,
    redelivered: Findings,
    copied: Findings,
    reordered: Findings,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    acknowledged: NumberSet,
    handled: NumberSet,
    /// The highest offset handled so far in each partition of each cluster that the stream was seen in.
    read_to: BTreeMap<(String, i32), i64>,
}

impl Checker {
    /// The sender of message `number` was told that it is stored. From now on it counts as lost until it is handled.
    pub fn acknowledged(&mut self, stream: &Stream, number: u64) {
        self.progress(stream).acknowledged.insert(number);
    }

    /// A handler did message `number`, which stood at `at`.
    pub fn handled(&mut self, stream: &Stream, number: u64, at: &Position) {
        let progress = self.progress(stream);
        let highest = progress.handled.last();
        let first_time = progress.handled.insert(number);
        let read_before = progress.read_past(at);

        let example = || Example { stream: stream.clone(), number, at: Some(at.clone()), highest };
        match (first_time, read_before) {
            (false, true) => self.redelivered.add(example),
            (false, false) => self.copied.add(example),
            (true, _) if highest.is_some_and(|highest| number < highest) => self.reordered.add(example),
            (true, _) => {}
        }
    }

    /// How many messages are acknowledged and not handled yet.
    pub fn outstanding(&self) -> u64 {
        self.streams.values().map(|progress| progress.acknowledged.count_missing_in(&progress.handled)).sum()
    }

    /// What is to be said so far.
    pub fn report(&self) -> Report {
        let mut lost = Findings::default();
        for (stream, progress) in &self.streams {
            let highest = progress.handled.last();
            for (first, last) in progress.acknowledged.missing_in(&progress.handled) {
                let example = |number| Example { stream: stream.clone(), number, at: None, highest };
                lost.add_range(first, last, example);
            }
        }
        Report {
            acknowledged: self.streams.values().map(|progress| progress.acknowledged.len()).sum(),
            handled: self.streams.values().map(|progress| progress.handled.len()).sum(),
            lost,
            redelivered: self.redelivered.clone(),
            copied: self.copied.clone(),
            reordered: self.reordered.clone(),
        }
    }

    fn progress(&mut self, stream: &Stream) -> &mut Progress {
        self.streams.entry(stream.clone()).or_default()
    }
}

impl Progress {
    /// Notes a read position; answers whether the stream was read up to there, or further, before.
    fn read_past(&mut self, at: &Position) -> bool {
        let read_to = self.read_to.entry((at.cluster.clone(), at.partition)).or_insert(i64::MIN);
        let before = at.offset <= *read_to;
        *read_to = at.offset.max(*read_to);
        before
    }
}

#[cfg(test)]
mod tests;
