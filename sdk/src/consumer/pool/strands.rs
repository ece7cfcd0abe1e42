//! Strands: messages that run one at a time, in order.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    piece::{Entry, Piece, Strand},
    slab::{Ends, Slab},
};

/// The strands of one topic on one cluster, by partition or by the hash of partition and key. A strand exists only while
/// a message of it is queued, running or waiting for a retry.
///
/// A strand that has messages and is not running lies elsewhere under a ticket: in a run queue, or parked there until a
/// retry is due. Each time it gets there it has a new ticket; an old one is worth nothing.
pub(super) struct Strands {
    kind: fn(u64) -> Strand,
    shards: Box<[Mutex<Shard>]>,
}

/// How much of a strand is taken at once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Grab {
    /// One piece.
    Piece,
    /// So many messages of one assignment; those that have failed before by themselves.
    Messages(usize),
}

#[derive(Default)]
struct Shard {
    strands: HashMap<u64, Queue, BuildHasherDefault<AsIs>>,
    slab: Slab,
    tickets: u32,
}

#[derive(Default)]
struct Queue {
    pieces: Ends,
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    Ready(u32),
    Parked(u32),
}

/// Ids are hashes, or few.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Ids are `u64`; whatever else came would still be told apart.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

impl Strands {
    /// Of one kind, spread over at least so many locks.
    pub(super) fn new(kind: fn(u64) -> Strand, shards: usize) -> Self {
        Self { kind, shards: (0..shards.next_power_of_two()).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, Shard> {
        // The map uses the uppermost and the lowest bits.
        let middle = usize::try_from((id >> 32) & 0xffff).unwrap_or(0);
        lock(&self.shards[middle & (self.shards.len() - 1)])
    }

    /// Adds to a strand's end. It is ready when there was nothing to it before.
    pub(super) fn append(&self, id: u64, piece: Piece) -> Option<Entry> {
        let shard = &mut *self.shard(id);
        let mut fresh = false;
        let strand = shard.strands.entry(id).or_insert_with(|| {
            fresh = true;
            Queue::default()
        });
        shard.slab.push_back(&mut strand.pieces, piece);
        if !fresh {
            return None;
        }
        shard.tickets = shard.tickets.wrapping_add(1);
        strand.state = State::Ready(shard.tickets);
        Some(Entry::Strand((self.kind)(id), shard.tickets))
    }

    /// Begins to run a strand: takes its first pieces. None when the ticket is worth nothing any more.
    pub(super) fn take(&self, strand: Strand, ticket: u32, grab: Grab, into: &mut VecDeque<Piece>) {
        let shard = &mut *self.shard(strand.id());
        let Some(strand) = shard.strands.get_mut(&strand.id()).filter(|strand| strand.waits_under(ticket))
        else {
            return;
        };
        strand.state = State::Running;
        let mut left = match grab {
            Grab::Piece => {
                into.extend(shard.slab.pop_front(&mut strand.pieces));
                return;
            }
            Grab::Messages(limit) => limit,
        };
        while let Some(piece) = shard.slab.front_mut(strand.pieces).filter(|_| left > 0) {
            if into.back().is_some_and(|last| !belong_together(last, piece)) {
                return;
            }
            if let Some(part) = piece.split(left) {
                into.push_back(part);
                return;
            }
            left -= piece.len();
            into.extend(shard.slab.pop_front(&mut strand.pieces));
        }
    }

    /// Puts pieces that were taken back to the front. The run goes on.
    pub(super) fn put_back(&self, strand: Strand, rest: &mut VecDeque<Piece>) {
        let shard = &mut *self.shard(strand.id());
        if let Some(strand) = shard.strands.get_mut(&strand.id()) {
            while let Some(piece) = rest.pop_back() {
                shard.slab.push_front(&mut strand.pieces, piece);
            }
        }
    }

    /// Ends a run. `rest` was taken and is not done: it goes back to the front. A ticket when there is more to run.
    pub(super) fn give_back(&self, strand: Strand, rest: &mut VecDeque<Piece>, parked: bool) -> Option<u32> {
        let id = strand.id();
        let shard = &mut *self.shard(id);
        let strand = shard.strands.get_mut(&id)?;
        while let Some(piece) = rest.pop_back() {
            shard.slab.push_front(&mut strand.pieces, piece);
        }
        if strand.pieces.is_none() {
            shard.strands.remove(&id);
            return None;
        }
        shard.tickets = shard.tickets.wrapping_add(1);
        strand.state = if parked { State::Parked(shard.tickets) } else { State::Ready(shard.tickets) };
        Some(shard.tickets)
    }

    /// Drops queued pieces of assignments that are stopped; how many messages. Strands that waited for the retry of such a
    /// one and have others are ready.
    pub(super) fn purge(&self, ready: &mut Vec<Entry>) -> usize {
        let mut add = |id, ticket| ready.push(Entry::Strand((self.kind)(id), ticket));
        self.shards.iter().map(|shard| lock(shard).purge(&mut add)).sum()
    }

    /// Whether a strand waits under this ticket.
    pub(super) fn is_waiting(&self, strand: Strand, ticket: u32) -> bool {
        self.shard(strand.id()).strands.get(&strand.id()).is_some_and(|strand| strand.waits_under(ticket))
    }

    /// How many strands have a message.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).strands.len()).sum()
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two pieces may be handled by one call.
fn belong_together(one: &Piece, next: &Piece) -> bool {
    let given_up = one.is_given_up() || next.is_given_up();
    Arc::ptr_eq(one.assignment(), next.assignment()) && one.is_retry() == next.is_retry() && !given_up
}

impl Queue {
    fn waits_under(&self, ticket: u32) -> bool {
        self.state == State::Ready(ticket) || self.state == State::Parked(ticket)
    }
}

impl Shard {
    fn purge(&mut self, ready: &mut impl FnMut(u64, u32)) -> usize {
        let Self { strands, slab, tickets } = self;
        let mut purged = 0;
        strands.retain(|id, strand| {
            let mut kept = None;
            let first_goes = slab.front_mut(strand.pieces).is_some_and(|p| p.assignment().is_stopped());
            while let Some(piece) = slab.pop_front(&mut strand.pieces) {
                if piece.assignment().is_stopped() {
                    purged += piece.len();
                } else {
                    slab.push_back(&mut kept, piece);
                }
            }
            strand.pieces = kept;
            if kept.is_none() {
                return strand.state == State::Running;
            }
            if first_goes && matches!(strand.state, State::Parked(_)) {
                *tickets = tickets.wrapping_add(1);
                strand.state = State::Ready(*tickets);
                ready(*id, *tickets);
            }
            true
        });
        purged
    }
}
