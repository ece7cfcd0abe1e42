//! What becomes of messages that are given up: a letter to a topic that people look at.

use bytes::Bytes;
use zms_core::name::TopicName;

use super::Delivery;
use crate::message::{Header, Message};

/// Sends dead letters. Subscriptions of a [`Zms`](crate::Zms) handle send them through the handle itself;
/// [`Subscriber::dead_letters`](super::Subscriber::dead_letters) puts another sender in its place, in tests for instance.
pub trait DeadLetters: Send + Sync {
    /// Sends a letter and calls back with the result, exactly once, on any thread, possibly before it returns. Must not
    /// block. `Ok` means that the letter is as safe as a message can be: its original is given up for good then.
    fn bury(&self, letter: Letter, done: Buried);
}

/// Learns how the sending of a letter ended. Dropped uncalled, it takes that for a failure. Must not be kept for ever: the
/// message waits for it.
pub type Buried = Box<dyn FnOnce(Result<(), BuryError>) + Send>;

/// A message that is given up, on its way to a dead-letter topic.
#[derive(Debug)]
#[non_exhaustive]
pub struct Letter {
    /// The topic to send it to.
    pub topic: TopicName,
    /// Key, payload and headers of the original, and headers that tell what happened.
    pub message: Message,
}

/// Why a letter was not sent, or not known to be. It is sent again, which may duplicate it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BuryError {
    reason: String,
}

impl BuryError {
    /// With the reason in words, and what to do about it: they are what the subscription shows and logs.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// What the names of a letter's own headers begin with. `docs/compatibility.md` lists them.
const PREFIX: &str = "__zms.dlq.";
/// Bytes of the error kept in a letter.
const ERROR_LIMIT: usize = 1024;

impl Letter {
    /// The letter about a delivery. Its own headers of an earlier burial are replaced, so that a message that is replayed and
    /// fails again does not grow; all others are kept in order.
    ///
    /// The partition is left to the key. The timestamp is that of the sending: with the original one a topic with limited
    /// retention would drop the letter about an old message at once.
    pub(super) fn new(topic: TopicName, delivery: &Delivery, error: &str) -> Self {
        let (mut headers, times) = foreign_headers(delivery);
        headers.extend(own_headers(delivery, error, times.saturating_add(1)));
        let (payload, key) = (delivery.payload_bytes(), delivery.key_bytes());
        Self { topic, message: Message { payload, key, headers, ..Message::default() } }
    }
}

/// The headers that are not a letter's, and how often the message was buried before.
fn foreign_headers(delivery: &Delivery) -> (Vec<Header>, u64) {
    let (mut kept, mut times) = (Vec::new(), 0);
    for header in delivery.headers() {
        match header.name.strip_prefix(PREFIX) {
            Some("times") => times = header.value.map_or(0, number),
            Some(_) => {}
            None => kept.push(header.into()),
        }
    }
    (kept, times)
}

fn own_headers(delivery: &Delivery, error: &str, times: u64) -> impl Iterator<Item = Header> {
    let timestamp = delivery.timestamp_ms().map(|ms| ms.to_string());
    let told = [
        ("cluster", Some(delivery.cluster().to_string())),
        ("topic", Some(delivery.topic().to_string())),
        ("partition", Some(delivery.partition().to_string())),
        ("offset", Some(delivery.offset().to_string())),
        ("timestamp", timestamp),
        ("group", Some(delivery.group().to_string())),
        ("attempts", Some(delivery.attempt().to_string())),
        ("error", Some(bounded(error).to_owned())),
        ("times", Some(times.to_string())),
    ];
    told.into_iter().filter_map(|(name, value)| {
        Some(Header { name: format!("{PREFIX}{name}"), value: Some(Bytes::from(value?)) })
    })
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn bounded(text: &str) -> &str {
    let end = (0..=ERROR_LIMIT.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zms_core::{
        flow::Load,
        name::{ClusterName, GroupName},
    };

    use super::*;
    use crate::{
        consumer::delivery::{Origin, Parcel},
        engine::port::RecordsBuilder,
    };

    fn delivery(message: &Message) -> Delivery {
        let origin = Origin {
            group: GroupName::new("billing").unwrap(),
            cluster: ClusterName::new("a").unwrap(),
            topic: TopicName::new("orders").unwrap(),
        };
        let mut records = RecordsBuilder::with_capacity(3, Load::default());
        records.push(42, message.timestamp_ms, message.key.as_deref(), message.payload.as_deref());
        for header in &message.headers {
            records.header(&header.name, header.value.as_deref());
        }
        Parcel::new(Arc::new(origin), records.build()).delivery(0, 5)
    }

    fn letter(message: &Message, error: &str) -> Message {
        Letter::new(TopicName::new("dlq.billing").unwrap(), &delivery(message), error).message
    }

    fn own(message: &Message, name: &str) -> Option<String> {
        let name = format!("{PREFIX}{name}");
        let mut found = message.headers.iter().filter(|header| header.name == name);
        let value = found.next()?.value.clone().map(|value| String::from_utf8(value.to_vec()).unwrap());
        assert!(found.next().is_none(), "{name} twice");
        value
    }

    #[test]
    fn the_original_is_kept_and_told_where_it_was() {
        let original = Message::new("paid").key("o-1").header("b", "1").null_header("a").header("b", "2");
        let buried = letter(&original.clone().timestamp_ms(77), "no such customer");
        assert_eq!((&buried.key, &buried.payload), (&original.key, &original.payload));
        assert_eq!(buried.headers[..3], original.headers[..]);
        assert_eq!((buried.partition, buried.timestamp_ms), (None, None));
        let told =
            ["cluster", "topic", "partition", "offset", "timestamp", "group", "attempts", "error", "times"]
                .map(|name| own(&buried, name).unwrap());
        assert_eq!(told, ["a", "orders", "3", "42", "77", "billing", "5", "no such customer", "1"]);
    }

    #[test]
    fn absent_stays_absent_and_empty_stays_empty() {
        let absent = letter(&Message::default(), "no");
        assert_eq!((&absent.key, &absent.payload, own(&absent, "timestamp")), (&None, &None, None));
        let empty = letter(&Message::new("").key(""), "no");
        assert_eq!((empty.key, empty.payload), (Some(Bytes::new()), Some(Bytes::new())));
    }

    #[test]
    fn a_message_replayed_and_buried_again_does_not_grow() {
        let mut message = Message::new("paid").header("mine", "kept");
        for times in 1..=9 {
            message = letter(&message, &format!("error {times}"));
            assert_eq!(own(&message, "times"), Some(times.to_string()));
            assert_eq!(own(&message, "error"), Some(format!("error {times}")));
        }
        assert_eq!(message.headers[0].name, "mine");
        let forged = letter(&Message::new("paid").header("__zms.dlq.times", [0xff, 0x00].as_slice()), "no");
        assert_eq!(own(&forged, "times").as_deref(), Some("1"));
    }

    #[test]
    fn long_errors_are_cut_between_characters() {
        let cut = own(&letter(&Message::new("paid"), &"€".repeat(5000)), "error").unwrap();
        assert_eq!(cut, "€".repeat(ERROR_LIMIT / 3));
    }
}
