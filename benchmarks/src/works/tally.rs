//! Waits for the delivery reports of messages that are sent without waiting for each.

use std::sync::{
    Condvar, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::Failure;

/// Counts reports down. Shared by the sender and whatever thread the reports arrive on.
#[derive(Default)]
pub(super) struct Tally {
    outstanding: AtomicU64,
    failure: Mutex<Option<String>>,
    settled: Condvar,
}

impl Tally {
    /// Expects this many reports from now on. Called while none is outstanding.
    pub(super) fn expect(&self, messages: u64) {
        self.outstanding.store(messages, Ordering::Release);
    }

    /// One message was acknowledged. Costs one atomic decrement.
    pub(super) fn acknowledged(&self) {
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The lock orders this after a waiter's check and before its sleep is over.
            drop(self.failure.lock().unwrap_or_else(PoisonError::into_inner));
            self.settled.notify_all();
        }
    }

    /// One message was not acknowledged: the measurement is void.
    pub(super) fn failed(&self, reason: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.settled.notify_all();
    }

    /// Blocks until all are acknowledged.
    pub(super) fn wait(&self) -> Result<(), Failure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        while self.outstanding.load(Ordering::Acquire) > 0 && failure.is_none() {
            failure = self.settled.wait(failure).unwrap_or_else(PoisonError::into_inner);
        }
        match failure.take() {
            None => Ok(()),
            Some(reason) => Err(format!("a message was not delivered: {reason}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    #[test]
    fn the_wait_ends_with_the_last_acknowledgement() {
        let tally = Arc::new(Tally::default());
        for messages in [200, 1, 3] {
            tally.expect(messages);
            let reporter = Arc::clone(&tally);
            let thread = thread::spawn(move || (0..messages).for_each(|_| reporter.acknowledged()));
            tally.wait().unwrap();
            assert_eq!(tally.outstanding.load(Ordering::Acquire), 0);
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_failure_ends_the_wait_although_others_are_outstanding() {
        let tally = Tally::default();
        tally.expect(2);
        tally.failed("no leader".to_owned());
        assert!(tally.wait().unwrap_err().to_string().contains("no leader"));
    }
}
