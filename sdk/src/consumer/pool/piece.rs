//! Messages on their way to their handler.

use std::sync::Arc;

use zms_core::{flow::Load, run_queue::Homed};

use super::super::{
    assignment::Assignment,
    delivery::{Delivery, Parcel},
};

/// Messages of one partition as they were fetched. Dropping it returns what they took of the buffer limits: all at once,
/// because that is how their memory is freed.
pub(in super::super) struct Item {
    pub(in super::super) assignment: Arc<Assignment>,
    pub(in super::super) parcel: Parcel,
    pub(in super::super) load: Load,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.assignment.gauge.give_back(self.load);
    }
}

/// Some messages of an item that follow one another. The item lives until its last piece is gone.
#[derive(Clone)]
pub(in super::super) struct Piece {
    item: Arc<Item>,
    from: u32,
    to: u32,
    /// Which attempt at the first message comes next; all others have had none.
    attempt: u32,
    /// The first message is given up.
    grave: Option<Box<Grave>>,
}

/// Why a message is given up, and how often the sending of its letter has failed.
#[derive(Debug, Clone)]
pub(super) struct Grave {
    pub(super) reason: String,
    pub(super) failures: u32,
}

/// One message and the attempt at it.
#[derive(Clone, Copy)]
pub(in super::super) struct Queued<'a> {
    item: &'a Item,
    index: u32,
    pub(in super::super) attempt: u32,
}

impl<'a> Queued<'a> {
    pub(in super::super) fn assignment(self) -> &'a Arc<Assignment> {
        &self.item.assignment
    }

    pub(in super::super) fn offset(self) -> i64 {
        self.item.parcel.offset(self.index as usize)
    }

    pub(in super::super) fn delivery(self) -> Delivery {
        self.item.parcel.delivery(self.index as usize, self.attempt)
    }
}

impl Piece {
    /// All messages of an item.
    pub(super) fn whole(item: &Arc<Item>) -> Self {
        // A parcel has some dozens of messages.
        let to = u32::try_from(item.parcel.len()).unwrap_or(u32::MAX);
        Self { item: Arc::clone(item), from: 0, to, attempt: 1, grave: None }
    }

    /// Each message of an item by itself.
    pub(super) fn singles(item: &Arc<Item>) -> impl Iterator<Item = Self> {
        let Self { from, to, .. } = Self::whole(item);
        (from..to).map(|index| Self { from: index, to: index + 1, ..Self::whole(item) })
    }

    pub(super) fn assignment(&self) -> &Arc<Assignment> {
        &self.item.assignment
    }

    /// The key of the first message.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.item.parcel.key(self.from as usize)
    }

    pub(super) fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Whether its first message has failed before.
    pub(super) fn is_retry(&self) -> bool {
        self.attempt > 1
    }

    /// Whether its first message is given up, and waits for its letter to be sent.
    pub(super) fn is_given_up(&self) -> bool {
        self.grave.is_some()
    }

    /// Gives the first message up.
    pub(super) fn give_up(&mut self, grave: Grave) {
        self.grave = Some(Box::new(grave));
    }

    /// Takes the first message out if it is given up; what is left then.
    pub(super) fn dig(mut self) -> Result<(Self, Box<Grave>, Option<Self>), Self> {
        let Some(grave) = self.grave.take() else { return Err(self) };
        Ok(match self.split(1) {
            Some(first) => (first, grave, Some(self)),
            None => (self, grave, None),
        })
    }

    /// The first message.
    pub(super) fn first(&self) -> Queued<'_> {
        Queued { item: &self.item, index: self.from, attempt: self.attempt }
    }

    /// Each message.
    pub(super) fn messages(&self) -> impl Iterator<Item = Queued<'_>> {
        let attempt = |index| if index == self.from { self.attempt } else { 1 };
        (self.from..self.to).map(move |index| Queued { item: &self.item, index, attempt: attempt(index) })
    }

    /// Drops the first message; whether any is left.
    pub(super) fn advance(&mut self) -> bool {
        self.from += 1;
        self.attempt = 1;
        self.from < self.to
    }

    /// The first message has failed.
    pub(super) fn fail(&mut self) {
        self.attempt = self.attempt.saturating_add(1);
    }

    /// One of its messages by itself.
    pub(super) fn nth(&self, nth: usize) -> Self {
        let index = self.from + u32::try_from(nth).unwrap_or(0);
        let attempt = if nth == 0 { self.attempt } else { 1 };
        Self { item: Arc::clone(&self.item), from: index, to: index + 1, attempt, grave: None }
    }

    /// Splits the first `count` messages off, when there are more.
    pub(super) fn split(&mut self, count: usize) -> Option<Self> {
        let at = self.from + u32::try_from(count).ok()?;
        if at >= self.to {
            return None;
        }
        let first = Self { to: at, ..self.clone() };
        (self.from, self.attempt, self.grave) = (at, 1, None);
        Some(first)
    }
}

/// What a worker takes from the run queue.
pub(super) enum Entry {
    /// A strand that is ready, under its ticket.
    Strand(Strand, u32),
    /// A message without an order.
    One(Piece),
    /// Messages of one assignment without an order, for one call.
    Some(Vec<Piece>),
}

/// Which messages run one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strand {
    /// Those of a partition.
    Partition(u64),
    /// Those of whose partition and key this is the hash.
    Key(u64),
}

impl Strand {
    pub(super) fn id(self) -> u64 {
        match self {
            Self::Partition(id) | Self::Key(id) => id,
        }
    }
}

impl Homed for Entry {
    fn home(&self) -> Option<usize> {
        match self {
            Self::Strand(Strand::Partition(partition), _) => Some(usize::try_from(*partition).unwrap_or(0)),
            Self::Strand(Strand::Key(_), _) | Self::One(_) | Self::Some(_) => None,
        }
    }
}
