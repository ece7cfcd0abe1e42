//! What the workers of a pool share with one another and with the poll thread.

use std::{
    io,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::AbortHandle;
use tracing::{debug, warn};
use zms_core::run_queue::{RunQueue, Seat};

use super::{
    super::{conduct::Conduct, throttle::Throttle},
    bell::Bell,
    desk::{Desk, Running},
    piece::{Entry, Piece},
    strands::{Grab, Strands},
    turn::Turn,
    worker::{Runner, Worker},
};

pub(in super::super) struct Shared {
    pub(super) queue: RunQueue<Entry>,
    pub(super) strands: Strands,
    pub(super) grab: Grab,
    runner: Arc<dyn Runner>,
    pub(super) conduct: Arc<Conduct>,
    // A plain lock: held to look a worker up when it has to be woken or shown.
    places: Mutex<Vec<Place>>,
    refused: Throttle,
}

/// What stays when a worker ends and another one takes its number.
struct Place {
    bell: Arc<Bell>,
    desk: Arc<Desk>,
    abort: Option<AbortHandle>,
}

impl Shared {
    pub(super) fn new(
        runner: Arc<dyn Runner>,
        conduct: Arc<Conduct>,
        strands: Strands,
        grab: Grab,
    ) -> Arc<Self> {
        let (places, refused) = (Mutex::default(), Throttle::default());
        Arc::new(Self { queue: RunQueue::default(), strands, grab, runner, conduct, places, refused })
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes workers.
    pub(super) fn ring(&self, wake: &mut Vec<usize>) {
        if wake.is_empty() {
            return;
        }
        let places = self.places();
        for worker in wake.drain(..) {
            if let Some(place) = places.get(worker) {
                place.bell.ring();
            }
        }
    }

    /// Sets the number of workers. When not all can be started, the number is what it was.
    pub(super) fn resize(self: &Arc<Self>, workers: NonZeroUsize) -> io::Result<()> {
        let before = NonZeroUsize::new(self.queue.workers());
        let mut wake = Vec::new();
        let seats = self.queue.resize(workers, &mut wake);
        let mut failure = None;
        for seat in seats {
            if failure.is_some() {
                self.queue.vacate(seat, &mut wake);
                continue;
            }
            failure = self.staff(seat, &mut wake).err();
        }
        if let (Some(_), Some(before)) = (&failure, before) {
            // All seats below that number have their workers.
            drop(self.queue.resize(before, &mut wake));
        }
        self.ring(&mut wake);
        failure.map_or(Ok(()), Err)
    }

    /// Sets the number of workers that their handlers' latency asks for.
    pub(super) fn adapt(self: &Arc<Self>, workers: NonZeroUsize) {
        match self.resize(workers) {
            Ok(()) => debug!(workers, "the number of workers follows the handlers' latency"),
            Err(error) => {
                if let Some(not_logged) = self.refused.pass() {
                    warn!(workers, %error, not_logged, "no thread for another worker");
                }
            }
        }
    }

    fn staff(self: &Arc<Self>, seat: Seat<Entry>, wake: &mut Vec<usize>) -> io::Result<()> {
        let index = seat.index();
        let (bell, desk) = self.place(index);
        let turn = Turn::new(Arc::clone(&self.conduct), desk, index);
        let worker = Worker { shared: Arc::clone(self), bell, seat, turn, wake: Vec::new() };
        match self.runner.start(Box::new(worker)) {
            Ok(abort) => {
                self.places()[index].abort = abort;
                Ok(())
            }
            Err((worker, error)) => {
                self.queue.vacate(worker.seat, wake);
                Err(error)
            }
        }
    }

    fn place(&self, index: usize) -> (Arc<Bell>, Arc<Desk>) {
        let mut places = self.places();
        while places.len() <= index {
            let bell = Arc::new(self.runner.bell());
            places.push(Place { bell, desk: Arc::default(), abort: None });
        }
        (Arc::clone(&places[index].bell), Arc::clone(&places[index].desk))
    }

    /// Drops what waits of stopped assignments; how many messages.
    pub(super) fn purge(&self) -> usize {
        let mut ready = Vec::new();
        let of_strands = self.strands.purge(&mut ready);
        let mut loose = 0;
        let mut keep = |pieces: &[Piece]| {
            // An entry's pieces are all of one assignment.
            let stopped = pieces.first().is_some_and(|piece| piece.assignment().is_stopped());
            loose += if stopped { pieces.iter().map(Piece::len).sum() } else { 0 };
            !stopped
        };
        self.queue.retain(|entry| match entry {
            Entry::Strand(strand, ticket) => self.strands.is_waiting(*strand, *ticket),
            Entry::One(piece) => keep(std::slice::from_ref(piece)),
            Entry::Some(pieces) => keep(pieces),
        });
        let mut wake = Vec::new();
        self.queue.put(&mut ready, &mut wake);
        self.ring(&mut wake);
        of_strands + loose
    }

    /// Which worker runs a message.
    pub(in super::super) fn running(&self, epoch: u64, offset: i64) -> Option<(usize, Running)> {
        let places = self.places();
        let mut desks = places.iter().enumerate();
        desks.find_map(|(worker, place)| Some((worker, place.desk.running(epoch, offset)?)))
    }

    /// Cancels handlers that run as tasks; those on threads run on.
    pub(super) fn abort(&self) {
        for place in self.places().iter() {
            if let Some(task) = &place.abort {
                task.abort();
            }
        }
    }

    /// Lets all workers end.
    pub(super) fn close(&self) {
        let mut wake = Vec::new();
        self.queue.close(&mut wake);
        self.ring(&mut wake);
    }
}
