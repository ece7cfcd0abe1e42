//! Messages of librdkafka as records of the port.

use bytes::Bytes;
use rdkafka::message::{BorrowedMessage, Message as _};

use super::native;
use crate::engine::port::Record;

/// Copies a message out of librdkafka's memory, so that the message can be released at once: a consumer cannot close
/// while any of its messages lives.
pub(super) fn copied(message: &BorrowedMessage<'_>) -> Record {
    Record {
        partition: message.partition(),
        offset: message.offset(),
        payload: message.payload().map(Bytes::copy_from_slice),
        key: message.key().map(Bytes::copy_from_slice),
        headers: native::headers(message),
        timestamp_ms: message.timestamp().to_millis(),
    }
}
