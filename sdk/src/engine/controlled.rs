//! Clients that answer through a control of their own.

use std::time::Duration;

use super::port::{ConsumerControl, EngineError, LogRange, Position, Start};

/// A client whose questions and orders all go through another control, made for the call.
pub(crate) trait Controlled {
    /// That control.
    type Control<'a>: ConsumerControl
    where
        Self: 'a;

    /// Makes it.
    fn control(&self) -> Self::Control<'_>;
}

impl<T: Controlled> ConsumerControl for T {
    fn pause(&self, partitions: &[i32]) {
        self.control().pause(partitions);
    }

    fn resume(&self, partitions: &[i32]) {
        self.control().resume(partitions);
    }

    fn seek(&self, partition: i32, start: Start, limit: Duration) -> Result<(), EngineError> {
        self.control().seek(partition, start, limit)
    }

    fn commit(&self, positions: &[Position]) -> Result<(), EngineError> {
        self.control().commit(positions)
    }

    fn committed(&self, partitions: &[i32], limit: Duration) -> Result<Vec<Position>, EngineError> {
        self.control().committed(partitions, limit)
    }

    fn log_ranges(&self, partitions: &[i32], limit: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
        self.control().log_ranges(partitions, limit)
    }

    fn offsets_for_times(
        &self,
        partitions: &[i32],
        timestamp_ms: i64,
        limit: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
        self.control().offsets_for_times(partitions, timestamp_ms, limit)
    }
}
