//! Where a consumer's messages wait: one queue for each partition held, apart from the consumer's events.
//!
//! A partition that must not flow is just not taken from. Its fetcher stops by itself when its queue is full, and what
//! was fetched ahead is kept; librdkafka's own pause throws it away, to be fetched once more.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use rdkafka::client::{Client, ClientContext};

use super::{
    error::coded,
    native::{MessageRef, Messages, Wake, WatchedQueue},
    record::next_records,
};
use crate::engine::port::{EngineError, Records};

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
    open: bool,
}

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
                self.partitions().insert(partition, Partition { queue, knock, open: true });
            }
        }
    }

    /// Lets go of the queues of partitions that are held no longer.
    pub(super) fn remove(&self, partitions: &[i32]) {
        for partition in partitions {
            let removed = self.partitions().remove(partition);
            if let Some(Partition { queue, .. }) = removed {
                // What was fetched ahead is outdated by now and falls away when it is asked for.
                while queue.take(Messages::MOST).len() == Messages::MOST {}
            }
        }
    }

    /// Lets go of all queues: none may outlive the client.
    pub(super) fn clear(&self) {
        self.partitions().clear();
    }

    /// Lets these partitions flow, or keeps what they have.
    pub(super) fn set_open(&self, partitions: &[i32], open: bool) {
        let mut held = self.partitions();
        for partition in partitions {
            if let Some(partition) = held.get_mut(partition) {
                partition.open = open;
            }
        }
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
            while from.open && left > 0 && from.knock.waiting.swap(false, Ordering::AcqRel) {
                *last = partition;
                left -= from.take(left, into)?;
            }
        }
        Ok(())
    }
}

impl Partition {
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
        messages.iter().find_map(MessageRef::error).map_or(Ok(messages.len()), |code| Err(coded(code)))
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
