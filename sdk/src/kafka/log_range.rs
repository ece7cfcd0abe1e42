//! Where logs begin and end.

use std::{collections::BTreeMap, time::Duration};

use rdkafka::{
    TopicPartitionList,
    client::{Client, ClientContext},
    error::RDKafkaErrorCode,
};

use super::{
    error::{coded, failure},
    native::{self, End, LogEnds},
};
use crate::engine::port::{EngineError, FailureKind, LogRange};

/// The logs of these partitions, in this order.
pub(super) fn log_ranges<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partitions: &[i32],
    limit: Duration,
) -> Result<Vec<LogRange>, EngineError> {
    let (mut found, failure) = known_log_ranges(client, topic, partitions, limit)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let missing =
        |partition: &i32| self::failure(FailureKind::Other, format!("no answer for {topic}/{partition}"));
    partitions.iter().map(|partition| found.remove(partition).ok_or_else(|| missing(partition))).collect()
}

/// The logs of those of these partitions that answer, and why another does not: two requests to each of their
/// leaders, at the same time.
pub(super) fn known_log_ranges<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partitions: &[i32],
    limit: Duration,
) -> Result<(BTreeMap<i32, LogRange>, Option<EngineError>), EngineError> {
    let ask = |end| {
        let list = list_of(topic, partitions);
        native::ask_log_ends(client, list, end, limit).map_err(|code| named(topic, None, code))
    };
    let (low, high) = (ask(End::Low)?, ask(End::High)?);
    let (mut failure, mut ranges) = (None, BTreeMap::new());
    let low = ends(topic, low, &mut failure)?;
    for (partition, high) in ends(topic, high, &mut failure)? {
        if let Some(low) = low.get(&partition) {
            ranges.insert(partition, LogRange { low: *low, high });
        }
    }
    Ok((ranges, failure))
}

fn list_of(topic: &str, partitions: &[i32]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition(topic, *partition);
    }
    list
}

fn ends(
    topic: &str,
    asked: LogEnds,
    failure: &mut Option<EngineError>,
) -> Result<BTreeMap<i32, i64>, EngineError> {
    let mut found = BTreeMap::new();
    for entry in asked.answer().map_err(|code| named(topic, None, code))? {
        match entry.error {
            RDKafkaErrorCode::NoError => {
                found.insert(entry.partition, entry.offset);
            }
            code => *failure = Some(named(topic, Some(entry.partition), code)),
        }
    }
    Ok(found)
}

fn named(topic: &str, partition: Option<i32>, code: RDKafkaErrorCode) -> EngineError {
    let place = partition.map_or_else(|| topic.to_owned(), |partition| format!("{topic}/{partition}"));
    EngineError { reason: format!("ends of the log of {place}: {code}"), ..coded(code) }
}
