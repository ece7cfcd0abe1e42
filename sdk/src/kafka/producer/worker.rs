//! The thread of a producer: serves the reports, and ends the client.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use rdkafka::producer::{Producer, PurgeConfig};

use super::{Native, reports::Counters};
use crate::kafka::native;

/// How long one wait for reports lasts; a close is noticed after it.
const SERVE: Duration = Duration::from_millis(100);
/// The same while closing.
const CLOSE_SLICE: Duration = Duration::from_millis(20);

/// How far a client is, shared by its handle and its thread.
#[derive(Debug, Default)]
pub(super) struct Life {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Stage {
    #[default]
    Open,
    Closing {
        deadline: Instant,
    },
    /// Every ticket is completed.
    Closed,
}

impl Life {
    /// Of several requests the earliest deadline counts, so that none waits longer than it asked for.
    pub(super) fn request(&self, deadline: Instant) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        *stage = match *stage {
            Stage::Open => Stage::Closing { deadline },
            Stage::Closing { deadline: earlier } => Stage::Closing { deadline: earlier.min(deadline) },
            Stage::Closed => Stage::Closed,
        };
    }

    fn requested(&self) -> Option<Instant> {
        match *self.stage.lock().unwrap_or_else(PoisonError::into_inner) {
            Stage::Closing { deadline } => Some(deadline),
            Stage::Open | Stage::Closed => None,
        }
    }

    fn ended(&self) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Stage::Closed;
        self.changed.notify_all();
    }

    pub(super) fn wait(&self) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(stage, |stage| *stage != Stage::Closed);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The thread that serves the reports.
pub(super) struct Worker {
    pub(super) native: Arc<Native>,
    pub(super) counters: Arc<Counters>,
    pub(super) life: Arc<Life>,
}

impl Worker {
    pub(super) fn run(self) {
        while self.life.requested().is_none() {
            self.native.poll(SERVE);
        }
        self.flush();
        self.purge();
    }

    fn flush(&self) {
        while let Some(deadline) = self.life.requested()
            && self.outstanding()
        {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            native::flush_slice(self.native.client(), left.min(CLOSE_SLICE));
            self.native.poll(left.min(CLOSE_SLICE));
        }
    }

    /// Again and again: between two looks a record may have moved from the queue into a request.
    fn purge(&self) {
        while self.outstanding() {
            self.native.purge(PurgeConfig::default().queue().inflight().non_blocking());
            self.native.poll(CLOSE_SLICE);
        }
    }

    fn outstanding(&self) -> bool {
        self.counters.outstanding.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Worker {
    /// Before the native client goes, and also when the thread dies of a panic: nobody waits for it in vain.
    fn drop(&mut self) {
        self.life.ended();
    }
}
