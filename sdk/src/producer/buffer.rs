//! Waiting for room: the asynchronous side of [`Admission`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use zms_core::admission::{Admission, Grant, Shortage, WaiterId};

/// Bytes that senders share. What is taken comes back when its [`Credit`] is dropped.
#[derive(Debug)]
pub(super) struct Buffer(Mutex<Admission<oneshot::Sender<Credit>>>);

/// Bytes taken; dropping it returns them, exactly once, and serves whoever waits.
#[derive(Debug)]
#[must_use]
pub(super) struct Credit {
    buffer: Arc<Buffer>,
    bytes: usize,
}

/// Why there was no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// None until the deadline.
    InTime,
    /// There never will be.
    Ever { limit: usize },
    /// The buffer was closed.
    Closed,
}

impl From<Shortage> for NoRoom {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Wait => Self::InTime,
            Shortage::TooLarge { limit } => Self::Ever { limit },
            Shortage::Closed => Self::Closed,
        }
    }
}

impl Buffer {
    pub(super) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Admission::new(total))))
    }

    /// Takes bytes, or says at once why not.
    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Result<Credit, Shortage> {
        self.line().take(bytes).map(|()| self.credit(bytes))
    }

    /// Takes bytes, and until the deadline waits in line for them.
    ///
    /// Dropping the future leaves the line, and returns what it may just have been granted.
    pub(super) async fn take(self: &Arc<Self>, bytes: usize, deadline: Instant) -> Result<Credit, NoRoom> {
        let (place, granted) = {
            let mut line = self.line();
            match line.take(bytes) {
                Ok(()) => return Ok(self.credit(bytes)),
                Err(Shortage::Wait) => {
                    let (grant, granted) = oneshot::channel();
                    (Place { buffer: self, id: line.enqueue(bytes, grant) }, granted)
                }
                Err(other) => return Err(other.into()),
            }
        };
        let answer = timeout_at(deadline, granted).await;
        drop(place);
        match answer {
            Ok(Ok(credit)) => Ok(credit),
            Ok(Err(_)) => Err(NoRoom::Closed),
            Err(_) => Err(NoRoom::InTime),
        }
    }

    /// Sends everybody in line away; nothing is given out from now on.
    pub(super) fn close(&self) {
        let sent_away = self.line().close();
        drop(sent_away);
    }

    pub(super) fn total(&self) -> usize {
        self.line().total()
    }

    pub(super) fn free(&self) -> usize {
        self.line().free()
    }

    pub(super) fn waiting(&self) -> usize {
        self.line().waiting()
    }

    fn credit(self: &Arc<Self>, bytes: usize) -> Credit {
        Credit { buffer: self.clone(), bytes }
    }

    fn give_back(self: &Arc<Self>, bytes: usize) {
        let grants = self.line().give_back(bytes);
        self.serve(grants);
    }

    /// Hands grants over, outside the lock. A waiter may be gone by now: then its bytes go to the next.
    fn serve(self: &Arc<Self>, mut grants: Vec<Grant<oneshot::Sender<Credit>>>) {
        while !grants.is_empty() {
            let mut unused = 0;
            for Grant { reach, bytes } in grants {
                if let Err(mut credit) = reach.send(self.credit(bytes)) {
                    unused += std::mem::take(&mut credit.bytes);
                }
            }
            grants = if unused > 0 { self.line().give_back(unused) } else { Vec::new() };
        }
    }

    /// Held for a few instructions and never across an await; a panic in between cannot leave it half changed.
    fn line(&self) -> MutexGuard<'_, Admission<oneshot::Sender<Credit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.buffer.give_back(self.bytes);
        }
    }
}

/// A place in line, left when dropped.
struct Place<'a> {
    buffer: &'a Arc<Buffer>,
    id: WaiterId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let grants = self.buffer.line().withdraw(self.id);
        self.buffer.serve(grants.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn later(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    async fn until_waiting(buffer: &Buffer, count: usize) {
        while buffer.waiting() != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_timed_out_or_was_dropped_leaves_nothing_behind() {
        let buffer = Buffer::new(100);
        let all = buffer.try_take(100).unwrap();
        assert_eq!(buffer.take(60, later(10)).await.unwrap_err(), NoRoom::InTime);
        let dropped = tokio::spawn({
            let buffer = buffer.clone();
            async move { buffer.take(60, later(60_000)).await }
        });
        until_waiting(&buffer, 1).await;
        let b = tokio::spawn({
            let buffer = buffer.clone();
            async move { buffer.take(50, later(60_000)).await }
        });
        until_waiting(&buffer, 2).await;
        dropped.abort();
        until_waiting(&buffer, 1).await;
        drop(all);
        let b = b.await.unwrap().unwrap();
        assert_eq!(buffer.free(), 50);
        drop(b);
        assert_eq!((buffer.free(), buffer.waiting()), (100, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn giving_up_in_the_instant_of_the_grant_loses_nothing() {
        let buffer = Buffer::new(100);
        for _ in 0..10_000 {
            let all = buffer.try_take(100).unwrap();
            let a = tokio::spawn({
                let buffer = buffer.clone();
                async move { buffer.take(60, later(60_000)).await.map(drop) }
            });
            until_waiting(&buffer, 1).await;
            let releasing = tokio::spawn(async move { drop(all) });
            a.abort();
            releasing.await.unwrap();
            let _either_way = a.await;
            assert_eq!((buffer.free(), buffer.waiting()), (100, 0));
        }
    }

    #[tokio::test]
    async fn closing_ends_every_wait_at_once() {
        let buffer = Buffer::new(10);
        let all = buffer.try_take(10).unwrap();
        let waiters: Vec<_> = (0..10)
            .map(|_| {
                let buffer = buffer.clone();
                tokio::spawn(async move { buffer.take(1, later(60_000)).await.map(drop) })
            })
            .collect();
        until_waiting(&buffer, 10).await;
        buffer.close();
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), Err(NoRoom::Closed));
        }
        assert_eq!(buffer.take(1, later(1)).await.unwrap_err(), NoRoom::Closed);
        drop(all);
        assert_eq!(buffer.free(), 10);
    }
}
