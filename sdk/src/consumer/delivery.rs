//! A message as a handler sees it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use zms_core::name::{ClusterName, GroupName, TopicName};

use crate::{engine::port::Records, headers::Headers};

/// A message given to a handler. Clones are cheap and share it.
///
/// A clone kept after the handler has returned keeps the message in memory, outside the subscription's buffer limits, and
/// up to 64 KiB of neighbouring messages with it. Copy out what is to be kept for long: [`payload_bytes`] and
/// [`key_bytes`] do.
///
/// [`payload_bytes`]: Self::payload_bytes
/// [`key_bytes`]: Self::key_bytes
#[derive(Clone)]
pub struct Delivery {
    parcel: Parcel,
    index: usize,
    attempt: u32,
}

/// Messages of one partition that follow one another, in one piece of memory. Clones share it.
#[derive(Clone)]
pub(super) struct Parcel(Arc<Contents>);

struct Contents {
    origin: Arc<Origin>,
    records: Records,
}

/// Where deliveries of one membership come from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) group: GroupName,
    pub(super) cluster: ClusterName,
    pub(super) topic: TopicName,
}

impl Parcel {
    pub(super) fn new(origin: Arc<Origin>, records: Records) -> Self {
        Self(Arc::new(Contents { origin, records }))
    }

    pub(super) fn len(&self) -> usize {
        self.0.records.len()
    }

    pub(super) fn offset(&self, index: usize) -> i64 {
        self.0.records.offset(index)
    }

    pub(super) fn key(&self, index: usize) -> Option<&[u8]> {
        self.0.records.key(index)
    }

    /// One of its messages as its handler sees it.
    pub(super) fn delivery(&self, index: usize, attempt: u32) -> Delivery {
        Delivery { parcel: self.clone(), index, attempt }
    }
}

impl Delivery {
    fn records(&self) -> &Records {
        &self.parcel.0.records
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
        self.records().partition()
    }

    /// Its offset.
    pub fn offset(&self) -> i64 {
        self.records().offset(self.index)
    }

    /// Its key.
    pub fn key(&self) -> Option<&[u8]> {
        self.records().key(self.index)
    }

    /// Its key, to keep: a copy that holds nothing else of the message in memory.
    pub fn key_bytes(&self) -> Option<Bytes> {
        self.records().key_bytes(self.index)
    }

    /// Its payload; `None` is a tombstone.
    pub fn payload(&self) -> Option<&[u8]> {
        self.records().payload(self.index)
    }

    /// Its payload, to keep: a copy, or for a large one a share of the memory it lies in, with little else in it.
    pub fn payload_bytes(&self) -> Option<Bytes> {
        self.records().payload_bytes(self.index)
    }

    /// Its headers, in order.
    pub fn headers(&self) -> Headers<'_> {
        self.records().get(self.index).headers
    }

    /// The value of the last header of this name; `None` also when that header has no value.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers().last(name)?.value
    }

    /// Its timestamp in milliseconds since the Unix epoch, where the broker has one.
    pub fn timestamp_ms(&self) -> Option<i64> {
        self.records().get(self.index).timestamp_ms
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
