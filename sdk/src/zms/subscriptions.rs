//! What a handle subscribes to: each group once, all ended with it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use zms_core::name::GroupName;

use super::SubscriptionHealth;
use crate::consumer::{Ending, Fault, Health, SubscribeError};

/// What a subscription gets to end that begins while its handle closes.
const LATE_LIMIT: Duration = Duration::from_secs(5);

/// How many that have ended by themselves are kept in mind.
const FAILED: usize = 64;

/// The subscriptions of a handle.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    taken: BTreeMap<Subscribed, Option<Ending>>,
    readers: u64,
    /// Those that have ended by themselves, the latest last, until their group is subscribed to again.
    failed: Vec<(GroupName, Fault)>,
    closed: bool,
}

/// Who has a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subscribed {
    Group(GroupName),
    /// One of any number without a group.
    Reader(u64),
}

/// A subscription's place; free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    all: Arc<Subscriptions>,
    who: Subscribed,
}

impl Subscriptions {
    /// Takes a group's place.
    pub(super) fn take(self: &Arc<Self>, group: &GroupName) -> Result<Seat, SubscribeError> {
        let mut seats = self.seats();
        if seats.closed {
            return Err(SubscribeError::Unresolved(crate::routing::ResolveError::Closed));
        }
        let who = Subscribed::Group(group.clone());
        if seats.taken.contains_key(&who) {
            return Err(SubscribeError::AlreadySubscribed { group: group.clone() });
        }
        seats.taken.insert(who.clone(), None);
        Ok(Seat { all: Arc::clone(self), who })
    }

    /// Takes a place for one that reads without a group.
    pub(super) fn take_alone(self: &Arc<Self>) -> Result<Seat, SubscribeError> {
        let mut seats = self.seats();
        if seats.closed {
            return Err(SubscribeError::Unresolved(crate::routing::ResolveError::Closed));
        }
        seats.readers += 1;
        let who = Subscribed::Reader(seats.readers);
        seats.taken.insert(who.clone(), None);
        Ok(Seat { all: Arc::clone(self), who })
    }

    /// Ends all subscriptions within `limit`, at the same time; how many did not end cleanly. None begins after it.
    pub(super) async fn end_all(&self, limit: Duration) -> usize {
        let endings: Vec<Ending> = {
            let mut seats = self.seats();
            seats.closed = true;
            seats.taken.values().flatten().cloned().collect()
        };
        let ended = join_all(endings.iter().map(|ending| ending.end(limit))).await;
        ended.into_iter().filter(Result::is_err).count()
    }

    /// How each one is.
    pub(super) fn health(&self) -> Vec<SubscriptionHealth> {
        // Outside of the lock: each takes locks of its own.
        let (endings, failed) = {
            let seats = self.seats();
            (seats.taken.values().flatten().cloned().collect::<Vec<_>>(), seats.failed.clone())
        };
        let running = endings.iter().map(|one| (one.group().clone(), one.health()));
        let ended = failed.into_iter().map(|(group, fault)| (group, Health::Stopped { fault: Some(fault) }));
        running.chain(ended).map(|(group, health)| SubscriptionHealth { group, health }).collect()
    }

    /// How many subscriptions there are.
    pub(super) fn len(&self) -> usize {
        self.seats().taken.len()
    }

    // Short: a map is changed under it, nothing is called.
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The group's subscription runs. One that begins while the handle closes is ended at once.
    pub(super) fn began(&self, ending: Ending) {
        let mut seats = self.all.seats();
        if seats.closed {
            ending.order(LATE_LIMIT);
        } else {
            seats.failed.retain(|(group, _)| group != ending.group());
            seats.taken.insert(self.who.clone(), Some(ending));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.all.seats();
        let ended = seats.taken.remove(&self.who).flatten();
        let failed = ended.and_then(|ended| Some((ended.group().clone(), ended.fault()?)));
        let Some(failed) = failed else { return };
        if seats.failed.len() == FAILED {
            seats.failed.remove(0);
        }
        seats.failed.push(failed);
    }
}
