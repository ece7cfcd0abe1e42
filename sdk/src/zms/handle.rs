//! What services hold.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};
use zms_core::name::{GroupName, TopicName};

use super::{
    CloseError, ConnectError, Status, UnusableTopic, ZmsBuilder, ZmsHealth,
    dead_letters::DeadLetterSender,
    subscriptions::{Seat, Subscriptions},
    topics::Topics,
};
use crate::{
    consumer::{
        DeadLetters, Ending, Enrolment, Membership, Pending, RegistryAway, SubscribeError, Subscriber,
    },
    engine::port::Engine,
    message::{Message, Receipt},
    producer::{Producer, ProducerConfigError, Producers, SendError},
    registry::port::SharedRegistry,
    routing::{GroupLease, ResolveError, Router},
};

/// A connection to the registry and, through it, to all Kafka clusters. Cheap to clone; one for a process is enough.
///
/// [`close`](Self::close) it at the end. When the last clone is dropped without that, its clients are closed in the
/// background, and what was not delivered by then is given up; a subscription that goes on keeps them open, for its dead
/// letters.
#[derive(Clone)]
pub struct Zms {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) registry: SharedRegistry,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) router: Arc<Router>,
    pub(super) producers: Arc<Producers>,
    pub(super) instance: String,
    pub(super) topics: Arc<Topics>,
    pub(super) dead_letters: Arc<DeadLetterSender>,
    pub(super) subscriptions: Arc<Subscriptions>,
    /// One-way messages that wait for their topic's first route.
    pub(super) unresolved: Arc<Semaphore>,
}

/// One-way messages that may wait for their topic's first route; more are dropped and counted.
pub(super) const UNRESOLVED_ONEWAY: usize = 1_000;

/// What a group's subscription holds until it has left the group.
struct Place {
    seat: Seat,
    /// Dropping it leaves the registry.
    _lease: GroupLease,
}

impl Membership for Place {
    fn began(&self, ending: Ending) {
        self.seat.began(ending);
    }
}

impl Zms {
    /// Connects with default settings to the registry at `zookeeper` (`host:port,…/chroot`).
    ///
    /// # Errors
    /// See [`ZmsBuilder::connect`].
    pub async fn connect(zookeeper: &str) -> Result<Self, ConnectError> {
        Self::builder().zookeeper(zookeeper).connect().await
    }

    /// Settings to connect with.
    pub fn builder() -> ZmsBuilder {
        ZmsBuilder::new()
    }

    pub(super) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// A handle for many sends to one topic: resolves it, and fetches its metadata so that the first send does not
    /// wait for that. The handle follows the topic wherever it moves.
    ///
    /// Dropping the future does nothing.
    ///
    /// # Errors
    /// [`ResolveError`] when the topic does not lead to a cluster within `resolve_timeout`.
    pub async fn producer(&self, topic: &str) -> Result<Producer, ResolveError> {
        let producer = self.open(topic).await?;
        producer.warm().await;
        Ok(producer)
    }

    /// Sends a message and waits for the cluster's acknowledgement. The first send to a topic resolves it.
    ///
    /// See [`Producer::send`] for what is waited for and what dropping the future means.
    ///
    /// # Errors
    /// [`SendError`]; it tells whether the message may have arrived, and gives it back if it was not handed over.
    pub async fn send(&self, topic: &str, message: Message) -> Result<Receipt, SendError> {
        match self.find(topic).await {
            Ok(producer) => producer.send(message).await,
            Err(error) => Err(SendError::unresolved(topic, error, message)),
        }
    }

    /// Sends a message and calls back with its result, exactly once. Waits for room in the send buffer and, on the
    /// first send to a topic, for its route; see [`Producer::send_with`].
    pub async fn send_with(
        &self,
        topic: &str,
        message: Message,
        callback: impl FnOnce(Result<Receipt, SendError>) + Send + 'static,
    ) {
        match self.find(topic).await {
            Ok(producer) => producer.send_with(message, callback).await,
            Err(error) => callback(Err(SendError::unresolved(topic, error, message))),
        }
    }

    /// Sends a message if there is room at once, and wants no result; never waits. Of a topic that this handle has not
    /// sent to yet the route is fetched first, in the background. Messages dropped or failed are counted in
    /// [`Status::sends`].
    pub fn send_oneway(&self, topic: &str, message: Message) {
        if let Some(producer) = self.inner.producers.lookup(topic) {
            producer.send_oneway(message);
            return;
        }
        let Ok(permit) = Arc::clone(&self.inner.unresolved).try_acquire_owned() else {
            self.inner.producers.drop_oneway(topic, &"too many one-way messages wait for routes");
            return;
        };
        let (zms, topic) = (self.clone(), topic.to_owned());
        self.inner.producers.runtime().spawn(async move {
            match zms.open(&topic).await {
                Ok(producer) => producer.send_oneway(message),
                Err(error) => zms.inner.producers.drop_oneway(&topic, &error),
            }
            drop(permit);
        });
    }

    /// Prepares a subscription of a consumer group, whose topic and cluster the registry knows. It begins with
    /// [`Subscriber::handle`], [`Subscriber::handle_batch`] or their blocking forms, which also report what is wrong with the
    /// group. A handle has one subscription of a group at a time; more workers do what a second one would.
    pub fn subscribe(&self, group: &str) -> Subscriber {
        let (zms, group) = (self.clone(), group.to_owned());
        let client_id = self.inner.instance.clone();
        Subscriber::pending(Pending::new(async move { zms.enrol(&group).await })).client_id(client_id)
    }

    /// Prepares a subscription that reads a topic by name without a group: all partitions, or those that
    /// [`Subscriber::partitions`] says, whoever else reads them. Any number may read the same topic.
    ///
    /// Nothing is committed, and each start begins where [`Subscriber::start_at`] says or else at the oldest message
    /// ([`Subscriber::consume_from`]), unless positions are kept under a name of their own
    /// ([`Subscriber::positions_as`]).
    ///
    /// When the topic moves to another cluster the old one is read to its end, then the new one from its oldest message;
    /// [`Delivery::cluster`](crate::Delivery::cluster) tells which. Moves do not wait for such a reader, which is not
    /// registered in the registry. Where a group's name is needed, as in [`Delivery::group`](crate::Delivery::group), the
    /// topic's stands for it; to a cluster with access control the client asks under that name, or under that of
    /// `positions_as`.
    pub fn standalone(&self, topic: &str) -> Subscriber {
        let (zms, topic) = (self.clone(), topic.to_owned());
        let client_id = self.inner.instance.clone();
        Subscriber::pending(Pending::new(async move { zms.attend(&topic).await }))
            .client_id(client_id)
            .standalone()
    }

    /// Changes the size of the send buffer while everything runs; what it was built with is
    /// [`ProducerOptions::buffer`](crate::producer::ProducerOptions::buffer). Made larger, it serves those who wait at
    /// once. Made smaller, it takes effect as delivery reports come in, and senders who wait for more than they could
    /// ever have now fail at once. Never blocks.
    ///
    /// # Errors
    /// [`ProducerConfigError`] when the settings of this handle do not fit it; nothing changes then.
    pub fn resize_buffer(&self, bytes: usize) -> Result<(), ProducerConfigError> {
        self.inner.producers.resize_buffer(bytes)
    }

    /// What the handle does now.
    pub fn status(&self) -> Status {
        let inner = &self.inner;
        let routing = inner.router.inspect();
        let (_, from_snapshot) = routing.routes_by_source();
        let trouble = |entry: &crate::routing::EntryInspection| {
            entry.trouble.as_ref().map(|trouble| format!("{}: {trouble}", entry.entry))
        };
        Status {
            registry: *inner.registry.session().borrow(),
            topics: inner.topics.len(),
            groups: inner.subscriptions.len(),
            routes_from_snapshot: from_snapshot,
            snapshot_age: routing.snapshot_age,
            troubles: routing.entries.iter().filter_map(trouble).collect(),
            routing: routing.counters,
            sends: inner.producers.stats(),
        }
    }

    /// Whether it works, as a probe wants to know it. Cheap enough to ask every second.
    pub fn health(&self) -> ZmsHealth {
        let inner = &self.inner;
        let unusable = inner.producers.unusable().into_iter();
        ZmsHealth {
            registry_away: inner.router.away_since(),
            subscriptions: inner.subscriptions.health(),
            unusable: unusable
                .map(|(topic, cluster, reason)| UnusableTopic { topic, cluster, reason })
                .collect(),
        }
    }

    /// Ends everything within `limit`: subscriptions stop taking messages, finish their handlers, commit and leave;
    /// then no further send is taken and what was is delivered; then this client leaves the registry. Handlers may
    /// send, and dead letters are sent, until they end.
    ///
    /// When it returns every send has its result. A second call waits for the same end; of several limits the earliest
    /// holds. Dropping the future, also before it has done much, leaves the rest to the background.
    ///
    /// # Errors
    /// [`CloseError`] with what was given up at the limit; everything is closed all the same.
    pub async fn close(&self, limit: Duration) -> Result<(), CloseError> {
        // On a task of its own: begun, it is carried through, also when the caller is a handler that it ends.
        match tokio::spawn(Arc::clone(&self.inner).close(limit)).await {
            Ok(closed) => closed,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and with it everything.
                Err(_) => Ok(()),
            },
        }
    }

    pub(super) async fn find(&self, topic: &str) -> Result<Producer, ResolveError> {
        match self.inner.producers.lookup(topic) {
            Some(producer) => Ok(producer),
            None => self.open(topic).await,
        }
    }

    pub(super) async fn open(&self, topic: &str) -> Result<Producer, ResolveError> {
        let name = TopicName::new(topic)?;
        self.inner.topics.open(&name, &self.inner.router, &self.inner.producers).await
    }

    fn registry_away(&self) -> RegistryAway {
        let router = Arc::downgrade(&self.inner.router);
        Arc::new(move || router.upgrade()?.away_since())
    }

    async fn enrol(&self, group: &str) -> Result<Enrolment, SubscribeError> {
        let group = GroupName::new(group)?;
        let seat = self.inner.subscriptions.take(&group)?;
        let lease = self.inner.router.group(&group).await?;
        let route = lease.routes.clone();
        let engine = Arc::clone(&self.inner.engine);
        let dead_letters: Arc<dyn DeadLetters> = Arc::new(Arc::clone(&self.inner.dead_letters));
        let membership = Box::new(Place { seat, _lease: lease });
        let registry = Some(self.registry_away());
        Ok(Enrolment { group, engine, route, dead_letters: Some(dead_letters), registry, membership })
    }

    async fn attend(&self, topic: &str) -> Result<Enrolment, SubscribeError> {
        let topic = TopicName::new(topic)?;
        let group = GroupName::new(topic.as_str())?;
        let seat = self.inner.subscriptions.take_alone()?;
        let lease = self.inner.router.reader(&topic, &group).await?;
        let route = lease.routes.clone();
        let engine = Arc::clone(&self.inner.engine);
        let dead_letters: Arc<dyn DeadLetters> = Arc::new(Arc::clone(&self.inner.dead_letters));
        let membership = Box::new(Place { seat, _lease: lease });
        let registry = Some(self.registry_away());
        Ok(Enrolment { group, engine, route, dead_letters: Some(dead_letters), registry, membership })
    }
}

impl Inner {
    async fn close(self: Arc<Self>, limit: Duration) -> Result<(), CloseError> {
        let deadline = Instant::now() + limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        // Half of the time at most, so that the flush behind it has some.
        let subscriptions = self.subscriptions.end_all(limit / 2).await;
        let undelivered = self.producers.close(left() * 3 / 4).await;
        self.router.close(left()).await;
        // A registry that does not answer must not hold the close; its session ends by itself.
        let _late = tokio::time::timeout(left(), self.registry.close()).await;
        if subscriptions + undelivered == 0 {
            return Ok(());
        }
        Err(CloseError { limit, undelivered, subscriptions })
    }
}

impl fmt::Debug for Zms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zms")
            .field("instance", &self.inner.instance)
            .field("registry", &*self.inner.registry.session().borrow())
            .finish_non_exhaustive()
    }
}
