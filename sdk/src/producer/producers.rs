//! All producers of one handle.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use zms_core::{
    name::{ClusterName, TopicName},
    route::TopicRoute,
};

use super::{
    clients::Clients,
    handle::Producer,
    holding::Why,
    map::TopicMap,
    options::ProducerConfig,
    profile::ProducerConfigError,
    room::Pool,
    sink::TopicSink,
    stats::{Counters, PoolStats, ProducerStats},
    topic::{Core, Topic},
};
use crate::{engine::port::Engine, registry::port::BoxFuture};

/// The producers of one handle: topics by name, the clients that they share, the buffer in front of them.
///
/// Routes come in by [`TopicSink::adopt`]; sends go out by [`lookup`](Self::lookup). Dropped without
/// [`close`](Self::close), it closes its clients in the background.
pub(crate) struct Producers {
    core: Arc<Core>,
    topics: Arc<TopicMap>,
    closed: watch::Sender<Option<usize>>,
    closing: AtomicBool,
    /// By when a close has to end: the earliest that was asked for.
    deadline: watch::Sender<Option<Instant>>,
}

/// How often clients are looked at, and the least time between two replacements.
const CARE: Duration = Duration::from_secs(1);
/// How long after its deadline a close that gets no answer from its clients is left to the background.
const UNANSWERED: Duration = Duration::from_millis(2_500);
/// How often a topic whose client cannot be opened is tried again, in rounds of [`CARE`].
const RETRY_ROUNDS: u64 = 5;

impl Producers {
    /// Starts on the current runtime, which also runs its background work.
    pub(crate) fn start(engine: Arc<dyn Engine>, config: ProducerConfig) -> Arc<Self> {
        let counters = Arc::new(Counters::default());
        let core = Arc::new(Core {
            pool: Arc::new(Pool::new(config.options.buffer, config.options.block_size, config.shares)),
            clients: Clients::new(engine, config.options.client_id.clone(), counters.clone()),
            counters,
            attention: Arc::default(),
            released: Notify::new(),
            runtime: tokio::runtime::Handle::current(),
            config,
        });
        let topics = Arc::new(TopicMap::new());
        core.runtime.spawn(care(core.attention.clone(), Arc::downgrade(&core), Arc::downgrade(&topics)));
        let (closed, deadline) = (watch::Sender::new(None), watch::Sender::new(None));
        Arc::new(Self { core, topics, closed, closing: false.into(), deadline })
    }

    /// The producer of a topic that has had a route; takes no lock and allocates nothing.
    pub(crate) fn lookup(&self, topic: &str) -> Option<Producer> {
        self.topics.find(topic).map(Producer::new)
    }

    /// Takes no more messages, sends held ones if their routes open in time, flushes all clients in parallel, and
    /// ends what is left. When it returns every send has its result; the number given up.
    ///
    /// Senders that wait for room end at once. A second call waits for the same end; of several limits the earliest
    /// holds. Dropping the future does not stop the closing. When the runtime that this was started on has gone, the
    /// caller's takes its place.
    pub(crate) async fn close(self: &Arc<Self>, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        self.deadline
            .send_modify(|earliest| *earliest = Some(earliest.map_or(deadline, |it| it.min(deadline))));
        let closing = async {
            if self.closing.swap(true, Ordering::AcqRel) {
                self.core.clients.hasten(limit);
            } else if self.core.runtime.spawn(self.clone().shut_down()).await.is_err() {
                self.clone().shut_down().await;
            }
            let mut closed = self.closed.subscribe();
            closed.wait_for(Option::is_some).await.map_or(0, |given_up| given_up.unwrap_or(0))
        };
        timeout_at(deadline + UNANSWERED, closing).await.unwrap_or_else(|_| self.unfinished())
    }

    /// The runtime that the background work runs on.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.core.runtime
    }

    /// Counts a one-way message that never reached its topic's producer; logs the first.
    pub(crate) fn drop_oneway(&self, topic: &str, reason: &dyn std::fmt::Display) {
        let before = self.core.counters.dropped_oneway.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            tracing::warn!(topic, %reason, "a one-way message was dropped; further ones are only counted");
        }
    }

    pub(crate) fn stats(&self) -> ProducerStats {
        let pool = PoolStats::of(&self.core.pool);
        ProducerStats { waiting: pool.waiting, free_bytes: pool.free, pool, ..self.core.counters.snapshot() }
    }

    /// Topics for which no client can be opened, with their cluster and the reason.
    pub(crate) fn unusable(&self) -> Vec<(TopicName, ClusterName, String)> {
        let unusable = |topic: Arc<Topic>| match topic.why() {
            Why::Unusable { cluster, reason } => Some((topic.name.clone(), cluster, reason)),
            _ => None,
        };
        self.topics.all().into_iter().filter_map(unusable).collect()
    }

    /// Changes the total of the send buffer while everything runs. Made smaller, it takes effect as reports come in;
    /// senders who wait for more than there can ever be now learn it at once.
    pub(crate) fn resize_buffer(&self, bytes: usize) -> Result<(), ProducerConfigError> {
        self.core.config.options.check_buffer(bytes)?;
        self.core.pool.resize(bytes);
        Ok(())
    }

    async fn shut_down(self: Arc<Self>) {
        self.seal();
        self.held_sends_have_gone().await;
        self.topics.all().iter().for_each(|topic| topic.close_held());
        let given_up = self.core.clients.close(|| self.deadline.borrow().unwrap_or_else(Instant::now)).await;
        self.closed.send_replace(Some(given_up));
    }

    /// Held sends may wait for their route for most of the time; the rest is for the flush.
    async fn held_sends_have_gone(&self) {
        let began = Instant::now();
        let mut deadline = self.deadline.subscribe();
        let nothing_held = self.nothing_held();
        tokio::pin!(nothing_held);
        loop {
            let end = deadline.borrow_and_update().unwrap_or(began);
            tokio::select! {
                () = &mut nothing_held => return,
                () = sleep_until(end - end.saturating_duration_since(began) / 4) => return,
                // An earlier one; its sender lives as long as this.
                _ = deadline.changed() => {}
            }
        }
    }

    /// Messages accepted that have no result yet.
    fn unfinished(&self) -> usize {
        let in_flight: usize = self.topics.all().iter().map(|topic| topic.gate.in_flight()).sum();
        in_flight + self.core.counters.held_now.load(Ordering::Acquire)
    }

    fn seal(&self) {
        self.core.pool.close();
        self.topics.close();
    }

    async fn nothing_held(&self) {
        loop {
            let released = self.core.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if self.core.counters.held_now.load(Ordering::Acquire) == 0 {
                return;
            }
            released.await;
        }
    }
}

impl TopicSink for Producers {
    fn adopt(self: Arc<Self>, route: Arc<TopicRoute>) -> BoxFuture<'static, ()> {
        let topic =
            self.topics.find_or_add(&route.topic, || Topic::new(route.topic.clone(), self.core.clone()));
        // On a task of its own: a change half made must be finished, also when nobody waits for it any more.
        let adopting = self.core.runtime.spawn(topic.adopt(route));
        Box::pin(async move {
            if let Err(error) = adopting.await {
                tracing::error!(%error, "adopting a route failed");
            }
        })
    }
}

impl Drop for Producers {
    fn drop(&mut self) {
        self.seal();
        self.topics.all().iter().for_each(|topic| topic.close_held());
        self.core.clients.abandon();
    }
}

/// Replaces failed clients, tries again what could not be opened, closes idle clients; until the handle is gone.
async fn care(attention: Arc<Notify>, core: Weak<Core>, topics: Weak<TopicMap>) {
    for round in 1_u64.. {
        let _either_way = timeout(CARE, attention.notified()).await;
        let (Some(core), Some(topics)) = (core.upgrade(), topics.upgrade()) else { return };
        core.clients.close_idle(core.config.options.idle_timeout);
        let replaced = core.clients.replace_failed();
        for topic in topics.all() {
            if topic.needs_recovery(round % RETRY_ROUNDS == 0) {
                core.runtime.spawn(topic.recover());
            }
        }
        drop((core, topics));
        if replaced {
            sleep(CARE).await;
        }
    }
}
