//! Questions and orders to a consumer on its own thread.

use std::time::{Duration, Instant};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaResult, RDKafkaErrorCode},
};

use super::{
    consumer::Membership,
    error::{coded, timeout, translated},
    intake::Unparked,
    log_range::known_log_ranges,
    native::{self, ListEntry},
};
use crate::engine::port::{ConsumerControl, EngineError, LogRange, Position, Start};

/// How long a commit waits for the broker's answer. It may still succeed after that. Short, as the client is not polled
/// meanwhile: a coordinator that is down must not keep messages of other brokers, nor news of a move, waiting.
const COMMIT_LIMIT: Duration = Duration::from_secs(3);

/// A consumer as its listener and its owner see it.
pub(super) struct Control<'a> {
    consumer: &'a BaseConsumer<Membership>,
    topic: &'a str,
}

impl<'a> Control<'a> {
    pub(super) fn new(consumer: &'a BaseConsumer<Membership>, topic: &'a str) -> Self {
        Self { consumer, topic }
    }

    /// Has the library throw away what it fetched ahead of partitions that have been closed for long.
    pub(super) fn park(&self) {
        let intake = &self.consumer.context().intake;
        let overdue = intake.park(Instant::now());
        if !overdue.is_empty() {
            self.answered("pause", self.consumer.pause(&self.list(&overdue)));
            intake.discard(&overdue);
        }
    }

    /// Forgets that partitions which are taken away are parked: the library would remember it until they come back.
    pub(super) fn release(&self, partitions: &[i32]) {
        self.unpark(&self.consumer.context().intake.open(partitions));
    }

    fn unpark(&self, parked: &[Unparked]) {
        if parked.is_empty() {
            return;
        }
        // Where the library itself would go on may lie behind an error, and the message in its place be missed.
        for (partition, next) in parked {
            if let Some(next) = next {
                let moved = self.consumer.seek(self.topic, *partition, Offset::Offset(*next), Duration::ZERO);
                self.answered("seek", moved);
            }
        }
        let partitions: Vec<i32> = parked.iter().map(|(partition, _)| *partition).collect();
        self.answered("resume", self.consumer.resume(&self.list(&partitions)));
    }

    fn answered(&self, order: &str, result: KafkaResult<()>) {
        if let Err(error) = result {
            self.consumer
                .context()
                .log
                .note(order, &format!("the client refused to {order} partitions: {error}"));
        }
    }

    fn list(&self, partitions: &[i32]) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            list.add_partition(self.topic, *partition);
        }
        list
    }

    fn positions(&self, positions: &[Position]) -> Result<TopicPartitionList, EngineError> {
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for position in positions {
            let mut entry = list.add_partition(self.topic, position.partition);
            entry.set_offset(Offset::Offset(position.offset)).map_err(|error| translated(&error))?;
            if !position.metadata.is_empty() {
                entry.set_metadata(&position.metadata);
            }
        }
        Ok(list)
    }

    pub(super) fn begin_commit(&self, positions: &[Position]) -> Result<native::Commit, EngineError> {
        native::commit(self.consumer.client(), &self.positions(positions)?).map_err(coded)
    }

    /// How a commit ended, by its answer.
    pub(super) fn ended(&self, answer: Result<Vec<ListEntry>, RDKafkaErrorCode>) -> Result<(), EngineError> {
        let entries = answer.map_err(coded)?;
        match entries.into_iter().find(|entry| entry.error != RDKafkaErrorCode::NoError) {
            Some(entry) => Err(EngineError {
                reason: format!(
                    "commit of {}/{} at {}: {}",
                    self.topic, entry.partition, entry.offset, entry.error
                ),
                ..coded(entry.error)
            }),
            None => Ok(()),
        }
    }
}

impl ConsumerControl for Control<'_> {
    fn pause(&self, partitions: &[i32]) {
        self.consumer.context().intake.close(partitions);
    }

    fn resume(&self, partitions: &[i32]) {
        self.unpark(&self.consumer.context().intake.open(partitions));
    }

    fn seek(&self, partition: i32, start: Start, limit: Duration) -> Result<(), EngineError> {
        self.consumer
            .seek(self.topic, partition, offset_of(start), timeout(limit))
            .map_err(|error| translated(&error))?;
        self.consumer.context().intake.moved(partition, start);
        Ok(())
    }

    fn commit(&self, positions: &[Position]) -> Result<(), EngineError> {
        if positions.is_empty() {
            return Ok(());
        }
        let answer = self.begin_commit(positions)?.answer(COMMIT_LIMIT);
        self.ended(answer.unwrap_or(Err(RDKafkaErrorCode::OperationTimedOut)))
    }

    fn committed(&self, partitions: &[i32], limit: Duration) -> Result<Vec<Position>, EngineError> {
        committed(self.consumer, self.list(partitions), limit)
    }

    fn log_ranges(&self, partitions: &[i32], limit: Duration) -> Result<Vec<(i32, LogRange)>, EngineError> {
        match known_log_ranges(self.consumer.client(), self.topic, partitions, limit)? {
            (found, Some(failure)) if found.is_empty() => Err(failure),
            (found, _) => Ok(found.into_iter().collect()),
        }
    }

    fn offsets_for_times(
        &self,
        partitions: &[i32],
        timestamp_ms: i64,
        limit: Duration,
    ) -> Result<Vec<(i32, Option<i64>)>, EngineError> {
        let mut times = self.list(partitions);
        times.set_all_offsets(Offset::Offset(timestamp_ms)).map_err(|error| translated(&error))?;
        let found =
            self.consumer.offsets_for_times(times, timeout(limit)).map_err(|error| translated(&error))?;
        let entries = native::entries(&found);
        let failed = entries.iter().find(|entry| entry.error != RDKafkaErrorCode::NoError);
        let answered = entries.iter().filter(|entry| entry.error == RDKafkaErrorCode::NoError);
        // Behind the last message the library answers with its number for the end, which is negative.
        let found: Vec<_> = answered
            .map(|entry| (entry.partition, Some(entry.offset).filter(|offset| *offset >= 0)))
            .collect();
        match failed {
            Some(failed) if found.is_empty() => Err(coded(failed.error)),
            _ => Ok(found),
        }
    }
}

/// Where librdkafka is to start.
pub(super) fn offset_of(start: Start) -> Offset {
    match start {
        Start::Earliest => Offset::Beginning,
        Start::Latest => Offset::End,
        Start::At(offset) => Offset::Offset(offset),
    }
}

/// Committed positions of a consumer's group; partitions without one are left out.
pub(super) fn committed<C: rdkafka::consumer::ConsumerContext>(
    consumer: &BaseConsumer<C>,
    list: TopicPartitionList,
    limit: Duration,
) -> Result<Vec<Position>, EngineError> {
    let list = consumer.committed_offsets(list, timeout(limit)).map_err(|error| translated(&error))?;
    let mut positions = Vec::with_capacity(list.count());
    for entry in native::entries(&list) {
        if entry.error != RDKafkaErrorCode::NoError {
            return Err(coded(entry.error));
        }
        if entry.offset >= 0 {
            positions.push(Position {
                partition: entry.partition,
                offset: entry.offset,
                metadata: entry.metadata,
            });
        }
    }
    Ok(positions)
}
