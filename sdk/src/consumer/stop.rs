//! The order to end, given once and only made stricter after.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A latch with a deadline.
#[derive(Debug, Default)]
pub(super) struct Stop {
    deadline: Mutex<Option<Deadline>>,
    given: Condvar,
}

/// When an ending must be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline {
    /// Everything.
    pub(super) end: Instant,
    /// Handlers: what is left after it is for the last commit and for leaving the group.
    pub(super) handlers: Instant,
}

impl Deadline {
    /// Of an ending that begins now.
    pub(super) fn after(limit: Duration) -> Self {
        // Far enough for ever, near enough for a clock.
        let limit = limit.min(Duration::from_secs(365 * 24 * 60 * 60));
        let reserve = (limit / 4).min(Duration::from_secs(2));
        let now = Instant::now();
        Self { end: now + limit, handlers: now + limit.saturating_sub(reserve) }
    }
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, Option<Deadline>> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the order. Of several deadlines the earliest holds.
    pub(super) fn order(&self, deadline: Deadline) {
        let mut given = self.lock();
        *given = Some(given.map_or(deadline, |earlier| earlier.min(deadline)));
        self.given.notify_all();
    }

    /// The deadline, once the order is given.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        *self.lock()
    }

    /// Waits for the order, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let given = self.lock();
        // A wake-up without cause only ends the wait early.
        drop(self.given.wait_timeout_while(given, limit, |given| given.is_none()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_deadline_holds() {
        let stop = Stop::default();
        assert_eq!(stop.deadline(), None);
        let (near, far) = (Deadline::after(Duration::from_secs(1)), Deadline::after(Duration::MAX));
        stop.order(far);
        stop.order(near);
        stop.order(far);
        assert_eq!(stop.deadline(), Some(near));
        assert!(near.handlers < near.end);
    }
}
