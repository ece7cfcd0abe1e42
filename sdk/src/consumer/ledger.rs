//! Positions that are kept in this process and nowhere else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use zms_core::name::ClusterName;

use crate::engine::port::{AssignmentListener, ConsumerControl, EngineError, LogRange, Position, Start};

/// The positions of one cluster. They outlive its clients, so that one that is replaced goes on where the last one was.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<BTreeMap<i32, Position>>);

/// The ledgers of a subscription. A topic's offsets are another matter on each cluster.
#[derive(Debug, Default)]
pub(super) struct Ledgers(Mutex<BTreeMap<ClusterName, Arc<Ledger>>>);

impl Ledgers {
    pub(super) fn of(&self, cluster: &ClusterName) -> Arc<Ledger> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(cluster.clone()).or_default())
    }
}

impl Ledger {
    pub(super) fn keep(&self, positions: impl IntoIterator<Item = Position>) {
        self.lock().extend(positions.into_iter().map(|position| (position.partition, position)));
    }

    fn known(&self, partitions: &[i32]) -> Vec<Position> {
        let kept = self.lock();
        partitions.iter().filter_map(|partition| kept.get(partition).cloned()).collect()
    }

    // Short: positions are copied in and out.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Position>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A control that keeps positions in a ledger, if there is one; all else it passes on.
pub(super) struct Kept<'a> {
    pub(super) control: &'a dyn ConsumerControl,
    pub(super) ledger: Option<&'a Ledger>,
}

impl ConsumerControl for Kept<'_> {
    fn pause(&self, partitions: &[i32]) {
        self.control.pause(partitions);
    }

    fn resume(&self, partitions: &[i32]) {
        self.control.resume(partitions);
    }

    fn seek(&self, partition: i32, start: Start, limit: Duration) -> Result<(), EngineError> {
        self.control.seek(partition, start, limit)
    }

    fn commit(&self, positions: &[Position]) -> Result<(), EngineError> {
        match self.ledger {
            Some(ledger) => {
                ledger.keep(positions.iter().cloned());
                Ok(())
            }
            None => self.control.commit(positions),
        }
    }

    fn committed(&self, partitions: &[i32], limit: Duration) -> Result<Vec<Position>, EngineError> {
        match self.ledger {
            Some(ledger) => Ok(ledger.known(partitions)),
            None => self.control.committed(partitions, limit),
        }
    }

    fn log_ranges(&self, partitions: &[i32], limit: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
        self.control.log_ranges(partitions, limit)
    }

    fn offsets_for_times(
        &self,
        partitions: &[i32],
        timestamp_ms: i64,
        limit: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
        self.control.offsets_for_times(partitions, timestamp_ms, limit)
    }
}

/// Lets a listener see such a control.
pub(super) struct KeptListener {
    pub(super) listener: Arc<dyn AssignmentListener>,
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl AssignmentListener for KeptListener {
    fn assigned(&self, control: &dyn ConsumerControl, partitions: &[i32]) -> Vec<(i32, Start)> {
        self.listener.assigned(&Kept { control, ledger: self.ledger.as_deref() }, partitions)
    }

    fn revoked(&self, control: &dyn ConsumerControl, partitions: &[i32], lost: bool) {
        self.listener.revoked(&Kept { control, ledger: self.ledger.as_deref() }, partitions, lost);
    }
}
