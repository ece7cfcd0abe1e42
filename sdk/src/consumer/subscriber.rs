//! What is said before a subscription begins.

use std::{
    future::Future,
    num::NonZeroUsize,
    ops::RangeInclusive,
    sync::{Arc, atomic::AtomicU64},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use zms_core::{name::GroupName, route::GroupRoute};

use super::{
    Batch, DeadLetters, Delivery, IntoOutcome, IntoOutcomes, Ordering, RetryPolicy, SubscribeError,
    Subscription,
    burial::Burials,
    conduct::Conduct,
    context::Context,
    control::Pauses,
    driver::{ClosedAtLast, Driver},
    enrolment::{Ending, Enrolment, Pending},
    holdings::Books,
    options::Options,
    pool::{Batches, Crew, Each, Governor, Plan, Portion, Runner, Tasks, Threads},
    stats::{Gauge, Stats},
};
use crate::engine::port::Engine;

/// A subscription in the making: options, then a handler.
#[derive(Debug)]
pub struct Subscriber {
    pending: Pending,
    pub(super) options: Options,
}

impl Subscriber {
    /// Prepares a subscription of `group`. It follows `route`; when its sender is gone, the last route stands.
    pub fn new(group: GroupName, engine: Arc<dyn Engine>, route: watch::Receiver<Arc<GroupRoute>>) -> Self {
        Self::pending(Pending::new(async {
            Ok(Enrolment {
                group,
                engine,
                route,
                dead_letters: None,
                registry: None,
                membership: Box::new(()),
            })
        }))
    }

    /// Prepares a subscription of a group that has to be resolved first.
    pub(crate) fn pending(pending: Pending) -> Self {
        Self { pending, options: Options::default() }
    }

    /// Number of workers, and so of handlers that run at a time. Default: the number of processors. It can be changed
    /// later: [`Subscription::resize`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.options.workers = workers;
        self
    }

    /// Finds the number of workers out, within these bounds, from how long handlers take: it grows while that costs no
    /// latency and shrinks when it does, so that handlers do not queue up before what they all use. It begins at the lower
    /// bound and changes at most some times a second; about one thirty-second of the time half as many work, to measure.
    /// Takes the place of [`workers`](Self::workers) and of [`Subscription::resize`]. Default: not adaptive.
    ///
    /// With [`Ordering::Partition`] no more handlers run than there are partitions, whatever the number of workers.
    #[must_use]
    pub fn adaptive(mut self, workers: RangeInclusive<usize>) -> Self {
        self.options.adaptive = Some(workers);
        self
    }

    /// Begins no more messages than so many per second, over all workers of this subscription, retries included; after a
    /// pause up to `burst` at once. Each member of a group has the limit to itself. Workers that wait for it hold nothing up, a shutdown or a revocation least of all.
    /// Timers are about a millisecond precise: for a rate of `n` a burst below `n / 100` may not reach it. Default: no limit.
    #[must_use]
    pub fn rate_limit(mut self, messages_per_second: u32, burst: u32) -> Self {
        self.options.rate = Some((messages_per_second, burst));
        self
    }

    /// Which messages are handled one at a time and in order. Default [`Ordering::Partition`].
    #[must_use]
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.options.ordering = ordering;
        self
    }

    /// What happens to messages whose handler fails. Default [`RetryPolicy::new`].
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.options.retry = policy;
        self
    }

    /// What sends dead letters. Default: the [`Zms`](crate::Zms) handle that the subscription was made with, by topic
    /// name as for any message; a subscription made without one has none.
    #[must_use]
    pub fn dead_letters(mut self, sender: Arc<dyn DeadLetters>) -> Self {
        self.options.dead_letters = Some(sender);
        self
    }

    /// Messages that may be in memory, queued or being handled, divided evenly among the partitions held. A partition
    /// that has used its share is not taken from until half of it is free again. What the client library fetches
    /// ahead for each partition is apart (`queued.max.messages.kbytes`, 4 MiB here, `queued.min.messages`, 10,000, and one
    /// fetch over either); a partition that is not taken from for two seconds gives it up. Default 50,000.
    #[must_use]
    pub fn max_buffered_messages(mut self, messages: usize) -> Self {
        self.options.buffer.messages = messages;
        self
    }

    /// As [`max_buffered_messages`](Self::max_buffered_messages), in bytes of keys, payloads and headers. May be
    /// exceeded by one fetch when messages suddenly get larger. Default 64 MiB.
    #[must_use]
    pub fn max_buffered_bytes(mut self, bytes: usize) -> Self {
        self.options.buffer.bytes = bytes;
        self
    }

    /// How many messages of a partition may be taken up behind one that is not finished, done ones included, before the
    /// partition waits for it. What is done there is noted with each commit, so that a crash does not repeat it; the
    /// note has room for about 23,000 offsets in any mixture. Never more than ten times the partition's share of
    /// [`max_buffered_messages`](Self::max_buffered_messages); may be exceeded by one fetch. Default 20,000.
    #[must_use]
    pub fn max_ahead(mut self, messages: usize) -> Self {
        self.options.ahead = messages;
        self
    }

    /// Time between commits. After a crash, up to this much of what was done is handled again. Default 1 s.
    #[must_use]
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.options.commit_interval = interval;
        self
    }

    /// How long running handlers are waited for when their partitions are taken away. The group stands still
    /// meanwhile, and the client is not polled: at most half of `max.poll.interval.ms`. Also limits how long the
    /// broker is asked where to start. Default 5 s.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.options.drain_limit = limit;
        self
    }

    /// When the group has moved to another cluster: how long the group may make no progress on the old one before
    /// this member moves on all the same, leaving messages there unhandled. Default 60 s.
    #[must_use]
    pub fn switch_limit(mut self, limit: Duration) -> Self {
        self.options.departure.stalled = limit;
        self
    }

    /// When the group has moved to another cluster: how long the old one may fail to answer before this member moves
    /// on all the same. Default 10 s.
    #[must_use]
    pub fn unreachable_limit(mut self, limit: Duration) -> Self {
        self.options.departure.unreachable = limit;
        self
    }

    /// `client.id`. Default `zms-sdk`.
    #[must_use]
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.options.client_id = id.into();
        self
    }

    /// Sets a property of the client library for this subscription; it wins over the cluster's. One that the library does
    /// not know, or whose value it does not take, is refused when the subscription begins
    /// ([`SubscribeError::Option`]); one that does not fit the cluster's settings when the client is opened
    /// ([`Subscription::ready`], [`Subscription::failures`]).
    ///
    /// What the SDK sets itself is refused, with what to do in its place: `bootstrap.servers` (also by its other name,
    /// `metadata.broker.list`), `group.id`, `client.id` (see [`client_id`](Self::client_id)), `enable.auto.commit`,
    /// `enable.auto.offset.store`, `enable.partition.eof`, `auto.offset.reset` (see
    /// [`consume_from`](Self::consume_from)), `allow.auto.create.topics`, `plugin.library.paths`.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.properties.push((name.into(), value.into()));
        self
    }

    /// Begins, with a handler that is a future. Returns when the group is resolved to a cluster;
    /// [`Subscription::ready`] waits for an assignment. Dropping the future before it returns begins nothing.
    ///
    /// Each message is handled by one call at a time until it is done. A handler may be dropped at an await point
    /// only when the subscription ends with its deadline passed. Panics count as failures. The runtime needs its
    /// timer enabled.
    ///
    /// A handler that blocks its thread (`std::thread::sleep`, a blocking driver, long computing) takes it from the runtime,
    /// and with all threads taken nothing there goes on: other handlers, timers, the session with the registry. Use
    /// [`handle_blocking`](Self::handle_blocking) for it.
    ///
    /// # Errors
    /// [`SubscribeError`] when the group cannot be resolved or is subscribed to already, an option does not fit, or no
    /// thread can be started.
    pub async fn handle<H, F, O>(self, handler: H) -> Result<Subscription, SubscribeError>
    where
        H: Fn(Delivery) -> F + Send + Sync + 'static,
        F: Future<Output = O> + Send + 'static,
        O: IntoOutcome + 'static,
    {
        let enrolment = self.pending.resolve().await?;
        let runtime = runtime_of(&enrolment)?;
        let runner = Tasks { runtime, handler: Arc::new(Each(handler)) };
        begin(enrolment, self.options, Portion::One, Arc::new(runner))
    }

    /// Begins, with a handler that blocks; each worker is a thread. Otherwise as [`handle`](Self::handle).
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub async fn handle_blocking<H, O>(self, handler: H) -> Result<Subscription, SubscribeError>
    where
        H: Fn(Delivery) -> O + Send + Sync + 'static,
        O: IntoOutcome + 'static,
    {
        let enrolment = self.pending.resolve().await?;
        let runner = Threads { name: thread_name(&enrolment), handler: Arc::new(Each(handler)) };
        begin(enrolment, self.options, Portion::One, Arc::new(runner))
    }

    /// Begins, with a handler that is a future and takes up to `max` messages at once: those of one partition that are
    /// there, never waiting for more. With [`Ordering::Partition`] they follow one another; with [`Ordering::Key`] they are
    /// of one key and follow one another; without an order, messages of other batches may lie between.
    ///
    /// Messages whose outcome is done are done, whatever becomes of the others. Those that failed are handled again, in
    /// order and without the others, as one batch after the longest of their delays; what comes behind them in the order
    /// waits. Otherwise as [`handle`](Self::handle).
    ///
    /// # Errors
    /// As [`handle`](Self::handle), and when `max` is 0.
    pub async fn handle_batch<H, F, O>(self, max: usize, handler: H) -> Result<Subscription, SubscribeError>
    where
        H: Fn(Batch) -> F + Send + Sync + 'static,
        F: Future<Output = O> + Send + 'static,
        O: IntoOutcomes + 'static,
    {
        let enrolment = self.pending.resolve().await?;
        let portion = portion_of(&enrolment, max)?;
        let runtime = runtime_of(&enrolment)?;
        let runner = Tasks { runtime, handler: Arc::new(Batches(handler)) };
        begin(enrolment, self.options, portion, Arc::new(runner))
    }

    /// As [`handle_batch`](Self::handle_batch), with a handler that blocks; each worker is a thread.
    ///
    /// # Errors
    /// As [`handle_batch`](Self::handle_batch).
    pub async fn handle_batch_blocking<H, O>(
        self,
        max: usize,
        handler: H,
    ) -> Result<Subscription, SubscribeError>
    where
        H: Fn(Batch) -> O + Send + Sync + 'static,
        O: IntoOutcomes + 'static,
    {
        let enrolment = self.pending.resolve().await?;
        let portion = portion_of(&enrolment, max)?;
        let runner = Threads { name: thread_name(&enrolment), handler: Arc::new(Batches(handler)) };
        begin(enrolment, self.options, portion, Arc::new(runner))
    }
}

fn runtime_of(enrolment: &Enrolment) -> Result<tokio::runtime::Handle, SubscribeError> {
    tokio::runtime::Handle::try_current()
        .map_err(|_| SubscribeError::NoRuntime { group: enrolment.group.clone() })
}

fn thread_name(enrolment: &Enrolment) -> String {
    format!("zms-{}", enrolment.group)
}

fn portion_of(enrolment: &Enrolment, max: usize) -> Result<Portion, SubscribeError> {
    NonZeroUsize::new(max).map(Portion::UpTo).ok_or_else(|| SubscribeError::Option {
        group: enrolment.group.clone(),
        reason: "a batch of at most 0 messages; at least 1 is needed".to_owned(),
    })
}

fn begin(
    enrolment: Enrolment,
    options: Options,
    portion: Portion,
    runner: Arc<dyn Runner>,
) -> Result<Subscription, SubscribeError> {
    let Enrolment { group, engine, route, dead_letters, registry, membership } = enrolment;
    let workers =
        options.check().map_err(|reason| SubscribeError::Option { group: group.clone(), reason })?;
    engine
        .check_consumer_properties(&options.properties)
        .map_err(|reason| SubscribeError::Option { group: group.clone(), reason })?;
    let first = Arc::clone(&route.borrow());
    let ledgers = options.mode.check(&first).and_then(|()| options.mode.ledgers());
    let ledgers = ledgers.map_err(|reason| SubscribeError::Option { group: group.clone(), reason })?;
    let stats = Arc::new(Stats::default());
    let sender = options.dead_letters.clone().or(dead_letters);
    let burials = Burials::new(sender, &options.retry, &group, Arc::clone(&stats));
    if let Err(reason) = burials.check(&options.retry, &first.topic) {
        return Err(SubscribeError::Option { group, reason: format!("dead letters: {reason}") });
    }
    let refused = |reason| SubscribeError::Option { group: group.clone(), reason };
    let rate = options.rate().map_err(refused)?;
    let governor = Governor::new(rate, options.adaptive().map_err(refused)?.as_ref());
    let crew = Crew::new(workers, governor.is_adaptive());
    let conduct = Conduct::new(options.retry.clone(), burials, governor, Arc::clone(&stats));
    let conduct = Arc::new(conduct);
    let plan = Plan { ordering: options.ordering, portion, runner, conduct };
    let books = Books {
        stats,
        gauge: Arc::new(Gauge::default()),
        epochs: AtomicU64::new(1),
        drain_limit: options.drain_limit,
        pauses: Pauses::default(),
        ledgers,
        tags: options.mode.tags.clone(),
        began: Instant::now(),
    };
    let context = Arc::new(Context::new(Arc::new(books), crew, &first, registry));
    membership.began(Ending(Arc::clone(&context)));
    let drop_limit = options.drain_limit * 2;
    let driver = Driver::new(Arc::clone(&context), engine, (options, plan), route);
    let last = ClosedAtLast::of(&context);
    thread::Builder::new()
        .name(format!("zms-{group}-poll"))
        .spawn(move || {
            // Whoever learns of the end may subscribe again at once: the place is free by then. Dropped in this order
            // also when the thread panics.
            let (mut last, membership) = (last, membership);
            last.running(driver.run());
            drop(membership);
            drop(last);
        })
        .map_err(|source| SubscribeError::Thread { group, source })?;
    Ok(Subscription::new(context, drop_limit))
}
