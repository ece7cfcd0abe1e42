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
    time::{Instant, sleep, timeout, timeout_at},
};
use zms_core::route::TopicRoute;

use super::{
    buffer::Buffer,
    clients::Clients,
    handle::Producer,
    map::TopicMap,
    options::ProducerConfig,
    sink::TopicSink,
    stats::{Counters, ProducerStats},
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
}

/// How often clients are looked at, and the least time between two replacements.
const CARE: Duration = Duration::from_secs(1);
/// How often a topic whose client cannot be opened is tried again, in rounds of [`CARE`].
const RETRY_ROUNDS: u64 = 5;

impl Producers {
    /// Starts on the current runtime, which also runs its background work.
    pub(crate) fn start(engine: Arc<dyn Engine>, config: ProducerConfig) -> Arc<Self> {
        let counters = Arc::new(Counters::default());
        let core = Arc::new(Core {
            buffer: Buffer::new(config.options.buffer),
            clients: Clients::new(engine, config.options.client_id.clone(), counters.clone()),
            counters,
            attention: Arc::default(),
            released: Notify::new(),
            runtime: tokio::runtime::Handle::current(),
            config,
        });
        let topics = Arc::new(TopicMap::new());
        core.runtime.spawn(care(core.attention.clone(), Arc::downgrade(&core), Arc::downgrade(&topics)));
        Arc::new(Self { core, topics, closed: watch::Sender::new(None), closing: false.into() })
    }

    /// The producer of a topic that has had a route; takes no lock and allocates nothing.
    pub(crate) fn lookup(&self, topic: &str) -> Option<Producer> {
        self.topics.find(topic).map(Producer::new)
    }

    /// Takes no more messages, sends held ones if their routes open in time, flushes all clients in parallel, and
    /// ends what is left. When it returns every send has its result; the number given up.
    ///
    /// Senders that wait for room end at once. A second call waits for the first and does nothing else. Dropping the
    /// future does not stop the closing.
    pub(crate) async fn close(self: &Arc<Self>, limit: Duration) -> usize {
        if !self.closing.swap(true, Ordering::AcqRel) {
            let this = self.clone();
            self.core.runtime.spawn(async move {
                let given_up = this.shut_down(Instant::now() + limit, limit).await;
                this.closed.send_replace(Some(given_up));
            });
        }
        let mut closed = self.closed.subscribe();
        closed.wait_for(Option::is_some).await.map_or(0, |given_up| given_up.unwrap_or(0))
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
        let shares: usize = self.topics.all().iter().map(|topic| topic.share.load().waiting()).sum();
        ProducerStats {
            waiting: shares + self.core.buffer.waiting(),
            free_bytes: self.core.buffer.free(),
            ..self.core.counters.snapshot()
        }
    }

    #[cfg(test)]
    pub(super) fn buffer_total(&self) -> usize {
        self.core.buffer.total()
    }

    async fn shut_down(&self, deadline: Instant, limit: Duration) -> usize {
        self.seal();
        // Held sends may wait for their route for most of the time; the rest is for the flush.
        let patience = deadline - limit / 4;
        let _late = timeout_at(patience, self.nothing_held()).await;
        self.topics.all().iter().for_each(|topic| topic.close_held());
        self.core.clients.close(deadline).await
    }

    fn seal(&self) {
        self.core.buffer.close();
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
