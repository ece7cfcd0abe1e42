//! Messages of librdkafka as records of the port.

use zms_core::flow::Load;

use super::native::MessageRef;
use crate::engine::port::{Records, RecordsBuilder};

/// Copies the next of `messages`, all of one partition, out of librdkafka's memory, so that they can be released at
/// once: a consumer cannot close while any of its messages lives.
pub(super) fn next_records<'a>(
    messages: &mut (impl Iterator<Item = MessageRef<'a>> + Clone),
) -> Option<Records> {
    let room = room_for(messages.clone());
    let mut copied = RecordsBuilder::with_capacity(messages.clone().next()?.partition(), room);
    for message in messages.take(room.messages) {
        copied.push(message.offset(), message.timestamp_ms(), message.key(), message.payload());
        message.each_header(|name, value| copied.header(name, value));
        // Headers were not counted before.
        if !RecordsBuilder::fits(copied.load(), 0) {
            break;
        }
    }
    Some(copied.build())
}

/// How many of `messages` may lie together, and how many bytes they have. Headers are apart.
fn room_for<'a>(messages: impl Iterator<Item = MessageRef<'a>>) -> Load {
    let mut room = Load::default();
    for message in messages {
        let size = message.payload().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len);
        if !RecordsBuilder::fits(room, size) {
            break;
        }
        room = Load { messages: room.messages + 1, bytes: room.bytes + size };
    }
    room
}
