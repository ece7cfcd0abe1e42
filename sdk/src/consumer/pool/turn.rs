//! What a worker has taken and works off.

use std::{any::Any, collections::VecDeque, sync::Arc, time::Duration};

use super::{
    super::{
        assignment::Run,
        batch::{Batch, Outcomes},
        conduct::{Conduct, Said},
        delivery::Delivery,
    },
    desk::{Desk, Running},
    piece::{Entry, Piece, Strand},
    strands::{Grab, Strands},
};

/// How a call of a handler ended: with what it returned, or its panic.
pub(super) type Ended<T> = Result<T, Box<dyn Any + Send>>;

/// Messages of one strand, or some without an order, while a worker handles them. After a failure the turn is over.
pub(in super::super) struct Turn {
    conduct: Arc<Conduct>,
    desk: Arc<Desk>,
    worker: usize,
    strand: Option<Strand>,
    /// Not yet done.
    pieces: VecDeque<Piece>,
    /// Of the first piece's assignment.
    run: Option<Run>,
    /// The longest delay asked for by those that failed.
    again: Option<Duration>,
    calls: usize,
}

/// What is left of a turn.
pub(super) enum Left {
    Nothing,
    /// To go on with.
    Now(Entry),
    /// To go on with after a delay. One of the messages tells whether there is still a point to it.
    Later(Entry, Duration, Piece),
}

impl Turn {
    pub(super) fn new(conduct: Arc<Conduct>, desk: Arc<Desk>, worker: usize) -> Self {
        let pieces = VecDeque::new();
        Self { conduct, desk, worker, strand: None, pieces, run: None, again: None, calls: 0 }
    }

    /// Takes what an entry stands for; whether that is anything.
    pub(super) fn open(&mut self, entry: Entry, strands: &Strands, grab: Grab) -> bool {
        self.strand = None;
        match entry {
            Entry::Strand(strand, ticket) => {
                self.strand = Some(strand);
                strands.take(strand, ticket, grab, &mut self.pieces);
            }
            Entry::One(piece) => self.pieces.push_back(piece),
            Entry::Some(pieces) => self.pieces.extend(pieces),
        }
        !self.pieces.is_empty()
    }

    /// Calls of the handler since the last time that this was asked.
    pub(super) fn take_calls(&mut self) -> usize {
        std::mem::take(&mut self.calls)
    }

    /// The next message to handle. [`end`](Self::end) comes after it.
    pub(super) fn next(&mut self) -> Option<Delivery> {
        if self.again.is_some() {
            return None;
        }
        self.begin();
        let message = self.pieces.front()?.first();
        let (offset, attempt) = (message.offset(), message.attempt);
        if attempt > 1 {
            self.conduct.stats.retries.one();
        }
        let delivery = message.delivery();
        self.show((offset, offset), attempt);
        Some(delivery)
    }

    pub(super) fn end(&mut self, ended: Ended<Said>) {
        let (Some(piece), Some(run)) = (self.pieces.front_mut(), &self.run) else { return };
        let said = ended.unwrap_or_else(|panic| self.conduct.panicked(panic));
        self.again = self.conduct.book(piece.first(), run, self.worker, said);
        if self.again.is_some() {
            piece.fail();
        } else if !piece.advance() {
            self.pieces.pop_front();
            self.run = None;
        }
    }

    /// All messages, to be handled at once. [`end_batch`](Self::end_batch) comes after it.
    pub(super) fn batch(&mut self) -> Option<Batch> {
        // One assignment's: that is how they were taken.
        self.begin();
        let mut deliveries = Vec::with_capacity(self.pieces.iter().map(Piece::len).sum());
        for message in self.pieces.iter().flat_map(Piece::messages) {
            if message.attempt > 1 {
                self.conduct.stats.retries.one();
            }
            deliveries.push(message.delivery());
        }
        let (first, last) = (deliveries.first()?, deliveries.last()?);
        self.show((first.offset(), last.offset()), first.attempt());
        Some(Batch(deliveries))
    }

    pub(super) fn end_batch(&mut self, ended: Ended<Outcomes>) {
        let Some(run) = &self.run else { return };
        let outcomes = ended.unwrap_or_else(|panic| {
            let (outcome, reason) = self.conduct.panicked(panic);
            Outcomes::Same(outcome, reason)
        });
        let (mut failed, mut index) = (VecDeque::new(), 0);
        for piece in &self.pieces {
            for (nth, message) in piece.messages().enumerate() {
                let delay = self.conduct.book(message, run, self.worker, outcomes.of(index));
                index += 1;
                if delay.is_some() {
                    self.again = self.again.max(delay);
                    failed.push_back(piece.failed(nth));
                }
            }
        }
        self.pieces = failed;
    }

    /// Ends the turn.
    pub(super) fn close(&mut self, strands: &Strands) -> Left {
        self.desk.clear();
        self.run = None;
        let again = self.again.take();
        let witness = again.and_then(|_| self.pieces.front().cloned());
        let entry = match self.strand.take() {
            Some(strand) => {
                let ticket = strands.give_back(strand, &mut self.pieces, again.is_some());
                ticket.map(|ticket| Entry::Strand(strand, ticket))
            }
            None if self.pieces.len() > 1 => Some(Entry::Some(self.pieces.drain(..).collect())),
            None => self.pieces.pop_front().map(Entry::One),
        };
        match (entry, again, witness) {
            (None, ..) => Left::Nothing,
            (Some(entry), Some(delay), Some(witness)) => Left::Later(entry, delay, witness),
            (Some(entry), ..) => Left::Now(entry),
        }
    }

    /// The first piece, counted as running. Pieces of stopped assignments are dropped.
    fn begin(&mut self) {
        self.calls += 1;
        while let Some(piece) = self.pieces.front() {
            if self.run.is_none() {
                self.run = piece.assignment().begin();
            }
            if self.run.as_ref().is_some_and(|run| !run.is_stopped()) {
                break;
            }
            self.conduct.stats.dropped.add(piece.len());
            self.run = None;
            self.pieces.pop_front();
        }
    }

    fn show(&self, offsets: (i64, i64), attempt: u32) {
        let key_hash = match self.strand {
            Some(Strand::Key(hash)) => Some(hash),
            Some(Strand::Partition(_)) | None => None,
        };
        if let Some(piece) = self.pieces.front() {
            self.desk.show(piece.assignment().epoch.0, offsets, Running { attempt, key_hash });
        }
    }
}
