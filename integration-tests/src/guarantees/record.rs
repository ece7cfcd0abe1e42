//! A numbered message at its place.

use std::fmt;

use zms_core::sequence::{Position, Stream, read_stamp};

/// A numbered message: who sent it, and where it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its sender and key.
    pub stream: Stream,
    /// Its number within the stream.
    pub number: u64,
    /// Its cluster, partition and offset.
    pub at: Position,
}

impl Record {
    /// Reads a delivered message whose payload is a [`stamp`](zms_core::sequence::stamp); `None` for any other.
    pub fn read(payload: &[u8], key: Option<&[u8]>, at: Position) -> Option<Self> {
        let (producer, number) = read_stamp(payload)?;
        let key = String::from_utf8_lossy(key.unwrap_or_default()).into_owned();
        Some(Self { stream: Stream { producer: producer.to_owned(), key }, number, at })
    }

    /// The offset as the number it is; `None` for the negative ones that stand for "unknown".
    pub(super) fn offset(&self) -> Option<u64> {
        u64::try_from(self.at.offset).ok()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Stream { producer, key }, Position { cluster, partition, offset }) = (&self.stream, &self.at);
        write!(
            f,
            "message {} of key `{key}` from `{producer}` at {cluster}/{partition}@{offset}",
            self.number
        )
    }
}
