//! The ledger behind a lock, and the waiting for one's turn.
//!
//! Grants are recorded in the waiter's seat under the same lock that a waiter gives up under. So it either finds its
//! grant and returns it, or leaves the line before anybody can grant it something: there is no instant between the
//! two in which bytes could be lost. Wakers are called after the lock was released, for they may do anything.

#[cfg(loom)]
use ::loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::{
    future::Future,
    pin::Pin,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use super::{
    Bound, Cause, Charge, Grant, Ledger, Level, Outcome, Refusal, Shares, Shortage, TopicKey, Usage, WaiterId,
};
use crate::name::ClusterName;

/// A [`Ledger`] that many threads share. `B` is the memory of a block, `S` what a waiter notes when it begins to wait.
#[derive(Debug)]
pub struct Pool<B, S> {
    block: usize,
    state: Mutex<State<B, S>>,
}

#[derive(Debug)]
struct State<B, S> {
    ledger: Ledger<usize>,
    seats: Vec<Seat<S>>,
    free_seats: Vec<usize>,
    /// As many as the ledger counts as idle.
    blocks: Vec<B>,
}

#[derive(Debug)]
struct Seat<S> {
    since: Option<S>,
    waker: Option<Waker>,
    news: Option<Result<Charge, NoRoom>>,
}

/// The answer to a request that may wait.
#[derive(Debug)]
pub enum Answer<'a, B, S> {
    /// Its bytes.
    Taken(Charge),
    /// Its turn comes.
    Wait(Waiting<'a, B, S>),
}

/// Why there is no room, and waiting does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// More than there ever will be.
    TooLarge {
        /// The most that could be taken at once.
        limit: usize,
        /// What limits it.
        bound: Bound,
    },
    /// Nothing is given out any more.
    Closed,
}

/// A request in line: a future, so that tasks can await it, and threads with a waker of their own.
///
/// Dropped, it leaves the line, and returns what it may just have been granted.
#[derive(Debug)]
#[must_use = "dropped, it gives up its place"]
pub struct Waiting<'a, B, S> {
    pool: &'a Pool<B, S>,
    /// `None` once it has had its answer.
    place: Option<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    id: WaiterId,
    seat: usize,
    bytes: usize,
}

/// Who is to be woken; a return mostly concerns nobody.
#[derive(Default)]
#[must_use]
struct Calls {
    wakers: Vec<Waker>,
    /// Of one who left. Dropping a waker may end its task, and with it anything that takes the lock.
    _left: Option<Waker>,
}

impl Calls {
    /// Not under the lock.
    fn wake(self) {
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

impl FromIterator<Waker> for Calls {
    fn from_iter<I: IntoIterator<Item = Waker>>(wakers: I) -> Self {
        Self { wakers: wakers.into_iter().collect(), _left: None }
    }
}

impl<B, S: Copy> Pool<B, S> {
    /// Shares `total` bytes, some of them as blocks of `block` bytes.
    pub fn new(total: usize, block: usize, shares: Shares) -> Self {
        let ledger = Ledger::new(total, block, shares);
        let state = State { ledger, seats: Vec::new(), free_seats: Vec::new(), blocks: Vec::new() };
        Self { block, state: Mutex::new(state) }
    }

    /// Opens the account of a topic that is on no cluster yet.
    pub fn open(&self) -> TopicKey {
        self.state().ledger.open()
    }

    /// Closes a topic's account; its key is not used any more.
    pub fn close_topic(&self, key: TopicKey) {
        let mut state = self.state();
        let (sent_away, outcome) = state.ledger.close_topic(key);
        let mut calls = state.settle(outcome);
        calls.wakers.extend(sent_away.into_iter().filter_map(|seat| state.tell(seat, Err(NoRoom::Closed))));
        drop(state);
        calls.wake();
    }

    /// Moves a topic to a cluster, with those who wait.
    pub fn house(&self, key: TopicKey, cluster: &ClusterName) {
        self.change(|ledger| ledger.house(key, cluster));
    }

    /// Lets a topic have its whole cap again, whatever it has.
    pub fn renew(&self, key: TopicKey) {
        self.change(|ledger| Outcome { grants: ledger.renew(key), refused: Vec::new() });
    }

    /// Changes the total. Made smaller, it takes effect as bytes return; who can never be served is told at once.
    pub fn resize(&self, total: usize) {
        self.change(|ledger| ledger.resize(total));
    }

    /// Takes bytes, or says at once why not.
    ///
    /// # Errors
    /// [`Shortage`] says whether waiting would help.
    pub fn try_take(&self, key: TopicKey, bytes: usize) -> Result<Charge, Shortage> {
        let mut state = self.state();
        let taken = state.ledger.take(key, bytes);
        let surplus = state.surplus();
        drop(state);
        drop(surplus);
        taken
    }

    /// Takes bytes, or gets in line for them.
    ///
    /// # Errors
    /// [`NoRoom`] when waiting does not help.
    pub fn take(
        &self,
        key: TopicKey,
        bytes: usize,
        since: impl FnOnce() -> S,
    ) -> Result<Answer<'_, B, S>, NoRoom> {
        let mut state = self.state();
        let answer = match state.ledger.take(key, bytes) {
            Ok(charge) => Answer::Taken(charge),
            Err(Shortage::Wait) => {
                let seat = state.seat(since());
                let id = state.ledger.enqueue(key, bytes, seat);
                Answer::Wait(Waiting { pool: self, place: Some(Place { id, seat, bytes }) })
            }
            Err(Shortage::TooLarge { limit, bound }) => return Err(NoRoom::TooLarge { limit, bound }),
            Err(Shortage::Closed) => return Err(NoRoom::Closed),
        };
        let surplus = state.surplus();
        drop(state);
        drop(surplus);
        Ok(answer)
    }

    /// Returns bytes, and wakes those whose turn it is.
    pub fn give_back(&self, charge: Charge) {
        let mut state = self.state();
        let grants = state.ledger.give_back(charge);
        if grants.is_empty() {
            return;
        }
        let calls = state.grant(grants);
        drop(state);
        calls.wake();
    }

    /// An idle block for the bytes of one that were taken; without one it is to be allocated.
    pub fn reuse_block(&self) -> Option<B> {
        let mut state = self.state();
        if state.ledger.reuse_block() { state.blocks.pop() } else { None }
    }

    /// Returns the bytes of a block, and keeps its memory for reuse if there is room for it.
    pub fn give_back_block(&self, charge: Charge, memory: Option<B>) {
        let mut state = self.state();
        let grants = state.ledger.give_back(charge);
        let calls = state.grant(grants);
        let unwanted = match memory {
            Some(memory) if state.ledger.keep_block() => {
                state.blocks.push(memory);
                None
            }
            other => other,
        };
        drop(state);
        drop(unwanted);
        calls.wake();
    }

    /// Sends everybody in line away; nothing is given out from now on.
    pub fn close(&self) {
        let mut state = self.state();
        let sent_away = state.ledger.close();
        let wakers = sent_away.into_iter().filter_map(|seat| state.tell(seat, Err(NoRoom::Closed)));
        let calls: Calls = wakers.collect();
        let surplus = state.surplus();
        drop(state);
        drop(surplus);
        calls.wake();
    }

    /// What a topic's requests, of so many bytes, wait for now.
    pub fn cause(&self, key: TopicKey, bytes: usize) -> Cause {
        self.state().ledger.cause(key, bytes)
    }

    /// How full it is.
    pub fn level(&self) -> Level {
        self.state().ledger.level()
    }

    /// The most that can be taken at once.
    pub fn largest(&self) -> usize {
        self.state().ledger.largest()
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.block
    }

    /// Everything at this moment, and since when the one waits who has waited longest.
    pub fn usage(&self) -> (Usage, Option<S>) {
        let state = self.state();
        let since = state.ledger.oldest().and_then(|seat| state.seats[*seat].since);
        (state.ledger.usage(), since)
    }

    fn change(&self, change: impl FnOnce(&mut Ledger<usize>) -> Outcome<usize>) {
        let mut state = self.state();
        let outcome = change(&mut state.ledger);
        let calls = state.settle(outcome);
        let surplus = state.surplus();
        drop(state);
        drop(surplus);
        calls.wake();
    }

    /// Held for a few instructions and never across an await; a panic in between cannot leave it half changed.
    fn state(&self) -> MutexGuard<'_, State<B, S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B, S> State<B, S> {
    fn seat(&mut self, since: S) -> usize {
        let seat = Seat { since: Some(since), waker: None, news: None };
        if let Some(index) = self.free_seats.pop() {
            self.seats[index] = seat;
            return index;
        }
        self.seats.push(seat);
        self.seats.len() - 1
    }

    /// Leaves what became of a waiter in its seat; its waker.
    fn tell(&mut self, seat: usize, news: Result<Charge, NoRoom>) -> Option<Waker> {
        let seat = &mut self.seats[seat];
        seat.news = Some(news);
        seat.waker.take()
    }

    fn grant(&mut self, grants: Vec<Grant<usize>>) -> Calls {
        let granted = grants.into_iter();
        granted.filter_map(|Grant { reach, charge }| self.tell(reach, Ok(charge))).collect()
    }

    fn settle(&mut self, outcome: Outcome<usize>) -> Calls {
        let mut calls = self.grant(outcome.grants);
        for Refusal { reach, limit, bound } in outcome.refused {
            calls.wakers.extend(self.tell(reach, Err(NoRoom::TooLarge { limit, bound })));
        }
        calls
    }

    /// Idle blocks that there is no room for any more, to be dropped outside the lock.
    fn surplus(&mut self) -> Vec<B> {
        if self.blocks.is_empty() {
            return Vec::new();
        }
        let rest = self.blocks.len() - self.ledger.shed_blocks();
        self.blocks.split_off(rest)
    }

    /// What became of a waiter; its seat is free then.
    fn news(&mut self, seat: usize) -> Option<Result<Charge, NoRoom>> {
        let news = self.seats[seat].news.take()?;
        // Its waker was taken to be woken.
        let _none = self.free(seat);
        Some(news)
    }

    fn free(&mut self, seat: usize) -> Option<Waker> {
        let left = Seat { since: None, waker: None, news: None };
        self.free_seats.push(seat);
        std::mem::replace(&mut self.seats[seat], left).waker
    }

    /// Ends a wait: what came in the last instant, or nobody and whose turn it is instead.
    fn leave(&mut self, place: Place) -> Result<Result<Charge, NoRoom>, Calls> {
        if let Some(news) = self.news(place.seat) {
            return Ok(news);
        }
        let grants = self.ledger.withdraw(place.id).unwrap_or_default();
        let left = self.free(place.seat);
        Err(Calls { _left: left, ..self.grant(grants) })
    }
}

impl<B, S: Copy> Waiting<'_, B, S> {
    /// Gives up.
    ///
    /// # Errors
    /// What it waited for; without it when the pool was closed or has become too small. Not an error when its turn had
    /// come in this instant.
    pub fn give_up(mut self) -> Result<Result<Charge, NoRoom>, Cause> {
        let Some(place) = self.place.take() else { return Ok(Err(NoRoom::Closed)) };
        let mut state = self.pool.state();
        let cause = state.ledger.cause(place.id.topic, place.bytes);
        match state.leave(place) {
            Ok(news) => Ok(news),
            Err(calls) => {
                drop(state);
                calls.wake();
                Err(cause)
            }
        }
    }
}

impl<B, S: Copy> Future for Waiting<'_, B, S> {
    type Output = Result<Charge, NoRoom>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(place) = self.place else { return Poll::Ready(Err(NoRoom::Closed)) };
        let mut state = self.pool.state();
        if let Some(news) = state.news(place.seat) {
            drop(state);
            self.place = None;
            return Poll::Ready(news);
        }
        let before = state.seats[place.seat].waker.replace(context.waker().clone());
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl<B, S> Drop for Waiting<'_, B, S> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = match state.leave(place) {
            Ok(Ok(charge)) => {
                let grants = state.ledger.give_back(charge);
                state.grant(grants)
            }
            Ok(Err(_)) => return,
            Err(calls) => calls,
        };
        drop(state);
        calls.wake();
    }
}
