//! Messages as services see them: what is sent, and what the cluster answered.

use bytes::Bytes;
use zms_core::name::{ClusterName, TopicName};

/// A message to send. Key, headers, timestamp, partition and an absent payload reach the broker unchanged; an absent
/// payload (a tombstone) and an empty one differ.
///
/// ```
/// use zms_sdk::Message;
/// let message = Message::new("paid").key("order-42").header("trace", "7f");
/// assert_eq!(message.payload().unwrap(), "paid".as_bytes());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    pub(crate) payload: Option<Bytes>,
    pub(crate) key: Option<Bytes>,
    pub(crate) headers: Vec<Header>,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) partition: Option<i32>,
}

/// One header: a name, and a value that may be absent. Names may repeat; order is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The header's name.
    pub name: String,
    /// Its value; absent and empty differ.
    pub value: Option<Bytes>,
}

/// The name of the header that holds a message's tag.
pub(crate) const TAG_HEADER: &str = "TAGS";

impl Message {
    /// The name of the header that holds a message's tag, as `RocketMQ` names it.
    pub const TAG_HEADER: &'static str = TAG_HEADER;

    /// A message with a payload.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: Some(payload.into()), ..Self::default() }
    }

    /// A message without a payload: on a compacted topic it deletes its key.
    pub fn tombstone(key: impl Into<Bytes>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// Sets the payload: turns a tombstone into a message, or replaces what was there.
    #[must_use]
    pub fn with_payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Sets the key. Messages of one key go to one partition and keep their order.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the tag, by which subscriptions may choose ([`Subscriber::tags`](crate::Subscriber::tags)): the header
    /// [`TAG_HEADER`](Self::TAG_HEADER). Of several the last one counts.
    #[must_use]
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.header(TAG_HEADER, tag.into())
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.headers.push(Header { name: name.into(), value: Some(value.into()) });
        self
    }

    /// Adds a header without a value.
    #[must_use]
    pub fn null_header(mut self, name: impl Into<String>) -> Self {
        self.headers.push(Header { name: name.into(), value: None });
        self
    }

    /// Sets the timestamp, in milliseconds since the Unix epoch. Default: the time of the hand-over to the client.
    #[must_use]
    pub fn timestamp_ms(mut self, timestamp: i64) -> Self {
        self.timestamp_ms = Some(timestamp);
        self
    }

    /// Sends to this partition in place of the one that the key selects.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The payload; `None` is a tombstone.
    pub fn payload(&self) -> Option<&Bytes> {
        self.payload.as_ref()
    }

    /// The key.
    pub fn key_bytes(&self) -> Option<&Bytes> {
        self.key.as_ref()
    }

    /// The headers, in order.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// Bytes that count against the send buffer: key, payload and headers.
    pub fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len)).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.payload.as_ref().map_or(0, Bytes::len) + headers
    }
}

/// Where an acknowledged message lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The cluster that acknowledged it.
    pub cluster: ClusterName,
    /// Its topic.
    pub topic: TopicName,
    /// Its partition.
    pub partition: i32,
    /// Its offset; `None` where the broker does not tell (acks=0, or a duplicate that idempotence removed).
    pub offset: Option<i64>,
    /// Its timestamp in milliseconds since the Unix epoch, where known.
    pub timestamp_ms: Option<i64>,
}
