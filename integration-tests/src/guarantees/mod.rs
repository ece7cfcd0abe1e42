//! The SDK's delivery guarantees as objects: a scenario feeds them from its senders and handlers, whatever else it
//! does, and asks them at its end.
//!
//! ```
//! use zms_integration_tests::guarantees::{Guarantees, Kept, Position, Record, Stream};
//!
//! let kept = Guarantees::of_group("billing", Kept::ALWAYS);
//! let stream = Stream { producer: "p".into(), key: "k".into() };
//! let at = Position { cluster: "a".into(), partition: 0, offset: 0 };
//! let record = Record { stream, number: 0, at };
//! kept.acknowledged(&record); // from the sender, with the receipt's position
//! let call = kept.handling(&record); // first thing in the handler
//! call.done(); // last thing in the handler; dropped without: to be delivered again
//! kept.committed("a", 0, 1); // whenever the scenario looks at the group's positions
//! kept.assert_holds();
//! ```

mod at_least_once;
mod no_copies;
mod no_duplicates;
mod no_loss;
mod not_below;
mod order;
mod record;
mod violations;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use at_least_once::AtLeastOnce;
use no_copies::NoCopies;
use no_duplicates::NoDuplicates;
use no_loss::NoLoss;
use not_below::NotBelowCommitted;
use order::OrderOf;

pub use record::Record;
pub use violations::Violations;
pub use zms_core::sequence::{Position, Stream};

/// A promise about one group's deliveries, as a listener to what happens.
///
/// Events arrive in the order in which they happened, from any thread but never two at once.
pub trait Guarantee: Send {
    /// The promise in a few words.
    fn name(&self) -> &'static str;
    /// A sender was told that the message is stored.
    fn acknowledged(&mut self, _record: &Record) {}
    /// A handler call started.
    fn started(&mut self, _record: &Record) {}
    /// A handler call ended; `done` unless the message is to be delivered again.
    fn ended(&mut self, _record: &Record, _done: bool) {}
    /// The group's position in a partition was seen to be `position`: the next offset to be read.
    fn committed(&mut self, _cluster: &str, _partition: i32, _position: i64) {}
    /// A message above the group's position was seen to be noted as done beside it.
    fn noted(&mut self, _cluster: &str, _partition: i32, _offset: i64) {}
    /// How many acknowledged messages are still to be handled.
    fn outstanding(&self) -> u64 {
        0
    }
    /// Whether the promise was kept so far; if not, how it was broken, with examples.
    ///
    /// # Errors
    /// The words of the failure.
    fn verdict(&self) -> Result<(), String>;
}

/// The promises to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// What was acknowledged is handled.
    NoLoss,
    /// A position passes only what is done, and never goes back.
    AtLeastOnce,
    /// Calls of one partition come one at a time and in offset order.
    PartitionOrder,
    /// Calls of one key from one sender come one at a time and in the order of sending.
    KeyOrder,
    /// Nothing that was done is delivered again, and nothing is stored twice.
    NoDuplicates,
    /// Nothing is stored twice, though it may be delivered again.
    NoCopies,
    /// Nothing below a committed position, or noted as done beside one, is delivered again. Give it positions only when
    /// all calls before are told.
    NothingCommittedAgain,
}

impl Kept {
    /// What holds through crashes, too.
    pub const ALWAYS: &'static [Self] = &[Self::NoLoss, Self::AtLeastOnce];
    /// What holds on clean paths with order by partition: rebalance, resize, shutdown, planned migration.
    pub const CLEAN: &'static [Self] =
        &[Self::NoLoss, Self::AtLeastOnce, Self::PartitionOrder, Self::KeyOrder, Self::NoDuplicates];

    fn object(self) -> Box<dyn Guarantee> {
        match self {
            Self::NoLoss => Box::new(NoLoss::default()),
            Self::AtLeastOnce => Box::new(AtLeastOnce::default()),
            Self::PartitionOrder => Box::new(OrderOf::partitions()),
            Self::KeyOrder => Box::new(OrderOf::keys()),
            Self::NoDuplicates => Box::new(NoDuplicates::default()),
            Self::NoCopies => Box::new(NoCopies::default()),
            Self::NothingCommittedAgain => Box::new(NotBelowCommitted::default()),
        }
    }
}

/// The promises that one group is held to. Clones share what they were told.
#[derive(Clone)]
pub struct Guarantees {
    group: Arc<str>,
    objects: Arc<Mutex<Vec<Box<dyn Guarantee>>>>,
}

impl Guarantees {
    /// Holds `group` to the promises named. Each group of a scenario needs its own object, as each gets each message.
    pub fn of_group(group: &str, kept: &[Kept]) -> Self {
        let objects = kept.iter().map(|kept| kept.object()).collect();
        Self { group: group.into(), objects: Arc::new(Mutex::new(objects)) }
    }

    /// Adds a promise of the scenario's own. Call before the first event.
    #[must_use]
    pub fn and(self, guarantee: Box<dyn Guarantee>) -> Self {
        self.lock().push(guarantee);
        self
    }

    /// A sender was told that the message is stored at `record.at`. Only for messages that this group is to get.
    pub fn acknowledged(&self, record: &Record) {
        self.tell(|object| object.acknowledged(record));
    }

    /// A handler call starts; the answer stands for the call.
    pub fn handling(&self, record: &Record) -> Handling {
        self.tell(|object| object.started(record));
        Handling { to: self.clone(), record: record.clone(), done: false }
    }

    /// The message needs no more handling, by policy: dead-lettered, or skipped.
    pub fn settled(&self, record: &Record) {
        self.tell(|object| object.ended(record, true));
    }

    /// The group's committed position in a partition, as just read from the cluster. One observer only: two could
    /// report what they read in the other order.
    pub fn committed(&self, cluster: &str, partition: i32, position: i64) {
        self.tell(|object| object.committed(cluster, partition, position));
    }

    /// The group's committed position in a partition was read, and beside it that `offset` is done. As
    /// [`committed`](Self::committed).
    pub fn noted(&self, cluster: &str, partition: i32, offset: i64) {
        self.tell(|object| object.noted(cluster, partition, offset));
    }

    /// How many acknowledged messages are still to be handled, as far as a chosen promise knows. A scenario waits for
    /// 0 before it asks for the verdict.
    pub fn outstanding(&self) -> u64 {
        self.lock().iter().map(|object| object.outstanding()).max().unwrap_or(0)
    }

    /// Whether all promises were kept so far.
    ///
    /// # Errors
    /// What was broken, with examples.
    pub fn verdict(&self) -> Result<(), String> {
        let broken: Vec<String> = self
            .lock()
            .iter()
            .filter_map(|object| object.verdict().err().map(|how| format!("{}: {how}", object.name())))
            .collect();
        if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
    }

    /// Ends a scenario.
    ///
    /// # Panics
    /// When a promise was broken, with examples of how.
    #[track_caller]
    pub fn assert_holds(&self) {
        if let Err(broken) = self.verdict() {
            panic!("group `{}` breaks its guarantees\n{broken}", self.group);
        }
    }

    fn tell(&self, event: impl Fn(&mut dyn Guarantee)) {
        self.lock().iter_mut().for_each(|object| event(object.as_mut()));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<dyn Guarantee>>> {
        // A handler that panics does so outside of the lock; what is inside stays whole.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Guarantees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.lock().iter().map(|object| object.name()).collect();
        f.debug_struct("Guarantees").field("group", &self.group).field("kept", &names).finish_non_exhaustive()
    }
}

/// A handler call that runs. Dropping it says that the message was not done: the handler failed, panicked or was
/// cancelled.
#[derive(Debug)]
#[must_use = "dropping it ends the call as not done"]
pub struct Handling {
    to: Guarantees,
    record: Record,
    done: bool,
}

impl Handling {
    /// The message is done. Call it before the handler answers, as the position may pass the message right after.
    pub fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.to.tell(|object| object.ended(&self.record, self.done));
    }
}
