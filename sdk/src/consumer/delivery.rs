//! A message as a handler sees it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use zms_core::{
    flow::Load,
    name::{ClusterName, GroupName, TopicName},
};

use crate::{engine::port::Record, message::Header};

/// A message given to a handler. Clones are cheap and share it.
///
/// A clone kept after the handler has returned keeps the message in memory, outside the subscription's buffer limits, and
/// some 100 KiB of neighbouring messages with it at most. Copy out what is to be kept for long.
#[derive(Clone)]
pub struct Delivery {
    parcel: Parcel,
    index: usize,
    attempt: u32,
}

/// Messages of one partition that follow one another, in one allocation. Clones share it.
#[derive(Clone)]
pub(super) struct Parcel(Arc<Contents>);

struct Contents {
    origin: Arc<Origin>,
    records: Vec<Record>,
}

/// Where deliveries of one membership come from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) group: GroupName,
    pub(super) cluster: ClusterName,
    pub(super) topic: TopicName,
}

impl Parcel {
    /// A parcel stays in memory until its last message is handled, so that its size is limited. It is full at either
    /// limit; the message that reaches the second one is in it, whatever its size.
    pub(super) const FULL: Load = Load { messages: 64, bytes: 64 << 10 };

    pub(super) fn new(origin: Arc<Origin>, records: Vec<Record>) -> Self {
        Self(Arc::new(Contents { origin, records }))
    }

    pub(super) fn len(&self) -> usize {
        self.0.records.len()
    }

    pub(super) fn offset(&self, index: usize) -> i64 {
        self.0.records[index].offset
    }

    pub(super) fn key(&self, index: usize) -> Option<&[u8]> {
        self.0.records[index].key.as_deref()
    }

    /// One of its messages as its handler sees it.
    pub(super) fn delivery(&self, index: usize, attempt: u32) -> Delivery {
        Delivery { parcel: self.clone(), index, attempt }
    }
}

impl Delivery {
    fn record(&self) -> &Record {
        &self.parcel.0.records[self.index]
    }

    fn origin(&self) -> &Origin {
        &self.parcel.0.origin
    }

    /// The consumer group.
    pub fn group(&self) -> &GroupName {
        &self.origin().group
    }

    /// The cluster that it lies on.
    pub fn cluster(&self) -> &ClusterName {
        &self.origin().cluster
    }

    /// Its topic.
    pub fn topic(&self) -> &TopicName {
        &self.origin().topic
    }

    /// Its partition.
    pub fn partition(&self) -> i32 {
        self.record().partition
    }

    /// Its offset.
    pub fn offset(&self) -> i64 {
        self.record().offset
    }

    /// Its key.
    pub fn key(&self) -> Option<&Bytes> {
        self.record().key.as_ref()
    }

    /// Its payload; `None` is a tombstone.
    pub fn payload(&self) -> Option<&Bytes> {
        self.record().payload.as_ref()
    }

    /// Its headers, in order.
    pub fn headers(&self) -> &[Header] {
        &self.record().headers
    }

    /// The value of the last header of this name; `None` also when that header has no value.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers().iter().rev().find(|header| header.name == name)?.value.as_ref()
    }

    /// Its timestamp in milliseconds since the Unix epoch, where the broker has one.
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.record().timestamp_ms
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
