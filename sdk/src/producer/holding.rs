//! The sends of a topic that wait: why, in which order, and until when.

use std::{
    fmt,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use zms_core::{
    hold::{Held, HoldQueue},
    name::ClusterName,
};

use super::{
    error::{Returned, SendError},
    report::{InFlight, Parcel},
    topic::{Active, Topic},
};

/// Sends held back, and why. The gate's hold bit changes under this lock only.
pub(super) struct Holding {
    queue: HoldQueue<Parcel>,
    why: Why,
    closed: bool,
    expiring: bool,
}

/// Why a topic's sends are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// Not held, or only just released.
    Open,
    /// It has not been resolved yet.
    NoRoute,
    /// Its route says so.
    Route(String),
    /// It is changing to this cluster.
    Switching(ClusterName),
    /// Its client failed and is being replaced.
    ClientFailed,
    /// No client can be opened for this cluster: nothing waits, sends fail.
    Unusable { cluster: ClusterName, reason: String },
}

/// Deadlines of held sends are looked at this often at most, and this seldom at least.
const EXPIRY_PACE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl Holding {
    /// For a topic that has no route yet.
    pub(super) fn new() -> Self {
        Self { queue: HoldQueue::new(), why: Why::NoRoute, closed: false, expiring: false }
    }
}

/// Where in the queue a send waits.
#[derive(Clone, Copy)]
enum Place {
    /// Behind all others.
    Last,
    /// Before all others: it was taken out to be sent, and could not be.
    First,
}

/// What became of a send that was to wait.
enum Waiting {
    Queued,
    /// The topic has been opened meanwhile.
    Opened(Parcel),
    /// The topic takes none; without a reason because it is closed.
    Refused(Parcel, Option<Why>),
}

impl Topic {
    pub(super) fn holds_any(&self) -> bool {
        !self.holding().queue.is_empty()
    }

    /// Queues a message, or settles it if the topic takes none. It comes back when the topic has been opened meanwhile.
    pub(super) fn hold_back(self: &Arc<Self>, parcel: Parcel) -> Option<Parcel> {
        let deadline = parcel.claim.accepted + self.delivery_timeout();
        match self.wait(Held { item: parcel, deadline: deadline.into_std() }, Place::Last) {
            Waiting::Queued => None,
            Waiting::Opened(parcel) => Some(parcel),
            Waiting::Refused(parcel, why) => {
                self.refuse(parcel, why);
                None
            }
        }
    }

    fn wait(self: &Arc<Self>, held: Held<Parcel>, place: Place) -> Waiting {
        let mut holding = self.holding();
        if holding.closed {
            return Waiting::Refused(held.item, None);
        }
        if let Why::Unusable { .. } = &holding.why {
            return Waiting::Refused(held.item, Some(holding.why.clone()));
        }
        if !self.gate.is_held() {
            return Waiting::Opened(held.item);
        }
        self.core.counters.held_now.fetch_add(1, Ordering::Relaxed);
        match place {
            Place::Last => holding.queue.push(held.item, held.deadline),
            Place::First => holding.queue.put_back(held),
        }
        if !std::mem::replace(&mut holding.expiring, true) {
            self.core.runtime.spawn(self.clone().expire());
        }
        Waiting::Queued
    }

    /// Holds new sends, for a reason that replaces an earlier one. The number in flight.
    pub(super) fn hold(&self, why: Why) -> usize {
        let mut holding = self.holding();
        holding.why = why;
        self.gate.hold()
    }

    /// Sends what is held, oldest first, and then opens the gate: held ones go before new ones.
    ///
    /// Dropping the future leaves the rest held.
    pub(super) async fn release(self: &Arc<Self>) {
        for round in 1_usize.. {
            let Some(Held { item: parcel, deadline }) = self.next_held_or_open() else { return };
            self.gate.enter_held();
            if let Err(parcel) = self.hand_over(InFlight::counted(self), parcel) {
                // The client failed: the gate holds, and the rest waits for another one.
                match self.wait(Held { item: parcel, deadline }, Place::First) {
                    Waiting::Queued => {}
                    Waiting::Opened(parcel) => self.submit(parcel),
                    Waiting::Refused(parcel, why) => self.refuse(parcel, why),
                }
                return;
            }
            if round % 256 == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn next_held_or_open(&self) -> Option<Held<Parcel>> {
        let mut holding = self.holding();
        let next = holding.queue.pop();
        if next.is_some() {
            self.no_longer_held(1);
        } else {
            holding.why = Why::Open;
            if !holding.closed {
                self.gate.open();
            }
        }
        next
    }

    /// Ends what is held as not sent, for a reason that stays until the topic is released.
    pub(super) fn give_up(&self, cluster: &ClusterName, reason: String) {
        let why = Why::Unusable { cluster: cluster.clone(), reason };
        self.hold(why.clone());
        self.refuse_held(Some(&why));
    }

    /// Takes no new sends. Held ones are sent if their route opens before [`close_held`](Self::close_held).
    pub(super) fn close(&self) {
        let mut holding = self.holding();
        holding.closed = true;
        self.gate.hold();
    }

    /// Ends what is still held, after [`close`](Self::close).
    pub(super) fn close_held(&self) {
        self.refuse_held(None);
    }

    pub(super) fn why(&self) -> Why {
        self.holding().why.clone()
    }

    pub(super) fn client_failed(&self, active: &Arc<Active>) {
        active.link.lease.fail();
        let mut holding = self.holding();
        if self.active.load().as_ref().is_some_and(|current| Arc::ptr_eq(&current.link, &active.link)) {
            if matches!(holding.why, Why::Open | Why::Switching(_)) {
                holding.why = Why::ClientFailed;
            }
            self.gate.hold();
        }
        drop(holding);
        self.core.attention.notify_one();
    }

    fn refuse_held(&self, why: Option<&Why>) {
        let held = self.holding().queue.drain();
        self.no_longer_held(held.len());
        for parcel in held {
            self.refuse(parcel, why.cloned());
        }
    }

    /// Settles a message as not sent; without a reason because the topic is closed.
    fn refuse(&self, parcel: Parcel, why: Option<Why>) {
        let Parcel { message, claim } = parcel;
        let (topic, message) = (self.name.clone(), Returned::from(message));
        let error = match why {
            None => SendError::Closed { topic, cluster: self.cluster(), message },
            Some(Why::Unusable { cluster, reason }) => {
                SendError::Unusable { topic, cluster, reason, message }
            }
            Some(why) => SendError::Held {
                topic,
                cluster: self.cluster(),
                reason: why.to_string(),
                waited: claim.accepted.elapsed(),
                message,
            },
        };
        drop(claim.room);
        claim.reply.give(Err(error), &self.core.counters);
    }

    /// Ends held sends at their deadlines, as long as there are any.
    async fn expire(self: Arc<Self>) {
        let (least, most) = EXPIRY_PACE;
        loop {
            let next = {
                let mut holding = self.holding();
                let next = holding.queue.next_deadline();
                holding.expiring = next.is_some();
                next
            };
            let Some(next) = next else { return };
            let now = Instant::now();
            sleep_until(Instant::from_std(next).clamp(now + least, now + most)).await;
            let (due, why) = {
                let mut holding = self.holding();
                (holding.queue.expire(Instant::now().into_std()), holding.why.clone())
            };
            self.no_longer_held(due.len());
            for parcel in due {
                self.refuse(parcel, Some(why.clone()));
            }
        }
    }

    fn no_longer_held(&self, count: usize) {
        if count > 0 && self.core.counters.held_now.fetch_sub(count, Ordering::AcqRel) == count {
            self.core.released.notify_waiters();
        }
    }

    fn delivery_timeout(&self) -> Duration {
        let active = self.active.load();
        active.as_ref().map_or(self.core.config.settings.delivery_timeout, |a| a.settings.delivery_timeout)
    }

    /// Never held across an await or a call of a client.
    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("it is being opened"),
            Self::NoRoute => f.write_str("it has no route yet"),
            Self::Route(reason) | Self::Unusable { reason, .. } => f.write_str(reason),
            Self::Switching(cluster) => write!(f, "it is changing to cluster {cluster}"),
            Self::ClientFailed => f.write_str("its client failed and is being replaced"),
        }
    }
}
