//! Memory of the pool, for payloads that are made by writing them: blocks that the small payloads of one topic share.
//!
//! A block belongs to one topic, so that a message that is stuck keeps no other topic's memory. It is counted as a
//! whole, with what its messages cost beside their payloads, and returns when its last message is over, also if it
//! is not full. Its memory is then kept for the next, as long as the pool has room for it. A payload that fits no
//! block gets memory of its own size.
//!
//! Payloads that services hand over as `Bytes` are not copied into blocks: they are only counted.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, TryLockError, Weak},
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::Instant;

use super::room::{Account, NoRoom, Room};

/// The open blocks of one topic.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: Mutex<Vec<Weak<Block>>>,
}

/// A block in use. Messages keep it; the last one returns it.
#[derive(Debug)]
pub(super) struct Block {
    /// `None` only while it is being dropped.
    room: Option<Room>,
    rest: Mutex<Rest>,
}

#[derive(Debug)]
struct Rest {
    memory: BytesMut,
    /// Bytes that no message has; the memory has as many or more.
    left: usize,
}

/// A payload written into the pool, and what keeps its memory counted. Drop the payload first.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) payload: Bytes,
    pub(super) room: Room,
}

/// Why a payload was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// There was no room for its bytes.
    NoRoom { no_room: NoRoom, bytes: usize },
    /// The serializer's error.
    Failed(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// A block with less of itself left is not written to any more: an eighth.
const WORTH_TRYING: usize = 8;
/// A serializer that makes more at each try is given up.
const TRIES: usize = 3;

type Fill<'a> = dyn FnMut(&mut dyn io::Write) -> io::Result<()> + 'a;

impl Blocks {
    /// Writes a payload by `fill`, which has to write the same each time: where the memory at hand did not suffice, it
    /// is asked once more with enough. `beside` is what the message costs beside its payload.
    ///
    /// Dropping the future gives everything back.
    pub(super) async fn write(
        &self,
        account: &Account,
        beside: usize,
        deadline: Instant,
        mut fill: impl FnMut(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<Written, WriteError> {
        let size = account.pool().block_size();
        let mut length = 0;
        if let Some(block) = self.open_block(beside + size / WORTH_TRYING) {
            match block.write(beside, &mut fill)? {
                Ok(payload) => return Ok(Written { payload, room: Room::part_of(block) }),
                Err(needed) => length = needed,
            }
        }
        for _ in 0..TRIES {
            let bytes = length.saturating_add(beside).max(size);
            let room = account.take(bytes, deadline).await;
            let room = room.map_err(|no_room| WriteError::NoRoom { no_room, bytes })?;
            let (written, room) = if bytes == size {
                let block = self.new_block(account, room);
                (block.write(beside, &mut fill)?, Room::part_of(block))
            } else {
                let mut own = Rest { memory: BytesMut::with_capacity(length), left: bytes };
                (own.write(beside, &mut fill)?, room)
            };
            match written {
                Ok(payload) => return Ok(Written { payload, room }),
                Err(needed) => length = needed,
            }
        }
        Err(io::Error::other("it writes more at each try").into())
    }

    /// An open block with so much left that nobody writes to now.
    fn open_block(&self, least: usize) -> Option<Arc<Block>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|block| block.strong_count() > 0);
        open.iter().filter_map(Weak::upgrade).find(|block| match block.rest.try_lock() {
            Ok(rest) => rest.left >= least,
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => false,
        })
    }

    fn new_block(&self, account: &Account, room: Room) -> Arc<Block> {
        let size = account.pool().block_size();
        let memory = account.pool().reuse_block().unwrap_or_else(|| BytesMut::with_capacity(size));
        let rest = Mutex::new(Rest { memory, left: size });
        let block = Arc::new(Block { room: Some(room), rest });
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&block));
        block
    }
}

impl Block {
    fn write(&self, beside: usize, fill: &mut Fill<'_>) -> io::Result<Result<Bytes, usize>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner).write(beside, fill)
    }
}

impl Drop for Block {
    /// Its memory can be used again when no payload in it lives, as one does that was given back to its owner in an
    /// error: then the memory goes with that.
    fn drop(&mut self) {
        let Some(room) = self.room.take() else { return };
        let rest = self.rest.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut memory = std::mem::take(&mut rest.memory);
        memory.clear();
        room.return_block(memory);
    }
}

impl Rest {
    /// The payload, or the length that there was no room for.
    fn write(&mut self, beside: usize, fill: &mut Fill<'_>) -> io::Result<Result<Bytes, usize>> {
        let limit = self.left.saturating_sub(beside).min(self.memory.capacity());
        // What a serializer that panicked left.
        self.memory.clear();
        let mut writer = Writer { memory: &mut self.memory, limit, length: 0 };
        let filled = fill(&mut writer);
        let length = writer.length;
        if filled.is_err() || length > limit || self.left < beside {
            self.memory.clear();
            return filled.map(|()| Err(length));
        }
        self.left -= length + beside;
        Ok(Ok(self.memory.split().freeze()))
    }
}

/// Writes up to the limit; beyond it only counts.
struct Writer<'a> {
    memory: &'a mut BytesMut,
    limit: usize,
    length: usize,
}

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.length = self.length.saturating_add(bytes.len());
        if self.length <= self.limit {
            self.memory.put_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zms_core::pool::{Percent, Shares};

    use super::*;
    use crate::producer::room::Pool;

    const SIZE: usize = 1_000;
    const TOTAL: usize = 10 * SIZE;

    fn account() -> Account {
        let part = |percent| Percent::new(percent).unwrap();
        let shares = Shares { topic_cap: part(100), cluster_floor: part(0), cluster_ceiling: part(100) };
        Account::open(&Arc::new(Pool::new(TOTAL, SIZE, shares)))
    }

    async fn write(blocks: &Blocks, account: &Account, payload: &[u8]) -> Written {
        let deadline = Instant::now() + Duration::from_secs(600);
        let written = blocks.write(account, 50, deadline, |to| to.write_all(payload)).await.unwrap();
        assert_eq!(written.payload, payload);
        written
    }

    fn free(account: &Account) -> usize {
        account.pool().usage().0.free
    }

    #[tokio::test]
    async fn small_payloads_share_a_block_that_returns_with_the_last_of_them() {
        let (blocks, account) = (Blocks::default(), account());
        let mut written = Vec::new();
        for number in 0..5_u8 {
            written.push(write(&blocks, &account, &[number; 100]).await);
        }
        assert_eq!(free(&account), TOTAL - SIZE);
        let last = written.remove(3);
        drop(written);
        assert_eq!(free(&account), TOTAL - SIZE);
        assert_eq!(last.payload, [3; 100][..]);
        drop(last);
        assert_eq!((free(&account), account.pool().usage().0.idle_blocks), (TOTAL, 1));
    }

    #[tokio::test]
    async fn the_memory_of_a_block_is_used_again() {
        let (blocks, account) = (Blocks::default(), account());
        let first = write(&blocks, &account, &[1; 900]).await;
        let place = first.payload.as_ptr();
        drop(first);
        for number in 2..9_u8 {
            let next = write(&blocks, &account, &vec![number; 950 - usize::from(number)]).await;
            assert_eq!(next.payload.as_ptr(), place);
        }
        assert_eq!(account.pool().usage().0.idle_blocks, 1);
    }

    #[tokio::test]
    async fn a_payload_that_outlives_its_message_keeps_its_memory_to_itself() {
        let (blocks, account) = (Blocks::default(), account());
        let first = write(&blocks, &account, &[1; 100]).await;
        let kept = first.payload.clone();
        drop(first);
        assert_eq!((free(&account), account.pool().usage().0.idle_blocks), (TOTAL, 0));
        let _other = write(&blocks, &account, &[2; 100]).await;
        assert_eq!(kept, [1; 100][..]);
    }

    #[tokio::test]
    async fn a_payload_larger_than_a_block_gets_memory_of_its_own() {
        let (blocks, account) = (Blocks::default(), account());
        let large = write(&blocks, &account, &[1; 5_000]).await;
        assert_eq!(free(&account), TOTAL - 5_050);
        drop(large);
        let (usage, _) = account.pool().usage();
        assert_eq!((usage.free, usage.oversize), (TOTAL, 1));
    }

    #[tokio::test]
    async fn what_does_not_fit_the_rest_of_a_block_goes_into_the_next() {
        let (blocks, account) = (Blocks::default(), account());
        let first = write(&blocks, &account, &[1; 500]).await;
        let second = write(&blocks, &account, &[2; 500]).await;
        let third = write(&blocks, &account, &[3; 300]).await;
        assert_eq!(free(&account), TOTAL - 2 * SIZE, "the third found room in the first one's block");
        drop((first, second, third));
        assert_eq!((free(&account), account.pool().usage().0.idle_blocks), (TOTAL, 2));
    }

    #[tokio::test]
    async fn a_serializer_that_fails_or_panics_costs_nothing() {
        let (blocks, account) = (Blocks::default(), account());
        let keeps_it_open = write(&blocks, &account, &[1; 100]).await;
        let deadline = Instant::now() + Duration::from_secs(600);
        for _ in 0..100 {
            let failed = blocks.write(&account, 50, deadline, |to| {
                to.write_all(&[9; 100])?;
                Err(io::Error::other("a field that cannot be written"))
            });
            assert!(matches!(failed.await, Err(WriteError::Failed(_))));
        }
        let mut length = 2_000;
        let growing = blocks.write(&account, 50, deadline, |to| {
            length += 100;
            to.write_all(&vec![9; length])
        });
        assert!(matches!(growing.await, Err(WriteError::Failed(_))));
        let next = write(&blocks, &account, &[2; 100]).await;
        assert_eq!(free(&account), TOTAL - SIZE);
        drop((keeps_it_open, next));
        assert_eq!(free(&account), TOTAL);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn payloads_written_at_the_same_time_do_not_mix() {
        let (blocks, account) = (Arc::new(Blocks::default()), Arc::new(account()));
        let tasks: Vec<_> = (0..16_u8)
            .map(|number| {
                let (blocks, account) = (blocks.clone(), account.clone());
                tokio::spawn(async move {
                    for round in 0..500_usize {
                        let length = (round * 31 + usize::from(number)) % 1_200;
                        let written = write(&blocks, &account, &vec![number; length]).await;
                        tokio::task::yield_now().await;
                        assert!(written.payload.iter().all(|byte| *byte == number));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(free(&account), TOTAL);
    }
}
