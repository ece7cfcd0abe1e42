//! What a checker found.

use std::fmt;

use super::{Position, Stream};

/// How many examples of each kind are kept.
const EXAMPLES: usize = 5;

/// The outcome of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Messages whose senders were told that they are stored.
    pub acknowledged: u64,
    /// Messages that were handled, each counted once.
    pub handled: u64,
    /// Acknowledged, and never handled.
    pub lost: Findings,
    /// Handled again, from the place they had been read from before.
    pub redelivered: Findings,
    /// Handled again, from another place: the topic holds the message twice.
    pub copied: Findings,
    /// Handled for the first time after a later one of the same key and sender.
    pub reordered: Findings,
}

impl Report {
    /// Whether nothing was lost, handled twice or reordered.
    pub fn is_clean(&self) -> bool {
        self.kinds().iter().all(|(_, findings)| findings.count == 0)
    }

    fn kinds(&self) -> [(&'static str, &Findings); 4] {
        [
            ("lost", &self.lost),
            ("delivered again", &self.redelivered),
            ("stored twice", &self.copied),
            ("out of order", &self.reordered),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} acknowledged, {} handled", self.acknowledged, self.handled)?;
        for (what, findings) in self.kinds() {
            write!(f, ", {} {what}", findings.count)?;
        }
        for (what, findings) in self.kinds() {
            findings.examples.iter().try_for_each(|example| write!(f, "\n  {what}: {example}"))?;
        }
        Ok(())
    }
}

/// Events of one kind: their number, and the first few.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// How many there are.
    pub count: u64,
    /// The first few of them.
    pub examples: Vec<Example>,
}

impl Findings {
    pub(super) fn add(&mut self, example: impl FnOnce() -> Example) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(example());
        }
    }

    pub(super) fn add_range(&mut self, first: u64, last: u64, example: impl Fn(u64) -> Example) {
        self.count = self.count.saturating_add((last - first).saturating_add(1));
        let room = EXAMPLES - self.examples.len();
        self.examples.extend((first..=last).take(room).map(example));
    }
}

/// One message that something happened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Its sender and key.
    pub stream: Stream,
    /// Its number.
    pub number: u64,
    /// Where it was read; `None` if it never was.
    pub at: Option<Position>,
    /// The highest number of its stream that had been handled before it (for a lost one: at all).
    pub highest: Option<u64>,
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of key `{}` from `{}`", self.number, self.stream.key, self.stream.producer)?;
        if let Some(Position { cluster, partition, offset }) = &self.at {
            write!(f, " at {cluster}/{partition}@{offset}")?;
        }
        match self.highest {
            Some(highest) => write!(f, ", handled up to {highest}"),
            None => write!(f, ", none handled"),
        }
    }
}
