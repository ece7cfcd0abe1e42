//! Room in the pool: how sends wait for it, as tasks or as threads, and how it comes back.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use bytes::BytesMut;
use tokio::time::{Instant, timeout_at};
use zms_core::{
    name::ClusterName,
    pool::{self, Answer, Bound, Cause, Charge, Shortage, TopicKey},
};

use super::memory::{Block, Blocks};

/// The pool of one handle. Waiters note since when they wait; the memory of its blocks is [`BytesMut`].
pub(super) type Pool = pool::Pool<BytesMut, Instant>;

/// A topic's account in the pool, with the blocks that its written payloads share.
#[derive(Debug)]
pub(super) struct Account {
    pool: Arc<Pool>,
    key: TopicKey,
    blocks: Blocks,
}

/// Bytes taken; dropping it returns them, exactly once, and serves whoever waits.
#[derive(Debug)]
#[must_use]
pub(super) struct Room(Taken);

#[derive(Debug)]
enum Taken {
    Bytes {
        pool: Arc<Pool>,
        charge: Charge,
    },
    /// A part of a block, which returns as a whole with the last of them.
    Part(Arc<Block>),
    /// They have gone back, or over to somebody else.
    Nothing,
}

/// Why there was no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// None until the deadline, because of this.
    InTime(Cause),
    /// There never will be.
    Ever { limit: usize, bound: Bound },
    /// The pool was closed.
    Closed,
}

impl From<pool::NoRoom> for NoRoom {
    fn from(no_room: pool::NoRoom) -> Self {
        match no_room {
            pool::NoRoom::TooLarge { limit, bound } => Self::Ever { limit, bound },
            pool::NoRoom::Closed => Self::Closed,
        }
    }
}

impl Account {
    /// For a topic that is on no cluster yet.
    pub(super) fn open(pool: &Arc<Pool>) -> Self {
        Self { pool: pool.clone(), key: pool.open(), blocks: Blocks::default() }
    }

    /// Counts what the topic takes from now on, and those who wait, for a cluster.
    pub(super) fn house(&self, cluster: &ClusterName) {
        self.pool.house(self.key, cluster);
    }

    /// Lets the topic have its whole cap again: what it has was left behind on a client that does not report it, and
    /// must not take the room of the messages that follow.
    pub(super) fn renew(&self) {
        self.pool.renew(self.key);
    }

    /// Takes bytes, or says at once why not.
    pub(super) fn try_take(&self, bytes: usize) -> Result<Room, NoRoom> {
        match self.pool.try_take(self.key, bytes) {
            Ok(charge) => Ok(self.room(charge)),
            Err(Shortage::Wait) => Err(NoRoom::InTime(self.pool.cause(self.key, bytes))),
            Err(Shortage::TooLarge { limit, bound }) => Err(NoRoom::Ever { limit, bound }),
            Err(Shortage::Closed) => Err(NoRoom::Closed),
        }
    }

    /// Takes bytes, and until the deadline waits in line for them.
    ///
    /// Dropping the future leaves the line, and returns what it may just have been granted.
    pub(super) async fn take(&self, bytes: usize, deadline: Instant) -> Result<Room, NoRoom> {
        let mut waiting = match self.pool.take(self.key, bytes, Instant::now)? {
            Answer::Taken(charge) => return Ok(self.room(charge)),
            Answer::Wait(waiting) => waiting,
        };
        let charge = match timeout_at(deadline, &mut waiting).await {
            Ok(answer) => answer?,
            Err(_) => waiting.give_up().map_err(NoRoom::InTime)??,
        };
        Ok(self.room(charge))
    }

    /// The same for a thread that may block. Never on an async thread.
    pub(super) fn take_blocking(&self, bytes: usize, deadline: Instant) -> Result<Room, NoRoom> {
        let mut waiting = match self.pool.take(self.key, bytes, Instant::now)? {
            Answer::Taken(charge) => return Ok(self.room(charge)),
            Answer::Wait(waiting) => waiting,
        };
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let charge = loop {
            if let Poll::Ready(answer) = Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker)) {
                break answer?;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break waiting.give_up().map_err(NoRoom::InTime)??;
            }
            thread::park_timeout(left);
        };
        Ok(self.room(charge))
    }

    /// What a request for so many bytes waits for now.
    pub(super) fn cause(&self, bytes: usize) -> Cause {
        self.pool.cause(self.key, bytes)
    }

    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn room(&self, charge: Charge) -> Room {
        Room(Taken::Bytes { pool: self.pool.clone(), charge })
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.pool.close_topic(self.key);
    }
}

impl Room {
    /// What a payload in a block keeps.
    pub(super) fn part_of(block: Arc<Block>) -> Self {
        Self(Taken::Part(block))
    }

    /// Takes a part out, which returns by itself: as many bytes as asked for, or all there are.
    pub(super) fn split(&mut self, bytes: usize) -> Self {
        Self(match &mut self.0 {
            Taken::Bytes { pool, charge } => Taken::Bytes { pool: pool.clone(), charge: charge.split(bytes) },
            Taken::Part(block) => Taken::Part(block.clone()),
            Taken::Nothing => Taken::Nothing,
        })
    }

    /// Returns the bytes of a block, with its memory if nothing in it lives any more.
    pub(super) fn return_block(mut self, mut memory: BytesMut) {
        if let Taken::Bytes { pool, charge } = mem::replace(&mut self.0, Taken::Nothing) {
            let whole = memory.try_reclaim(pool.block_size());
            pool.give_back_block(charge, whole.then_some(memory));
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Taken::Bytes { pool, charge } = mem::replace(&mut self.0, Taken::Nothing) {
            pool.give_back(charge);
        }
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinHandle;
    use zms_core::pool::{Percent, Shares};

    use super::*;

    const PATIENCE: u64 = 600_000;

    fn part(percent: u8) -> Percent {
        Percent::new(percent).unwrap()
    }

    /// A pool that one topic may have for itself.
    fn undivided(total: usize) -> Arc<Account> {
        let shares = Shares { topic_cap: part(100), cluster_floor: part(0), cluster_ceiling: part(100) };
        Arc::new(Account::open(&Arc::new(Pool::new(total, 16, shares))))
    }

    fn later(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    fn take(account: &Arc<Account>, bytes: usize) -> JoinHandle<Result<Room, NoRoom>> {
        let account = account.clone();
        tokio::spawn(async move { account.take(bytes, later(PATIENCE)).await })
    }

    fn state(account: &Account) -> (usize, usize) {
        let (usage, _) = account.pool.usage();
        (usage.free, usage.waiting)
    }

    async fn until_waiting(account: &Account, count: usize) {
        while state(account).1 != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_timed_out_or_was_dropped_leaves_nothing_behind() {
        let account = undivided(100);
        let all = account.try_take(100).unwrap();
        let error = account.take(60, later(10)).await.unwrap_err();
        assert_eq!(error, NoRoom::InTime(Cause::Topic { used: 100, cap: 100 }));
        let dropped = take(&account, 60);
        until_waiting(&account, 1).await;
        let b = take(&account, 50);
        until_waiting(&account, 2).await;
        dropped.abort();
        until_waiting(&account, 1).await;
        drop(all);
        let b = b.await.unwrap().unwrap();
        assert_eq!(state(&account), (50, 0));
        drop(b);
        assert_eq!(state(&account), (100, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn giving_up_in_the_instant_of_the_grant_loses_nothing() {
        let account = undivided(100);
        for _ in 0..10_000 {
            let all = account.try_take(100).unwrap();
            let a = take(&account, 60);
            until_waiting(&account, 1).await;
            let releasing = tokio::spawn(async move { drop(all) });
            a.abort();
            releasing.await.unwrap();
            drop(a.await);
            assert_eq!(state(&account), (100, 0));
        }
    }

    #[test]
    fn threads_that_give_up_in_the_instant_of_the_grant_lose_nothing() {
        let account = undivided(100);
        for _ in 0..10_000 {
            let all = account.try_take(100).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| drop(account.take_blocking(60, Instant::now())));
                scope.spawn(|| drop(all));
            });
            assert_eq!(state(&account), (100, 0));
        }
    }

    #[test]
    fn parts_of_what_was_taken_at_once_return_each_by_itself() {
        let account = undivided(100);
        let mut rest = account.try_take(90).unwrap();
        let parts: Vec<_> = [10, 20, 0, 50, 30].into_iter().map(|bytes| rest.split(bytes)).collect();
        let mut free = 10;
        for (part, bytes) in parts.into_iter().zip([10, 20, 0, 50, 10]) {
            drop(part);
            free += bytes;
            assert_eq!(state(&account), (free, 0));
        }
        drop(rest);
        assert_eq!(state(&account), (100, 0));
    }

    #[test]
    fn threads_and_tasks_stand_in_one_line() {
        let account = undivided(100);
        let all = account.try_take(100).unwrap();
        let thread = {
            let account = account.clone();
            thread::spawn(move || account.take_blocking(100, later(PATIENCE)).map(drop))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            until_waiting(&account, 1).await;
            let task = take(&account, 100);
            until_waiting(&account, 2).await;
            drop(all);
            drop(task.await.unwrap().unwrap());
        });
        assert_eq!(thread.join().unwrap(), Ok(()), "it was there before the task");
        assert_eq!(state(&account), (100, 0));
    }

    #[tokio::test]
    async fn closing_ends_every_wait_at_once() {
        let account = undivided(10);
        let all = account.try_take(10).unwrap();
        let waiters: Vec<_> = (0..10).map(|_| take(&account, 1)).collect();
        until_waiting(&account, 10).await;
        account.pool.close();
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap().unwrap_err(), NoRoom::Closed);
        }
        assert_eq!(account.take(1, later(1)).await.unwrap_err(), NoRoom::Closed);
        drop(all);
        assert_eq!(state(&account), (10, 0));
    }

    #[tokio::test]
    async fn a_smaller_pool_tells_those_who_never_get_their_room() {
        let account = undivided(100);
        let all = account.try_take(100).unwrap();
        let (hopeless, patient) = (take(&account, 80), take(&account, 40));
        until_waiting(&account, 2).await;
        account.pool.resize(50);
        let told = hopeless.await.unwrap().unwrap_err();
        assert_eq!(told, NoRoom::Ever { limit: 50, bound: Bound::Topic });
        drop(all);
        drop(patient.await.unwrap().unwrap());
        assert_eq!(state(&account), (50, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_waits_gets_its_turn_while_the_pool_changes_and_others_give_up() {
        let account = undivided(1_000);
        let tasks: Vec<_> = (0..64_u64)
            .map(|number| {
                let account = account.clone();
                tokio::spawn(async move {
                    for round in 0..200_u64 {
                        let bytes = usize::try_from((number * 7 + round * 13) % 300).unwrap() + 1;
                        let patience = if (number + round) % 5 == 0 { 0 } else { PATIENCE };
                        match account.take(bytes, later(patience)).await {
                            Ok(room) => {
                                tokio::task::yield_now().await;
                                drop(room);
                            }
                            Err(NoRoom::InTime(_)) => assert_eq!(patience, 0, "its turn never came"),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                })
            })
            .collect();
        for total in (300..1_000).cycle().step_by(37).take(200) {
            account.pool.resize(total);
            tokio::task::yield_now().await;
        }
        account.pool.resize(1_000);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(state(&account), (1_000, 0));
    }
}
