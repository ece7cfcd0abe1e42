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

/// The logs of these partitions, in this order: two requests to each of their leaders, at the same time.
pub(super) fn log_ranges<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partitions: &[i32],
    limit: Duration,
) -> Result<Vec<LogRange>, EngineError> {
    let ask = |end| {
        let list = list_of(topic, partitions);
        native::ask_log_ends(client, list, end, limit).map_err(|code| named(topic, None, code))
    };
    let (low, high) = (ask(End::Low)?, ask(End::High)?);
    let (low, high) = (ends(topic, low)?, ends(topic, high)?);
    partitions
        .iter()
        .map(|partition| match (low.get(partition), high.get(partition)) {
            (Some(low), Some(high)) => Ok(LogRange { low: *low, high: *high }),
            _ => Err(failure(FailureKind::Other, format!("no answer for {topic}/{partition}"))),
        })
        .collect()
}

fn list_of(topic: &str, partitions: &[i32]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition(topic, *partition);
    }
    list
}

fn ends(topic: &str, asked: LogEnds) -> Result<BTreeMap<i32, i64>, EngineError> {
    let entries = asked.answer().map_err(|code| named(topic, None, code))?;
    entries
        .into_iter()
        .map(|entry| match entry.error {
            RDKafkaErrorCode::NoError => Ok((entry.partition, entry.offset)),
            code => Err(named(topic, Some(entry.partition), code)),
        })
        .collect()
}

fn named(topic: &str, partition: Option<i32>, code: RDKafkaErrorCode) -> EngineError {
    let place = partition.map_or_else(|| topic.to_owned(), |partition| format!("{topic}/{partition}"));
    EngineError { reason: format!("ends of the log of {place}: {code}"), ..coded(code) }
}
