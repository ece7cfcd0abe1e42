//! Where logs begin and end.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rdkafka::{
    TopicPartitionList,
    client::{Client, ClientContext},
    error::RDKafkaErrorCode,
};

use super::{
    error::{coded, deadline, failure},
    native::{self, End},
};
use crate::engine::port::{EngineError, FailureKind, LogRange};

/// The logs of these partitions, in this order: two requests to each of their leaders.
pub(super) fn log_ranges<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partitions: &[i32],
    limit: Duration,
) -> Result<Vec<LogRange>, EngineError> {
    let deadline = deadline(limit);
    let ask = |end| ends(client, topic, partitions, (end, deadline));
    let (low, high) = (ask(End::Low)?, ask(End::High)?);
    partitions
        .iter()
        .map(|partition| match (low.get(partition), high.get(partition)) {
            (Some(low), Some(high)) => Ok(LogRange { low: *low, high: *high }),
            _ => Err(failure(FailureKind::Other, format!("no answer for {topic}/{partition}"))),
        })
        .collect()
}

fn ends<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partitions: &[i32],
    (end, deadline): (End, Instant),
) -> Result<BTreeMap<i32, i64>, EngineError> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition(topic, *partition);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let entries = native::log_ends(client, list, end, left).map_err(|code| named(topic, None, code))?;
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
