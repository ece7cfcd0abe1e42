//! How many workers there are to be, now and in pools to come.

use std::{
    io,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
};

use zms_core::name::GroupName;

use super::{Plan, Pool, desk::Running, shared::Shared};

/// The number of workers of a subscription, and its present pool.
pub(in super::super) struct Crew(Mutex<State>);

struct State {
    workers: NonZeroUsize,
    is_adaptive: bool,
    pool: Weak<Shared>,
}

/// Why the number of workers could not be changed. It is what it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// At least one worker is needed. To handle nothing for a while, suspend the group.
    #[error("group {group}: at least 1 worker is needed")]
    None {
        /// The group.
        group: GroupName,
    },
    /// The subscription has ended.
    #[error("group {group}: the subscription is closed")]
    Closed {
        /// The group.
        group: GroupName,
    },
    /// The number is found out by the subscription itself: [`Subscriber::adaptive`](crate::consumer::Subscriber::adaptive).
    #[error("group {group}: the number of workers is adaptive, so that it cannot be set")]
    Adaptive {
        /// The group.
        group: GroupName,
    },
    /// A thread could not be started.
    #[error("group {group}: no thread for a worker: {source}")]
    Thread {
        /// The group.
        group: GroupName,
        /// The operating system's answer.
        source: io::Error,
    },
}

impl Crew {
    pub(in super::super) fn new(workers: NonZeroUsize, is_adaptive: bool) -> Self {
        Self(Mutex::new(State { workers, is_adaptive, pool: Weak::new() }))
    }

    /// Whether the pool finds the number of workers out by itself.
    pub(in super::super) fn is_adaptive(&self) -> bool {
        self.state().is_adaptive
    }

    // Held while workers are started, so that two changes do not mix. Nobody on a hot path wants it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a pool, which is the present one from then on.
    pub(in super::super) fn start(&self, plan: &Plan) -> io::Result<Pool> {
        let mut state = self.state();
        let pool = Pool::start(plan, state.workers)?;
        state.pool = std::sync::Arc::downgrade(&pool.shared);
        Ok(pool)
    }

    /// Sets the number of workers.
    pub(in super::super) fn resize(&self, workers: NonZeroUsize) -> io::Result<()> {
        let mut state = self.state();
        if let Some(pool) = state.pool.upgrade() {
            pool.resize(workers)?;
        }
        state.workers = workers;
        Ok(())
    }

    /// Which worker runs a message.
    pub(in super::super) fn running(&self, epoch: u64, offset: i64) -> Option<(usize, Running)> {
        let pool = self.state().pool.upgrade()?;
        pool.running(epoch, offset)
    }
}
