//! Questions and orders to a consumer on its own thread.

use std::time::Duration;

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::RDKafkaErrorCode,
};

use super::{
    consumer::Membership,
    error::{coded, timeout, translated},
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
        self.consumer.context().intake.set_open(partitions, false);
    }

    fn resume(&self, partitions: &[i32]) {
        self.consumer.context().intake.set_open(partitions, true);
    }

    fn seek(&self, partition: i32, start: Start, limit: Duration) -> Result<(), EngineError> {
        self.consumer
            .seek(self.topic, partition, offset_of(start), timeout(limit))
            .map_err(|error| translated(&error))
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
