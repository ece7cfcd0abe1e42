//! One topic: its gate, its route, and the sends that wait for one.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep_until},
};
use zms_core::{
    gate::TopicGate,
    hold::{Held, HoldQueue},
    name::{ClusterName, TopicName},
    route::TopicRoute,
};

use super::{
    buffer::{Buffer, NoRoom},
    clients::{Clients, Lease},
    error::{Destination, Returned, SendError},
    options::ProducerConfig,
    profile::Settings,
    report::{InFlight, Parcel, Room, Sent},
    stats::Counters,
    switch::Turn,
};
use crate::engine::port::{EngineError, FailureKind, Refused, Ticket};

/// What all topics share.
pub(super) struct Core {
    pub(super) config: ProducerConfig,
    pub(super) buffer: Arc<Buffer>,
    pub(super) clients: Clients,
    pub(super) counters: Arc<Counters>,
    /// Wakes whoever replaces failed clients.
    pub(super) attention: Arc<Notify>,
    /// Wakes whoever waits until no send is held.
    pub(super) released: Notify,
    pub(super) runtime: Handle,
}

/// A topic of this handle.
pub(super) struct Topic {
    pub(super) name: TopicName,
    pub(super) core: Arc<Core>,
    pub(super) gate: TopicGate,
    /// Where sends go. Read only by sends that the gate has counted.
    pub(super) active: ArcSwapOption<Active>,
    /// Wakes, while the gate holds, whoever waits for reports.
    pub(super) reports: Notify,
    /// This topic's part of the buffer. Replaced when messages are left behind on a client that does not report them:
    /// they must not take the room of those that follow.
    pub(super) share: ArcSwap<Buffer>,
    /// Whether a one-way message was dropped and that was logged.
    pub(super) drop_logged: AtomicBool,
    /// Held by the one that changes the route.
    pub(super) turn: tokio::sync::Mutex<Turn>,
    holding: Mutex<Holding>,
}

/// A route and the client that serves it.
pub(super) struct Active {
    pub(super) route: Arc<TopicRoute>,
    pub(super) settings: Settings,
    pub(super) link: Arc<Link>,
}

/// A topic's use of one client, with its messages in flight there.
pub(super) struct Link {
    pub(super) lease: Lease,
    pub(super) in_flight: Arc<AtomicUsize>,
}

/// Sends held back, and why. The gate's hold bit changes under this lock only.
struct Holding {
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

impl Topic {
    pub(super) fn new(name: TopicName, core: Arc<Core>) -> Self {
        let share = Buffer::new(core.config.options.share());
        Self {
            name,
            core,
            gate: TopicGate::held(),
            active: ArcSwapOption::empty(),
            reports: Notify::new(),
            share: ArcSwap::new(share),
            drop_logged: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            holding: Mutex::new(Holding {
                queue: HoldQueue::new(),
                why: Why::NoRoute,
                closed: false,
                expiring: false,
            }),
        }
    }

    /// Waits for room: first in the topic's share, where a topic that is stuck keeps its senders, then in the whole
    /// buffer. One deadline for both.
    ///
    /// Dropping the future gives back what it had.
    pub(super) async fn admit(&self, bytes: usize) -> Result<Room, NoRoom> {
        let deadline = Instant::now() + self.core.config.options.max_block;
        loop {
            let share = self.share.load_full();
            match share.take(bytes, deadline).await {
                Ok(share) => {
                    let buffer = self.core.buffer.take(bytes, deadline).await?;
                    return Ok(Room { _share: share, _buffer: buffer });
                }
                // The share was replaced: there is room in the new one.
                Err(NoRoom::Closed) if !Arc::ptr_eq(&share, &self.share.load()) => {}
                Err(no_room) => return Err(no_room),
            }
        }
    }

    /// Room, if there is some at once.
    pub(super) fn try_admit(&self, bytes: usize) -> Result<Room, NoRoom> {
        let share = self.share.load_full().try_take(bytes)?;
        Ok(Room { _share: share, _buffer: self.core.buffer.try_take(bytes)? })
    }

    /// Gives the messages that follow a share of their own.
    pub(super) fn renew_share(&self) {
        let new = Buffer::new(self.core.config.options.share());
        self.share.swap(new).close();
    }

    /// Sends an accepted message, or holds it if the topic is held. Its claim is settled exactly once.
    pub(super) fn submit(self: &Arc<Self>, mut parcel: Parcel) {
        loop {
            if self.gate.enter() {
                match self.hand_over(InFlight::counted(self), parcel) {
                    Ok(()) => return,
                    Err(back) => parcel = back,
                }
            }
            match self.hold_back(parcel) {
                None => return,
                Some(back) => parcel = back,
            }
        }
    }

    /// Hands a message to the client of the route. It comes back when that client cannot be used any more; the topic
    /// is held then.
    #[expect(
        clippy::result_large_err,
        reason = "the message goes on to wait; boxing it would cost every send"
    )]
    fn hand_over(self: &Arc<Self>, in_flight: InFlight, parcel: Parcel) -> Result<(), Parcel> {
        let Some(active) = self.active.load_full() else {
            // An open gate has a route; without one there is only waiting.
            self.hold(Why::NoRoute);
            return Err(parcel);
        };
        let Parcel { message, claim } = parcel;
        let sent = Sent {
            in_flight: in_flight.on(&active.link),
            claim,
            partition: message.partition,
            active: active.clone(),
        };
        let refused = active.link.lease.client().produce(&self.name, message, Ticket::new(Box::new(sent)));
        let Err(Refused { error, message, ticket }) = refused else { return Ok(()) };
        let Some(sent) = own_completion(ticket) else { return Ok(()) };
        if matches!(error.kind, FailureKind::Fatal | FailureKind::Purged) {
            self.client_failed(&active);
            return Err(Parcel { message, claim: sent.claim });
        }
        sent.refused(error, message);
        Ok(())
    }

    /// Queues a message. It comes back when the topic has been opened meanwhile; a closed or unusable topic settles it.
    fn hold_back(self: &Arc<Self>, parcel: Parcel) -> Option<Parcel> {
        let deadline = parcel.claim.accepted + self.delivery_timeout();
        let mut holding = self.holding();
        let refusal = if holding.closed {
            None
        } else if let Why::Unusable { .. } = &holding.why {
            Some(holding.why.clone())
        } else if self.gate.is_held() {
            self.core.counters.held_now.fetch_add(1, Ordering::Relaxed);
            holding.queue.push(parcel, deadline.into_std());
            if !std::mem::replace(&mut holding.expiring, true) {
                self.core.runtime.spawn(self.clone().expire());
            }
            return None;
        } else {
            return Some(parcel);
        };
        drop(holding);
        self.refuse(parcel, refusal);
        None
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
                self.core.counters.held_now.fetch_add(1, Ordering::Relaxed);
                self.holding().queue.put_back(Held { item: parcel, deadline });
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
        drop(holding);
        self.share.load().close();
    }

    /// Ends what is still held, after [`close`](Self::close).
    pub(super) fn close_held(&self) {
        self.refuse_held(None);
    }

    /// Waits until nothing is in flight. Only a closed or held topic stays so.
    pub(super) async fn idle(&self) {
        loop {
            let report = self.reports.notified();
            tokio::pin!(report);
            report.as_mut().enable();
            if self.gate.in_flight() == 0 {
                return;
            }
            report.await;
        }
    }

    /// Notes that the client cannot go on, and has it replaced.
    pub(super) fn note_failure(&self, active: &Arc<Active>, error: &EngineError) {
        if error.kind == FailureKind::Fatal {
            self.client_failed(active);
        }
    }

    pub(super) fn why(&self) -> Why {
        self.holding().why.clone()
    }

    pub(super) fn cluster(&self) -> Option<ClusterName> {
        self.active.load().as_ref().map(|active| active.cluster().clone())
    }

    fn client_failed(&self, active: &Arc<Active>) {
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

impl Active {
    pub(super) fn cluster(&self) -> &ClusterName {
        &self.route.cluster.name
    }

    pub(super) fn destination(&self, topic: &Topic, partition: Option<i32>) -> Destination {
        Destination { topic: topic.name.clone(), cluster: self.cluster().clone(), partition }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("it is being opened"),
            Self::NoRoute => f.write_str("it has no route yet"),
            Self::Route(reason) | Self::Unusable { reason, .. } => f.write_str(reason),
            Self::Switching(cluster) => write!(f, "it is changing to cluster {cluster}"),
            Self::ClientFailed => f.write_str("its client failed and is being replaced"),
        }
    }
}

/// The completion inside a ticket made here.
fn own_completion(ticket: Ticket) -> Option<Box<Sent>> {
    let completion: Box<dyn std::any::Any> = ticket.into_completion()?;
    completion.downcast().ok()
}
