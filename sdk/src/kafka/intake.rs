//! Where a consumer's messages wait: one queue for each partition held, apart from the consumer's events.
//!
//! A partition that must not flow is just not taken from. Its fetcher stops by itself when its queue is full, and what
//! was fetched ahead is kept; librdkafka's own pause throws it away, to be fetched once more.
//!
//! One that must not flow for long is paused after all: a message that waits keeps the broker's whole answer in memory,
//! other partitions' messages in it included, and trickling ones keep one answer each.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::client::{Client, ClientContext};

use super::{
    error::coded,
    native::{MessageRef, Messages, Wake, WatchedQueue},
    record::next_records,
};
use crate::engine::port::{EngineError, Records, Start};

/// How long a partition keeps what was fetched ahead although it must not flow. Longer than fast handlers need to make
/// room, and short against the time in which slow ones use up what is fetched again.
const PATIENCE: Duration = Duration::from_secs(2);

/// Rings when there is something for the poll thread to do.
#[derive(Default)]
pub(super) struct Doorbell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Doorbell {
    /// Waits until it rings, also if it has done so since the last wait; `false` at the deadline.
    pub(super) fn wait(&self, deadline: Instant) -> bool {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            rung = self.changed.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
        true
    }
}

impl Wake for Doorbell {
    fn wake(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

/// Remembers which partition rang, so that only those are looked at.
struct Knock {
    /// There may be messages. Set when one enters the empty queue.
    waiting: AtomicBool,
    bell: Arc<Doorbell>,
}

impl Wake for Knock {
    fn wake(&self) {
        self.waiting.store(true, Ordering::Release);
        self.bell.wake();
    }
}

struct Partition {
    queue: WatchedQueue<Knock>,
    knock: Arc<Knock>,
    flow: Flow,
    /// Where reading goes on; `None` while only the library knows.
    next: Cell<Option<i64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    /// Not taken from since then.
    Closed(Instant),
    /// Paused in the library, which has thrown away what was fetched ahead.
    Parked,
}

/// A partition that is to be resumed in the library, and where reading goes on.
pub(super) type Unparked = (i32, Option<i64>);

#[derive(Default)]
pub(super) struct Intake {
    pub(super) bell: Arc<Doorbell>,
    // Held by the poll thread alone; the lock only makes it fit into the client's shared context.
    partitions: Mutex<BTreeMap<i32, Partition>>,
}

impl Intake {
    fn partitions(&self) -> MutexGuard<'_, BTreeMap<i32, Partition>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives these partitions queues, open ones. To be called before they are fetched.
    pub(super) fn add<C: ClientContext>(&self, client: &Client<C>, topic: &str, partitions: &[i32]) {
        // One that is held already gives up its queue first: both are the same one below.
        self.remove(partitions);
        for &partition in partitions {
            let knock = Arc::new(Knock { waiting: AtomicBool::new(true), bell: Arc::clone(&self.bell) });
            let queue = WatchedQueue::of_partition(client, topic, partition, Arc::clone(&knock));
            // Without a queue of its own it is delivered through the consumer's.
            if let Some(queue) = queue {
                let opened = Partition { queue, knock, flow: Flow::Open, next: Cell::new(None) };
                self.partitions().insert(partition, opened);
            }
        }
    }

    /// Lets go of the queues of partitions that are held no longer.
    pub(super) fn remove(&self, partitions: &[i32]) {
        for partition in partitions {
            let removed = self.partitions().remove(partition);
            if let Some(Partition { queue, .. }) = removed {
                // What was fetched ahead is outdated by now and falls away when it is asked for.
                queue.discard();
            }
        }
    }

    /// Lets go of all queues: none may outlive the client.
    pub(super) fn clear(&self) {
        self.partitions().clear();
    }

    /// Where partitions that were just added start.
    pub(super) fn begin(&self, starts: &[(i32, Start)]) {
        for (partition, start) in starts {
            self.moved(*partition, *start);
        }
    }

    /// Reading goes on elsewhere.
    pub(super) fn moved(&self, partition: i32, to: Start) {
        if let Some(partition) = self.partitions().get_mut(&partition) {
            partition.next.set(if let Start::At(offset) = to { Some(offset) } else { None });
        }
    }

    /// Keeps these partitions' messages where they are.
    pub(super) fn close(&self, partitions: &[i32]) {
        let mut held = self.partitions();
        for partition in partitions {
            if let Some(partition @ Partition { flow: Flow::Open, .. }) = held.get_mut(partition) {
                partition.flow = Flow::Closed(Instant::now());
            }
        }
    }

    /// Lets these partitions flow. Those that were parked have to be resumed.
    #[must_use]
    pub(super) fn open(&self, partitions: &[i32]) -> Vec<Unparked> {
        let mut held = self.partitions();
        let mut parked = Vec::new();
        for number in partitions {
            if let Some(partition) = held.get_mut(number) {
                parked.extend((partition.flow == Flow::Parked).then_some((*number, partition.next.get())));
                partition.flow = Flow::Open;
            }
        }
        parked
    }

    /// Parks the partitions that have kept messages for too long. They have to be paused.
    #[must_use]
    pub(super) fn park(&self, now: Instant) -> Vec<i32> {
        let mut parked = Vec::new();
        for (number, partition) in self.partitions().iter_mut() {
            if partition.is_overdue(now) {
                partition.flow = Flow::Parked;
                parked.push(*number);
            }
        }
        parked
    }

    /// Lets go of what was fetched ahead of partitions that have been paused: it is outdated, but the library keeps it
    /// until it is asked for.
    pub(super) fn discard(&self, partitions: &[i32]) {
        let held = self.partitions();
        partitions.iter().filter_map(|partition| held.get(partition)).for_each(|held| held.queue.discard());
    }

    /// Messages fetched ahead of a partition.
    #[cfg(test)]
    pub(super) fn fetched_ahead(&self, partition: i32) -> usize {
        self.partitions()[&partition].queue.len()
    }

    /// Has every queue looked at next time, whether it knocked or not.
    pub(super) fn suspect_all(&self) {
        for partition in self.partitions().values() {
            partition.knock.waiting.store(true, Ordering::Release);
        }
    }

    /// Takes what is there, up to `max`, beginning with the partitions after `last`, the one that came last the time
    /// before. An error comes alone, or with the records before it.
    pub(super) fn take(
        &self,
        max: usize,
        last: &mut i32,
        into: &mut Vec<Records>,
    ) -> Result<(), EngineError> {
        let held = self.partitions();
        let after = last.saturating_add(1);
        let mut left = max;
        for (&partition, from) in held.range(after..).chain(held.range(..after)) {
            while from.flow == Flow::Open && left > 0 && from.knock.waiting.swap(false, Ordering::AcqRel) {
                *last = partition;
                left -= from.take(left, into)?;
            }
        }
        Ok(())
    }
}

impl Partition {
    /// Whether it is closed for long and holds something. Where reading goes on must be known: the library's own idea
    /// of it also moves with errors.
    fn is_overdue(&self, now: Instant) -> bool {
        let Flow::Closed(since) = self.flow else { return false };
        now.saturating_duration_since(since) >= PATIENCE && self.next.get().is_some() && self.queue.len() > 0
    }

    /// How many were taken.
    fn take(&self, max: usize, into: &mut Vec<Records>) -> Result<usize, EngineError> {
        let wanted = max.min(Messages::MOST);
        let messages = self.queue.take(wanted);
        // A queue that was emptied knocks at the next message; one that was not does not.
        if messages.len() == wanted {
            self.knock.waiting.store(true, Ordering::Release);
        }
        let mut good = messages.iter().filter(|message| !message.is_error());
        into.extend(std::iter::from_fn(|| next_records(&mut good)));
        if let Some(last) = messages.iter().filter(|message| !message.is_error()).last() {
            self.next.set(Some(last.offset() + 1));
        }
        match messages.iter().find(|message| message.is_error()).and_then(MessageRef::error) {
            Some(code) => Err(coded(code)),
            None => Ok(messages.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_bell_that_rang_before_the_wait_was_not_in_vain() {
        let bell = Doorbell::default();
        bell.wake();
        bell.wake();
        assert!(bell.wait(soon()));
        assert!(!bell.wait(Instant::now()), "heard once");
    }

    #[test]
    fn a_bell_wakes_who_waits() {
        let bell = Arc::new(Doorbell::default());
        let waiting = Arc::clone(&bell);
        let waiter = thread::spawn(move || waiting.wait(soon()));
        bell.wake();
        assert!(waiter.join().unwrap());
    }
}
