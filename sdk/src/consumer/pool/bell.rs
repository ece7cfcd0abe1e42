//! Waking a worker.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

/// Wakes one worker. Rung while the worker does not wait, it ends the next wait at once.
pub(in super::super) enum Bell {
    Thread(ThreadBell),
    Task(Notify),
}

#[derive(Default)]
pub(in super::super) struct ThreadBell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(super) fn ring(&self) {
        match self {
            Self::Thread(bell) => {
                *bell.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
                bell.changed.notify_one();
            }
            Self::Task(bell) => bell.notify_one(),
        }
    }

    /// Blocks until the bell rings, at most until `until`. Only for threads.
    pub(super) fn wait_blocking(&self, until: Option<Instant>) {
        let Self::Thread(bell) = self else { return };
        let mut rung = bell.rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            let Some(until) = until else {
                rung = bell.changed.wait(rung).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            rung = bell.changed.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
    }

    /// Waits until the bell rings, at most until `until`. Only for tasks.
    pub(super) async fn wait(&self, until: Option<Instant>) {
        let Self::Task(bell) = self else { return };
        match until {
            None => bell.notified().await,
            Some(until) => {
                // At the time or rung: either way the worker looks for itself.
                let _ = tokio::time::timeout_at(until.into(), bell.notified()).await;
            }
        }
    }
}
