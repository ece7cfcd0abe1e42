//! A message as a handler sees it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use zms_core::name::{ClusterName, GroupName, TopicName};

use crate::{engine::port::Record, message::Header};

/// A message given to a handler. Clones are cheap and share it.
///
/// A clone kept after the handler has returned keeps the payload in memory, outside the subscription's buffer limits.
#[derive(Clone)]
pub struct Delivery {
    shared: Arc<Shared>,
    attempt: u32,
}

struct Shared {
    origin: Arc<Origin>,
    record: Record,
}

/// Where deliveries of one membership come from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) group: GroupName,
    pub(super) cluster: ClusterName,
    pub(super) topic: TopicName,
}

impl Delivery {
    pub(super) fn new(origin: Arc<Origin>, record: Record) -> Self {
        Self { shared: Arc::new(Shared { origin, record }), attempt: 1 }
    }

    pub(super) fn at_attempt(&self, attempt: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), attempt }
    }

    /// The consumer group.
    pub fn group(&self) -> &GroupName {
        &self.shared.origin.group
    }

    /// The cluster that it lies on.
    pub fn cluster(&self) -> &ClusterName {
        &self.shared.origin.cluster
    }

    /// Its topic.
    pub fn topic(&self) -> &TopicName {
        &self.shared.origin.topic
    }

    /// Its partition.
    pub fn partition(&self) -> i32 {
        self.shared.record.partition
    }

    /// Its offset.
    pub fn offset(&self) -> i64 {
        self.shared.record.offset
    }

    /// Its key.
    pub fn key(&self) -> Option<&Bytes> {
        self.shared.record.key.as_ref()
    }

    /// Its payload; `None` is a tombstone.
    pub fn payload(&self) -> Option<&Bytes> {
        self.shared.record.payload.as_ref()
    }

    /// Its headers, in order.
    pub fn headers(&self) -> &[Header] {
        &self.shared.record.headers
    }

    /// The value of the last header of this name; `None` also when that header has no value.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers().iter().rev().find(|header| header.name == name)?.value.as_ref()
    }

    /// Its timestamp in milliseconds since the Unix epoch, where the broker has one.
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.shared.record.timestamp_ms
    }

    /// Which attempt this is in this assignment, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl fmt::Debug for Delivery {
    /// Key, payload and header values are left out: they are the service's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("group", self.group())
            .field("cluster", self.cluster())
            .field("topic", self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset())
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Bytes of a record that count against the buffer limits.
pub(super) fn size_of(record: &Record) -> usize {
    let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers: usize = record.headers.iter().map(|h| h.name.len() + length(&h.value)).sum();
    length(&record.key) + length(&record.payload) + headers
}
