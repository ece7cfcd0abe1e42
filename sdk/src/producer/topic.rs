//! One topic: its gate and its route, and the way of a message through them.

use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, timeout},
};
use zms_core::{
    gate::TopicGate,
    name::{ClusterName, TopicName},
    route::TopicRoute,
};

use super::{
    clients::{Clients, Lease},
    error::Destination,
    holding::{Holding, Why},
    options::ProducerConfig,
    profile::Settings,
    report::{InFlight, Parcel, Sent},
    room::{Account, NoRoom, Pool, Room},
    stats::Counters,
    switch::Turn,
};
use crate::engine::port::{EngineError, FailureKind, Refused, Ticket};

/// What all topics share.
pub(super) struct Core {
    pub(super) config: ProducerConfig,
    pub(super) pool: Arc<Pool>,
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
    pub(super) account: Account,
    /// Whether a one-way message was dropped and that was logged.
    pub(super) drop_logged: AtomicBool,
    /// Held by the one that changes the route.
    pub(super) turn: tokio::sync::Mutex<Turn>,
    pub(super) holding: Mutex<Holding>,
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

/// How often a topic that takes sends is looked at by whoever waits until it has none in flight.
const IDLE_PACE: Duration = Duration::from_millis(20);

impl Topic {
    pub(super) fn new(name: TopicName, core: Arc<Core>) -> Self {
        Self {
            name,
            account: Account::open(&core.pool),
            core,
            gate: TopicGate::held(),
            active: ArcSwapOption::empty(),
            reports: Notify::new(),
            drop_logged: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            holding: Mutex::new(Holding::new()),
        }
    }

    /// Waits for room in the pool, until `max_block` has passed.
    ///
    /// Dropping the future gives back what it had.
    pub(super) async fn admit(&self, bytes: usize) -> Result<Room, NoRoom> {
        self.account.take(bytes, Instant::now() + self.core.config.options.max_block).await
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
    pub(super) fn hand_over(self: &Arc<Self>, in_flight: InFlight, parcel: Parcel) -> Result<(), Parcel> {
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

    /// Waits until nothing is in flight and nothing held.
    pub(super) async fn idle(&self) {
        while self.gate.in_flight() > 0 || self.holds_any() {
            // Reports are announced only while the gate holds; without that there is nothing but looking.
            let _either_way = timeout(IDLE_PACE, self.reports.notified()).await;
        }
    }

    /// Notes that the client cannot go on, and has it replaced.
    pub(super) fn note_failure(&self, active: &Arc<Active>, error: &EngineError) {
        if error.kind == FailureKind::Fatal {
            self.client_failed(active);
        }
    }

    pub(super) fn cluster(&self) -> Option<ClusterName> {
        self.active.load().as_ref().map(|active| active.cluster().clone())
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

/// The completion inside a ticket made here.
fn own_completion(ticket: Ticket) -> Option<Box<Sent>> {
    let completion: Box<dyn Any> = ticket.into_completion()?;
    completion.downcast().ok()
}
