//! What becomes of messages that are not over at the end of a turn.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    super::{assignment::Run, burial::Burial, dead_letter::BuryError},
    piece::{Entry, Grave, Piece, Strand},
    shared::Shared,
    turn::Rest,
};

/// A message whose letter is being sent. Its strand runs as long, without holding a worker, and its assignment counts it as
/// running.
struct Burying {
    strand: Option<Strand>,
    /// The message alone.
    piece: Piece,
    grave: Box<Grave>,
    run: Run,
    /// What comes behind it in the strand may not be handled before.
    again: Option<Duration>,
}

impl Shared {
    /// Ends a turn; what can be run on now.
    pub(super) fn settle(self: &Arc<Self>, rest: Rest<'_>, clock: impl Fn() -> Instant) -> Option<Entry> {
        let Rest { strand, pieces, run, again } = rest;
        match strand {
            Some(strand) => self.settle_strand(strand, pieces, run, (again, clock)),
            None => self.settle_loose(pieces, run, (again, clock)),
        }
    }

    fn settle_strand(
        self: &Arc<Self>,
        strand: Strand,
        pieces: &mut VecDeque<Piece>,
        run: Option<Run>,
        (again, clock): (Option<Duration>, impl Fn() -> Instant),
    ) -> Option<Entry> {
        if let Some((piece, grave)) = take_given_up(pieces) {
            self.strands.put_back(strand, pieces);
            match run.or_else(|| piece.assignment().begin()) {
                Some(run) => {
                    self.bury(Burying { strand: Some(strand), piece, grave, run, again });
                    return None;
                }
                None => self.conduct.stats.dropped.one(),
            }
        } else {
            drop(run);
        }
        self.end_strand(strand, pieces, again.map(|delay| clock() + delay))
    }

    fn settle_loose(
        self: &Arc<Self>,
        pieces: &mut VecDeque<Piece>,
        mut run: Option<Run>,
        (again, clock): (Option<Duration>, impl Fn() -> Instant),
    ) -> Option<Entry> {
        let mut others = Vec::new();
        while let Some(piece) = pieces.pop_front() {
            match piece.dig() {
                Err(other) => others.push(other),
                Ok((piece, grave, behind)) => {
                    // Nothing without an order lies behind another message.
                    others.extend(behind);
                    match run.take().or_else(|| piece.assignment().begin()) {
                        Some(run) => self.bury(Burying { strand: None, piece, grave, run, again: None }),
                        None => self.conduct.stats.dropped.one(),
                    }
                }
            }
        }
        drop(run);
        let witness = others.first()?.clone();
        let entry = match <[Piece; 1]>::try_from(others) {
            Ok([one]) => Entry::One(one),
            Err(several) => Entry::Some(several),
        };
        let Some(delay) = again else { return Some(entry) };
        self.park(entry, clock() + delay, witness);
        None
    }

    /// Ends a strand's run; what is ready now.
    fn end_strand(
        &self,
        strand: Strand,
        pieces: &mut VecDeque<Piece>,
        due: Option<Instant>,
    ) -> Option<Entry> {
        let witness = due.and_then(|_| pieces.front().cloned());
        let ticket = self.strands.give_back(strand, pieces, due.is_some())?;
        let entry = Entry::Strand(strand, ticket);
        match (due, witness) {
            (Some(due), Some(witness)) => self.park(entry, due, witness),
            (Some(due), None) => {
                let mut wake = Vec::new();
                self.queue.park(due, entry, &mut wake);
                self.ring(&mut wake);
            }
            (None, _) => return Some(entry),
        }
        None
    }

    /// Puts work by until it is due. `witness` is one of its messages.
    fn park(&self, entry: Entry, due: Instant, witness: Piece) {
        let mut wake = Vec::new();
        self.queue.park(due, entry, &mut wake);
        self.ring(&mut wake);
        let stopped = witness.assignment().is_stopped();
        drop(witness);
        if stopped {
            // Perhaps after the purge: it would wait for nothing, and what comes behind it with it.
            self.conduct.stats.dropped.add(self.purge());
        }
    }

    /// Sends a letter. The answer may come on any thread, also before this returns.
    fn bury(self: &Arc<Self>, burying: Burying) {
        let delivery = burying.piece.first().delivery();
        let grave = burying.grave.clone();
        let burial = Burial { delivery: &delivery, reason: &grave.reason, failures: grave.failures };
        let shared = Arc::clone(self);
        self.conduct.burials.bury(&burial, move |buried| shared.end_burial(burying, buried));
    }

    fn end_burial(&self, burying: Burying, buried: Result<(), BuryError>) {
        let Burying { strand, mut piece, mut grave, run, mut again } = burying;
        let delivery = piece.first().delivery();
        let burial = Burial { delivery: &delivery, reason: &grave.reason, failures: grave.failures };
        let failed = self.conduct.book_burial(piece.first(), &run, &burial, buried);
        drop(run);
        drop(delivery);
        let mut left = VecDeque::new();
        if let Some(delay) = failed {
            grave.failures = grave.failures.saturating_add(1);
            piece.give_up(*grave);
            again = Some(delay);
            left.push_back(piece);
        } else {
            drop(piece);
        }
        let due = again.map(|delay| Instant::now() + delay);
        let ready = match (strand, left.pop_front(), due) {
            (Some(strand), piece, due) => self.end_strand(strand, &mut piece.into_iter().collect(), due),
            (None, Some(piece), Some(due)) => {
                self.park(Entry::One(piece.clone()), due, piece);
                None
            }
            (None, ..) => None,
        };
        if let Some(entry) = ready {
            let mut wake = Vec::new();
            self.queue.put(&mut vec![entry], &mut wake);
            self.ring(&mut wake);
        }
    }
}

/// Takes the first message, if it is given up.
fn take_given_up(pieces: &mut VecDeque<Piece>) -> Option<(Piece, Box<Grave>)> {
    match pieces.pop_front()?.dig() {
        Err(other) => {
            pieces.push_front(other);
            None
        }
        Ok((first, grave, behind)) => {
            if let Some(behind) = behind {
                pieces.push_front(behind);
            }
            Some((first, grave))
        }
    }
}
