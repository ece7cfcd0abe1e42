//! The way from the poll thread to the handlers, and the workers that call them.

mod bell;
mod crew;
mod desk;
mod governor;
mod handlers;
mod ordering;
mod piece;
mod settling;
mod shared;
mod slab;
mod strands;
#[cfg(test)]
mod tests;
mod turn;
mod worker;

use std::{
    hash::{BuildHasher, RandomState},
    io,
    num::NonZeroUsize,
    sync::Arc,
};

pub(super) use self::{
    crew::Crew,
    governor::Governor,
    handlers::{Batches, Each, Portion},
    piece::{Item, Queued},
    worker::{Runner, Tasks, Threads},
};
pub use self::{crew::ResizeError, ordering::Ordering};
use self::{
    piece::{Entry, Piece, Strand},
    shared::Shared,
    strands::{Grab, Strands},
};
use super::conduct::Conduct;

/// Spread of the keys' locks: enough that two workers seldom want the same one.
const KEY_SHARDS: usize = 64;

/// What pools are made by.
pub(super) struct Plan {
    pub(super) ordering: Ordering,
    pub(super) portion: Portion,
    pub(super) runner: Arc<dyn Runner>,
    pub(super) conduct: Arc<Conduct>,
}

/// The workers of one topic on one cluster, and what waits for them. Outlives a client that is replaced, so that the
/// order of a partition holds across the replacement, and is never shared with another cluster or topic.
///
/// Nothing here waits for a handler. What waits is bounded by the buffer limits: each item counts against them until it
/// is dropped, and at the limits the poll thread pauses fetching.
///
/// Locks are taken one at a time or in this order: run queue, strands, book of an assignment.
pub(super) struct Pool {
    shared: Arc<Shared>,
    ordering: Ordering,
    portion: Portion,
    keys: RandomState,
    /// Filled during one dispatch, empty between.
    items: Vec<Item>,
    ready: Vec<Entry>,
    /// Messages without an order that wait for their batch to be full; empty between dispatches.
    loose: Vec<Piece>,
    wake: Vec<usize>,
}

impl Pool {
    /// Starts `workers` workers.
    pub(super) fn start(plan: &Plan, workers: NonZeroUsize) -> io::Result<Self> {
        let strands = match plan.ordering {
            Ordering::Key => Strands::new(Strand::Key, KEY_SHARDS),
            Ordering::Partition | Ordering::Unordered => Strands::new(Strand::Partition, 1),
        };
        let grab = match plan.portion {
            Portion::One => Grab::Piece,
            Portion::UpTo(limit) => Grab::Messages(limit.get()),
        };
        let shared = Shared::new(Arc::clone(&plan.runner), Arc::clone(&plan.conduct), strands, grab);
        let pool = Self {
            shared,
            ordering: plan.ordering,
            portion: plan.portion,
            keys: RandomState::new(),
            items: Vec::new(),
            ready: Vec::new(),
            loose: Vec::new(),
            wake: Vec::new(),
        };
        pool.shared.resize(workers)?;
        Ok(pool)
    }

    /// Takes an item; [`send`](Self::send) hands over what was taken.
    pub(super) fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    /// Hands over what was added.
    pub(super) fn send(&mut self) {
        let mut items = std::mem::take(&mut self.items);
        for item in items.drain(..) {
            let item = Arc::new(item);
            match self.ordering {
                Ordering::Partition => {
                    // A partition's number is not negative; one that is would have a strand of its own all the same.
                    let id = u64::from(item.assignment.partition.unsigned_abs());
                    self.ready.extend(self.shared.strands.append(id, Piece::whole(&item)));
                }
                Ordering::Key => Piece::singles(&item).for_each(|piece| self.add_by_key(piece)),
                Ordering::Unordered => self.add_loose(&item),
            }
        }
        self.items = items;
        self.end_batch();
        if !self.ready.is_empty() {
            self.shared.queue.put(&mut self.ready, &mut self.wake);
            self.shared.ring(&mut self.wake);
        }
    }

    /// Drops what waits of stopped assignments, which would hold memory until its turn comes. How many messages.
    pub(super) fn purge(&self) -> usize {
        self.shared.purge()
    }

    /// Cancels handlers that run as tasks; those on threads run on.
    pub(super) fn abort(&self) {
        self.shared.abort();
    }

    fn add_by_key(&mut self, piece: Piece) {
        let hash = piece.key().map(|key| self.keys.hash_one((piece.assignment().partition, key)));
        match hash {
            Some(hash) => self.ready.extend(self.shared.strands.append(hash, piece)),
            None => self.add_piece(piece),
        }
    }

    fn add_loose(&mut self, item: &Arc<Item>) {
        match self.portion {
            Portion::One => self.ready.extend(Piece::singles(item).map(Entry::One)),
            Portion::UpTo(_) => self.add_piece(Piece::whole(item)),
        }
    }

    /// Adds messages without an order to the present batch.
    fn add_piece(&mut self, mut piece: Piece) {
        let Portion::UpTo(limit) = self.portion else {
            self.ready.push(Entry::One(piece));
            return;
        };
        if self.loose.first().is_some_and(|first| !Arc::ptr_eq(first.assignment(), piece.assignment())) {
            self.end_batch();
        }
        loop {
            let room = limit.get() - self.loose.iter().map(Piece::len).sum::<usize>();
            let part = piece.split(room);
            let full = part.is_some() || piece.len() == room;
            let more = part.is_some();
            self.loose.push(part.unwrap_or_else(|| piece.clone()));
            if full {
                self.end_batch();
            }
            if !more {
                return;
            }
        }
    }

    fn end_batch(&mut self) {
        if !self.loose.is_empty() {
            self.ready.push(Entry::Some(std::mem::take(&mut self.loose)));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.close();
    }
}
