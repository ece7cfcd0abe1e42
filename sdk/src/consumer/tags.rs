//! Which messages a subscription wants, by tag.

use std::collections::BTreeSet;

use crate::{headers::Headers, message::TAG_HEADER};

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

    /// Whether a message with these headers is wanted. A message without a tag is not.
    pub(super) fn admit(&self, headers: Headers<'_>) -> bool {
        let tag = headers.last(TAG_HEADER).and_then(|header| header.value);
        tag.is_some_and(|tag| self.0.contains(tag))
    }
}

#[cfg(test)]
mod tests {
    use zms_core::flow::Load;

    use super::*;
    use crate::engine::port::{Records, RecordsBuilder};

    fn tagged(tags: &[Option<&str>]) -> Records {
        let mut records = RecordsBuilder::with_capacity(0, Load::default());
        records.push(0, None, None, None);
        for tag in tags {
            records.header(TAG_HEADER, tag.map(str::as_bytes));
        }
        records.build()
    }

    #[test]
    fn the_last_tag_of_a_message_decides() {
        let tags = Tags::new(["paid", "sent"]).unwrap();
        assert!(tags.admit(tagged(&[Some("paid")]).get(0).headers));
        assert!(tags.admit(tagged(&[Some("lost"), Some("sent")]).get(0).headers));
        for unwanted in [&[][..], &[None], &[Some("")], &[Some("paid"), Some("lost")], &[Some("PAID")]] {
            assert!(!tags.admit(tagged(unwanted).get(0).headers), "{unwanted:?}");
        }
    }

    #[test]
    fn no_tags_mean_all_messages() {
        assert!(Tags::new(Vec::<String>::new()).is_none());
    }
}
