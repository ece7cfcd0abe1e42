//! Which worker runs what next, and which worker has to be woken for it.
//!
//! Work with a home belongs to one worker; all other work belongs to whoever is free. A free worker takes several pieces
//! of the latter at once, so that the board that all share is seldom locked, and lays them on its bench, from which
//! others may take them again: what one worker has before itself never waits for it while another is free.
//!
//! How no wake-up gets lost: benches are filled, workers fall asleep and others are woken under the board's lock alone.
//! A worker falls asleep only when it has seen the board and all benches empty. Whoever leaves work behind under the
//! lock wakes one sleeper, and that one, when it comes to the board, the next: a chain that ends when no work or no
//! sleeper is left. A worker may also lay the strand that it has just run on its own bench without the board's lock:
//! that is no more than it took from there before, so that the bench is never fuller than it was under the lock.

#[cfg(all(test, loom))]
#[path = "run_queue/models.rs"]
mod loom;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    ops::RangeInclusive,
    sync::PoisonError,
    time::Instant,
};

#[cfg(loom)]
use ::loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// At least and at most so many pieces are taken at once, where there are as many. Models have few pieces, and need some on
/// benches.
const CHUNK: RangeInclusive<usize> = if cfg!(loom) { 2..=2 } else { 1..=32 };

/// Work that may belong to one worker.
pub trait Homed {
    /// `Some(n)`: only worker `n % workers` may run it. `None`: any.
    fn home(&self) -> Option<usize>;
}

/// What a worker is to do now.
#[derive(Debug)]
pub enum Next<T> {
    /// Run this.
    Run(T),
    /// Wait to be woken, or until this time, and ask again.
    Sleep(Option<Instant>),
    /// There is no place for this worker any more.
    End,
}

/// The queues of a number of workers, numbered from 0.
///
/// A worker calls [`next`](Self::next), again and again. Others give work with [`put`](Self::put) and
/// [`park`](Self::park). All calls that take a `wake` list add the workers to it that must be woken after the call. A
/// wake-up that comes before the worker sleeps must end that sleep at once.
#[derive(Debug)]
pub struct RunQueue<T> {
    board: Mutex<Board<T>>,
    /// As in the board; looked at without its lock.
    workers: AtomicUsize,
}

/// A worker's place. While it exists no other worker has its number.
#[derive(Debug)]
pub struct Seat<T> {
    index: usize,
    bench: Bench<T>,
    /// How much may still be taken from the bench before the board is looked at again.
    left: usize,
}

impl<T> Seat<T> {
    /// The worker's number.
    pub fn index(&self) -> usize {
        self.index
    }
}

type Bench<T> = Arc<Mutex<VecDeque<T>>>;

#[derive(Debug)]
struct Board<T> {
    shared: VecDeque<T>,
    places: Vec<Place<T>>,
    workers: usize,
    /// Sleeping workers, the last to fall asleep at the end.
    idle: Vec<usize>,
    /// Woken for whatever there is, and not here yet.
    waking: Option<usize>,
    /// What waits for a time; the number tells those of one time apart.
    parked: BTreeMap<(Instant, u64), T>,
    parkings: u64,
    /// The sleeper that wakes by itself, and when.
    watch: Option<(usize, Instant)>,
    /// Nothing is handed out before.
    held: Option<Instant>,
    /// There has been work without a home: benches are used.
    benched: bool,
    closed: bool,
}

#[derive(Debug)]
struct Place<T> {
    own: VecDeque<T>,
    bench: Bench<T>,
    asleep: bool,
    taken: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Homed> Default for RunQueue<T> {
    fn default() -> Self {
        Self {
            board: Mutex::new(Board {
                shared: VecDeque::new(),
                places: Vec::new(),
                workers: 0,
                idle: Vec::new(),
                waking: None,
                parked: BTreeMap::new(),
                parkings: 0,
                watch: None,
                held: None,
                benched: false,
                closed: false,
            }),
            workers: AtomicUsize::new(0),
        }
    }
}

impl<T: Homed> RunQueue<T> {
    /// Sets the number of workers. The seats that need a worker now; those beyond the number end when they next ask.
    /// Nothing happens to a closed queue.
    pub fn resize(&self, workers: NonZeroUsize, wake: &mut Vec<usize>) -> Vec<Seat<T>> {
        let mut board = lock(&self.board);
        if board.closed {
            return Vec::new();
        }
        board.workers = workers.get();
        self.workers.store(workers.get(), Relaxed);
        while board.places.len() < workers.get() {
            board.places.push(Place::new());
        }
        let displaced: Vec<T> = board.places.iter_mut().flat_map(|place| place.own.drain(..)).collect();
        for work in displaced {
            board.lay(work, wake);
        }
        for surplus in workers.get()..board.places.len() {
            board.rouse(surplus, wake);
        }
        let vacant = board.places[..workers.get()].iter_mut().enumerate().filter(|(_, place)| !place.taken);
        let seat = |(index, place): (usize, &mut Place<T>)| {
            place.taken = true;
            Seat { index, bench: Arc::clone(&place.bench), left: 0 }
        };
        let seats = vacant.map(seat).collect();
        board.settle(wake);
        seats
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers.load(Relaxed)
    }

    /// Gives a seat back for which there is no worker.
    #[expect(clippy::needless_pass_by_value, reason = "nobody sits there any more")]
    pub fn vacate(&self, seat: Seat<T>, wake: &mut Vec<usize>) {
        let mut board = lock(&self.board);
        board.leave(&seat, wake);
    }

    /// Adds work.
    pub fn put(&self, work: &mut Vec<T>, wake: &mut Vec<usize>) {
        let mut board = lock(&self.board);
        for work in work.drain(..) {
            board.lay(work, wake);
        }
        board.settle(wake);
    }

    /// Adds what this worker has just run, behind all other work.
    pub fn put_back(&self, seat: &Seat<T>, work: T, wake: &mut Vec<usize>) {
        if work.home().is_none() {
            lock(&seat.bench).push_back(work);
            return;
        }
        lock(&self.board).lay(work, wake);
    }

    /// Adds work that may not run before `due`.
    pub fn park(&self, due: Instant, work: T, wake: &mut Vec<usize>) {
        let mut board = lock(&self.board);
        if board.closed {
            return;
        }
        board.parkings += 1;
        let number = board.parkings;
        board.parked.insert((due, number), work);
        board.settle(wake);
    }

    /// Hands nothing out before `until`. What `seat`'s worker cannot run now it gives back first.
    pub fn hold(&self, seat: &mut Seat<T>, until: Instant, wake: &mut Vec<usize>) {
        seat.left = 0;
        let mut board = lock(&self.board);
        board.held = Some(until);
        board.settle(wake);
    }

    /// What the worker is to do now.
    pub fn next(
        &self,
        seat: &mut Seat<T>,
        clock: impl FnOnce() -> Instant,
        wake: &mut Vec<usize>,
    ) -> Next<T> {
        if seat.left > 0 && seat.index < self.workers.load(Relaxed) {
            seat.left -= 1;
            if let Some(work) = lock(&seat.bench).pop_front() {
                return Next::Run(work);
            }
        }
        let mut board = lock(&self.board);
        board.arrive(seat.index);
        if board.closed || seat.index >= board.workers {
            board.leave(seat, wake);
            return Next::End;
        }
        if board.alarm().is_some() {
            board.note_time(clock(), wake);
        }
        let found = if board.held.is_none() { board.pick(seat) } else { None };
        let next = found.map_or_else(|| Next::Sleep(board.fall_asleep(seat.index)), Next::Run);
        board.settle(wake);
        next
    }

    /// Keeps only work for which `keep` says so.
    pub fn retain(&self, mut keep: impl FnMut(&T) -> bool) {
        let mut board = lock(&self.board);
        board.shared.retain(&mut keep);
        for place in &mut board.places {
            place.own.retain(&mut keep);
            lock(&place.bench).retain(&mut keep);
        }
        board.parked.retain(|_, work| keep(work));
    }

    /// Drops all work and lets all workers end.
    pub fn close(&self, wake: &mut Vec<usize>) {
        let mut board = lock(&self.board);
        board.closed = true;
        board.workers = 0;
        self.workers.store(0, Relaxed);
        board.shared.clear();
        board.parked.clear();
        for index in 0..board.places.len() {
            board.places[index].own.clear();
            lock(&board.places[index].bench).clear();
            board.rouse(index, wake);
        }
    }
}

impl<T> Place<T> {
    fn new() -> Self {
        let bench = Arc::new(Mutex::new(VecDeque::new()));
        Self { own: VecDeque::new(), bench, asleep: false, taken: false }
    }
}

impl<T: Homed> Board<T> {
    /// Puts work where it belongs.
    fn lay(&mut self, work: T, wake: &mut Vec<usize>) {
        if self.closed {
            return;
        }
        match work.home() {
            None => {
                self.benched = true;
                self.shared.push_back(work);
            }
            Some(home) => {
                let owner = home % self.workers.max(1);
                self.places[owner].own.push_back(work);
                self.rouse(owner, wake);
            }
        }
    }

    /// Takes a worker out of the sleepers, if it is one.
    fn rouse(&mut self, worker: usize, wake: &mut Vec<usize>) {
        if self.places[worker].asleep {
            self.awake(worker);
            wake.push(worker);
        }
    }

    fn awake(&mut self, worker: usize) {
        self.places[worker].asleep = false;
        self.idle.retain(|idle| *idle != worker);
        self.watch = self.watch.filter(|(watching, _)| *watching != worker);
    }

    /// A worker has come to the board.
    fn arrive(&mut self, worker: usize) {
        self.waking = self.waking.filter(|waking| *waking != worker);
        if self.places[worker].asleep {
            self.awake(worker);
        }
    }

    fn leave(&mut self, seat: &Seat<T>, wake: &mut Vec<usize>) {
        self.places[seat.index].taken = false;
        let left = std::mem::take(&mut *lock(&seat.bench));
        if !self.closed {
            self.shared.extend(left);
        }
        self.settle(wake);
    }

    /// When something is to happen by itself.
    fn alarm(&self) -> Option<Instant> {
        self.held.or_else(|| self.parked.first_key_value().map(|((due, _), _)| *due))
    }

    /// Moves what is due to the work.
    fn note_time(&mut self, now: Instant, wake: &mut Vec<usize>) {
        if self.held.is_some_and(|held| held <= now) {
            self.held = None;
            // They fell asleep over their own work.
            for worker in 0..self.places.len() {
                if !self.places[worker].own.is_empty() {
                    self.rouse(worker, wake);
                }
            }
        }
        while self.parked.first_key_value().is_some_and(|((due, _), _)| *due <= now) {
            if let Some((_, work)) = self.parked.pop_first() {
                self.lay(work, wake);
            }
        }
    }

    fn pick(&mut self, seat: &mut Seat<T>) -> Option<T> {
        if let Some(own) = self.places[seat.index].own.pop_front() {
            return Some(own);
        }
        if !self.benched {
            return None;
        }
        let mut bench = lock(&seat.bench);
        // What was put back goes behind everything else, lest the rest waits for ever.
        self.shared.extend(bench.drain(..));
        let share = self.shared.len() / (2 * self.workers.max(1));
        let chunk = share.clamp(*CHUNK.start(), *CHUNK.end());
        if let Some(first) = self.shared.pop_front() {
            seat.left = (chunk - 1).min(self.shared.len());
            bench.extend(self.shared.drain(..seat.left));
            return Some(first);
        }
        drop(bench);
        self.steal(seat)
    }

    /// Takes half of what lies on another worker's bench.
    fn steal(&mut self, seat: &mut Seat<T>) -> Option<T> {
        let count = self.places.len();
        for other in (1..count).map(|step| (seat.index + step) % count) {
            let mut bench = lock(&self.places[other].bench);
            let half = bench.len().div_ceil(2);
            let mut stolen: VecDeque<T> = bench.drain(..half).collect();
            drop(bench);
            if let Some(first) = stolen.pop_front() {
                seat.left = stolen.len();
                lock(&seat.bench).append(&mut stolen);
                return Some(first);
            }
        }
        None
    }

    /// The worker sleeps; until when by itself.
    fn fall_asleep(&mut self, worker: usize) -> Option<Instant> {
        self.places[worker].asleep = true;
        self.idle.push(worker);
        let alarm = self.alarm()?;
        if self.watch.is_none() {
            self.watch = Some((worker, alarm));
            return Some(alarm);
        }
        None
    }

    /// Wakes one sleeper if there is something to do for it.
    fn settle(&mut self, wake: &mut Vec<usize>) {
        if self.idle.is_empty() || self.waking.is_some() {
            return;
        }
        let watching = self.watch.map(|(worker, _)| worker);
        let woken = if self.held.is_none() && self.has_work() {
            let other = self.idle.iter().rev().find(|idle| Some(**idle) != watching);
            other.or(self.idle.last()).copied()
        } else {
            match (self.alarm(), self.watch) {
                (Some(alarm), Some((worker, at))) if alarm < at => Some(worker),
                (Some(_), None) => self.idle.last().copied(),
                _ => None,
            }
        };
        if let Some(worker) = woken {
            self.waking = Some(worker);
            self.rouse(worker, wake);
        }
    }

    /// Whether there is work for a worker that is free.
    fn has_work(&self) -> bool {
        let on_a_bench = || self.places.iter().any(|place| !lock(&place.bench).is_empty());
        !self.shared.is_empty() || (self.benched && on_a_bench())
    }
}
