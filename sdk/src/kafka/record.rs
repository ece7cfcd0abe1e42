//! Messages of librdkafka as records of the port.

use bytes::{Bytes, BytesMut};

use super::native::MessageRef;
use crate::engine::port::Record;

/// Messages whose bytes share one allocation. A record that is kept keeps its neighbours' bytes in memory, so both
/// numbers are small; what they save is one allocation for each message.
const NEIGHBOURS: usize = 64;
const NEIGHBOURHOOD: usize = 32 << 10;

/// Copies messages out of librdkafka's memory, so that they can be released at once: a consumer cannot close while any
/// of its messages lives.
#[derive(Default)]
pub(super) struct Copier {
    arena: BytesMut,
    /// Messages for which `arena` was made and which are not copied yet.
    neighbours: usize,
}

impl Copier {
    /// Copies the next of `messages`, which are looked at ahead.
    pub(super) fn next<'a>(
        &mut self,
        messages: &mut (impl Iterator<Item = MessageRef<'a>> + Clone),
    ) -> Option<Record> {
        if self.neighbours == 0 {
            self.settle(messages.clone());
        }
        let message = messages.next()?;
        self.neighbours = self.neighbours.saturating_sub(1);
        Some(self.copied(message))
    }

    pub(super) fn copied(&mut self, message: MessageRef<'_>) -> Record {
        Record {
            partition: message.partition(),
            offset: message.offset(),
            payload: message.payload().map(|bytes| self.bytes(bytes)),
            key: message.key().map(|bytes| self.bytes(bytes)),
            headers: message.headers(),
            timestamp_ms: message.timestamp_ms(),
        }
    }

    /// Makes room for the first few messages.
    fn settle<'a>(&mut self, messages: impl Iterator<Item = MessageRef<'a>>) {
        let mut room = 0;
        self.neighbours = 0;
        for message in messages.take(NEIGHBOURS) {
            room += message.payload().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len);
            self.neighbours += 1;
            if room >= NEIGHBOURHOOD {
                break;
            }
        }
        self.arena = BytesMut::with_capacity(room);
    }

    fn bytes(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        self.arena.extend_from_slice(bytes);
        self.arena.split().freeze()
    }
}
