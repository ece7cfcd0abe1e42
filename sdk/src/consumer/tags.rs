//! Which messages a subscription wants, by tag.

use std::collections::BTreeSet;

use crate::{engine::port::Record, message::TAG_HEADER};

/// The tags wanted; never none.
#[derive(Debug, Clone)]
pub(super) struct Tags(BTreeSet<Box<[u8]>>);

impl Tags {
    /// `None` when all messages are wanted.
    pub(super) fn new(tags: impl IntoIterator<Item = impl Into<String>>) -> Option<Self> {
        let tags: BTreeSet<_> =
            tags.into_iter().map(|tag| tag.into().into_bytes().into_boxed_slice()).collect();
        (!tags.is_empty()).then_some(Self(tags))
    }

    /// Whether this message is wanted. A message without a tag is not.
    pub(super) fn admit(&self, record: &Record) -> bool {
        let tag = record.headers.iter().rev().find(|header| header.name == TAG_HEADER);
        tag.and_then(|tag| tag.value.as_deref()).is_some_and(|tag| self.0.contains(tag))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::Header;

    fn record(tags: &[Option<&'static str>]) -> Record {
        let header = |tag: &Option<&'static str>| Header {
            name: TAG_HEADER.to_owned(),
            value: tag.map(|tag| Bytes::from_static(tag.as_bytes())),
        };
        let headers = tags.iter().map(header).collect();
        Record { partition: 0, offset: 0, payload: None, key: None, headers, timestamp_ms: None }
    }

    #[test]
    fn the_last_tag_of_a_message_decides() {
        let tags = Tags::new(["paid", "sent"]).unwrap();
        assert!(tags.admit(&record(&[Some("paid")])));
        assert!(tags.admit(&record(&[Some("lost"), Some("sent")])));
        for unwanted in [&[][..], &[None], &[Some("")], &[Some("paid"), Some("lost")], &[Some("PAID")]] {
            assert!(!tags.admit(&record(unwanted)), "{unwanted:?}");
        }
    }

    #[test]
    fn no_tags_mean_all_messages() {
        assert!(Tags::new(Vec::<String>::new()).is_none());
    }
}
