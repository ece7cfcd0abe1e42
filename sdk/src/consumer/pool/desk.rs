//! What each worker is doing, for those who ask.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Written by one worker with each message, and so without a lock. A reader may see parts of two messages, which it
/// notices by reading the epoch and the offset again.
#[derive(Default)]
pub(super) struct Desk {
    /// 0 is nobody's.
    epoch: AtomicU64,
    /// The first and the last offset of the call.
    first: AtomicI64,
    last: AtomicI64,
    attempt: AtomicU32,
    /// 0 when the message has no strand by key.
    key_hash: AtomicU64,
}

/// What is known of a message that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Running {
    pub(in super::super) attempt: u32,
    pub(in super::super) key_hash: Option<u64>,
}

impl Desk {
    pub(super) fn show(&self, epoch: u64, (first, last): (i64, i64), running: Running) {
        self.epoch.store(epoch, Relaxed);
        self.first.store(first, Relaxed);
        self.last.store(last, Relaxed);
        self.attempt.store(running.attempt, Relaxed);
        self.key_hash.store(running.key_hash.unwrap_or(0), Relaxed);
    }

    pub(super) fn clear(&self) {
        self.epoch.store(0, Relaxed);
    }

    /// What the worker is doing, if this message is part of it.
    pub(super) fn running(&self, epoch: u64, offset: i64) -> Option<Running> {
        let is_it = || {
            let call = self.first.load(Relaxed)..=self.last.load(Relaxed);
            self.epoch.load(Relaxed) == epoch && call.contains(&offset)
        };
        let first = is_it();
        let key_hash = Some(self.key_hash.load(Relaxed)).filter(|hash| *hash != 0);
        let running = Running { attempt: self.attempt.load(Relaxed), key_hash };
        (first && is_it()).then_some(running)
    }
}
