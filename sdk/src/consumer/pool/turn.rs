//! What a worker has taken and works off.

use std::{
    any::Any,
    collections::VecDeque,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    super::{
        assignment::Run,
        batch::{Batch, Outcomes},
        conduct::{After, Conduct, Said},
        delivery::Delivery,
    },
    desk::{Desk, Running},
    governor::Call,
    piece::{Entry, Grave, Piece, Strand},
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
    /// What the rate limit leaves for later.
    behind: VecDeque<Piece>,
    /// When the rate limit allows the next message.
    held: Option<Instant>,
    call: Option<Call>,
    /// What the number of workers is to be.
    workers: Option<NonZeroUsize>,
    calls: usize,
}

/// What is left of a turn.
pub(super) struct Rest<'a> {
    pub(super) strand: Option<Strand>,
    /// What is not over.
    pub(super) pieces: &'a mut VecDeque<Piece>,
    /// Of the first piece's assignment.
    pub(super) run: Option<Run>,
    /// The delay before any of them may be handled.
    pub(super) again: Option<Duration>,
}

impl Turn {
    pub(super) fn new(conduct: Arc<Conduct>, desk: Arc<Desk>, worker: usize) -> Self {
        Self {
            conduct,
            desk,
            worker,
            strand: None,
            pieces: VecDeque::new(),
            run: None,
            again: None,
            behind: VecDeque::new(),
            held: None,
            call: None,
            workers: None,
            calls: 0,
        }
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

    /// When the next message may be handled, if that is not now.
    pub(super) fn take_held(&mut self) -> Option<Instant> {
        self.held.take()
    }

    /// What the number of workers is to be, if that is news.
    pub(super) fn take_workers(&mut self) -> Option<NonZeroUsize> {
        self.workers.take()
    }

    /// The next message to handle. [`end`](Self::end) comes after it.
    pub(super) fn next(&mut self) -> Option<Delivery> {
        // A new number of workers is set between turns, and soon.
        if self.again.is_some() || self.workers.is_some() || self.is_given_up() {
            return None;
        }
        self.begin();
        self.permit(1)?;
        let message = self.pieces.front()?.first();
        let (offset, attempt) = (message.offset(), message.attempt);
        if attempt > 1 {
            self.conduct.stats.retries.one();
        }
        let delivery = message.delivery();
        self.show((offset, offset), attempt);
        self.call = self.conduct.governor.begin();
        Some(delivery)
    }

    pub(super) fn end(&mut self, ended: Ended<Said>) {
        self.end_call();
        let (Some(piece), Some(run)) = (self.pieces.front_mut(), &self.run) else { return };
        let said = ended.unwrap_or_else(|panic| self.conduct.panicked(panic));
        match self.conduct.book(piece.first(), run, self.worker, said) {
            After::Nothing if piece.advance() => {}
            After::Nothing => {
                self.pieces.pop_front();
                self.run = None;
            }
            After::Again(delay) => {
                self.again = Some(delay);
                piece.fail();
            }
            After::Bury(reason) => piece.give_up(Grave { reason, failures: 0 }),
        }
    }

    /// All messages, to be handled at once. [`end_batch`](Self::end_batch) comes after it.
    pub(super) fn batch(&mut self) -> Option<Batch> {
        if self.is_given_up() {
            return None;
        }
        // One assignment's: that is how they were taken.
        self.begin();
        let permits = self.permit(self.pieces.iter().map(Piece::len).sum())?;
        self.keep_first(permits);
        let mut deliveries = Vec::with_capacity(permits);
        for message in self.pieces.iter().flat_map(Piece::messages) {
            if message.attempt > 1 {
                self.conduct.stats.retries.one();
            }
            deliveries.push(message.delivery());
        }
        let (first, last) = (deliveries.first()?, deliveries.last()?);
        self.show((first.offset(), last.offset()), first.attempt());
        self.call = self.conduct.governor.begin();
        Some(Batch(deliveries))
    }

    pub(super) fn end_batch(&mut self, ended: Ended<Outcomes>) {
        self.end_call();
        let Some(run) = &self.run else { return };
        let outcomes = ended.unwrap_or_else(|panic| {
            let (outcome, reason) = self.conduct.panicked(panic);
            Outcomes::Same(outcome, reason)
        });
        let (mut failed, mut index) = (VecDeque::new(), 0);
        for piece in &self.pieces {
            for (nth, message) in piece.messages().enumerate() {
                let mut left = piece.nth(nth);
                match self.conduct.book(message, run, self.worker, outcomes.of(index)) {
                    After::Nothing => {}
                    After::Again(delay) => {
                        self.again = self.again.max(Some(delay));
                        left.fail();
                        failed.push_back(left);
                    }
                    After::Bury(reason) => {
                        left.give_up(Grave { reason, failures: 0 });
                        failed.push_back(left);
                    }
                }
                index += 1;
            }
        }
        self.pieces = failed;
    }

    /// Ends the turn.
    pub(super) fn close(&mut self) -> Rest<'_> {
        self.desk.clear();
        self.pieces.append(&mut self.behind);
        Rest {
            strand: self.strand.take(),
            run: self.run.take(),
            again: self.again.take(),
            pieces: &mut self.pieces,
        }
    }

    /// How many of `most` messages may be handled now. Nothing ends the turn.
    fn permit(&mut self, most: usize) -> Option<usize> {
        if self.pieces.is_empty() {
            return None;
        }
        match self.conduct.governor.permits(most) {
            Ok(permits) => Some(permits),
            Err(until) => {
                self.held = Some(until);
                None
            }
        }
    }

    /// Leaves all but the first `count` messages for later.
    fn keep_first(&mut self, count: usize) {
        let mut room = count;
        for index in 0..self.pieces.len() {
            if room == 0 {
                self.behind = self.pieces.split_off(index);
                return;
            }
            if let Some(first) = self.pieces[index].split(room) {
                self.behind = self.pieces.split_off(index);
                self.pieces.push_back(first);
                return;
            }
            room -= self.pieces[index].len();
        }
    }

    fn end_call(&mut self) {
        if let Some(call) = self.call.take() {
            self.workers = self.conduct.governor.end(call);
        }
    }

    fn is_given_up(&self) -> bool {
        self.pieces.front().is_some_and(Piece::is_given_up)
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
