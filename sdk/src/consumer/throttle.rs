//! Keeps a log line from repeating.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Lets an event through at once, and then at most one in [`Throttle::PERIOD`].
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<(Option<Instant>, u64)>);

impl Throttle {
    const PERIOD: Duration = Duration::from_secs(10);

    /// `Some` when the event may be logged now, with the number of events hidden since the last one.
    pub(super) fn pass(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, hidden) = &mut *state;
        if last.is_some_and(|last| last.elapsed() < Self::PERIOD) {
            *hidden += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(hidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_logged_once() {
        let throttle = Throttle::default();
        assert_eq!(throttle.pass(), Some(0));
        assert_eq!((0..100).filter_map(|_| throttle.pass()).count(), 0);
        throttle.0.lock().unwrap().0 = None;
        assert_eq!(throttle.pass(), Some(100));
    }
}
