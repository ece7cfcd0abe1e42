//! Workers: one lane each, one message at a time.

use std::{
    any::Any,
    future::Future,
    hash::{BuildHasher, RandomState},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::FutureExt;
use tracing::{debug, warn};
use zms_core::tracker::Completed;

use super::{
    BuryError, Delivery, IntoOutcome, Outcome, RetryPolicy, Trouble,
    assignment::{Assignment, Run},
    burial::{Burial, Burials, trouble_of},
    lanes::{Bell, Inbox, Item},
    retry::Verdict,
    stats::Stats,
    throttle::Throttle,
};
use crate::panics::words_of;

/// Starts workers. What kind of handler they call is known only here.
pub(super) trait Runner: Send + Sync {
    fn start(&self, lane: usize, inbox: Arc<Inbox>) -> io::Result<Bell>;
}

/// How a run ended: what the handler said, or its panic.
type Ended = Result<(Outcome, Option<String>), Box<dyn Any + Send>>;

/// Stands for the reason where a handler gives none.
const ASKED: &str = "the handler asked for a retry";

/// What comes after a run.
enum Next<'a> {
    Nothing,
    /// Another run after this delay.
    Again(Duration),
    /// A dead letter; the run ends when that is acknowledged.
    Bury {
        run: Run<'a>,
        reason: String,
    },
}

/// One message of an item.
#[derive(Clone, Copy)]
struct Queued<'a> {
    item: &'a Item,
    index: usize,
}

fn messages_of(item: &Item) -> impl Iterator<Item = Queued<'_>> {
    (0..item.parcel.len()).map(move |index| Queued { item, index })
}

impl<'a> Queued<'a> {
    fn assignment(self) -> &'a Assignment {
        &self.item.assignment
    }

    fn offset(self) -> i64 {
        self.item.parcel.offset(self.index)
    }

    fn delivery(self, attempt: u32) -> Delivery {
        self.item.parcel.delivery(self.index, attempt)
    }
}

/// What happens around the handler, the same for all kinds.
pub(super) struct Conduct {
    retry: RetryPolicy,
    burials: Burials,
    stats: Arc<Stats>,
    random: RandomState,
    late: Throttle,
    skipped: Throttle,
}

impl Conduct {
    pub(super) fn new(retry: RetryPolicy, burials: Burials, stats: Arc<Stats>) -> Self {
        let throttle = Throttle::default;
        Self { retry, burials, stats, random: RandomState::new(), late: throttle(), skipped: throttle() }
    }

    fn attempt<'a>(&self, message: Queued<'a>, attempt: u32) -> Option<(Run<'a>, Delivery)> {
        let Some(run) = message.assignment().begin() else {
            self.stats.dropped.one();
            return None;
        };
        if attempt > 1 {
            self.stats.retries.one();
        }
        Some((run, message.delivery(attempt)))
    }

    /// Books a run, and says what comes next.
    fn book<'a>(&self, message: Queued<'a>, run: Run<'a>, attempt: u32, ended: Ended) -> Next<'a> {
        let (outcome, reason) = ended.unwrap_or_else(|panic| {
            self.stats.panics.one();
            (Outcome::Retry, Some(format!("the handler panicked: {}", words_of(panic))))
        });
        if outcome != Outcome::Done {
            self.stats.failures.one();
        }
        // Only failures wait, and need chance.
        let random = if outcome == Outcome::Done { 0 } else { self.chance(message, attempt) };
        match self.retry.judge(attempt, &outcome, random) {
            Verdict::Done => {
                self.complete(message, attempt, run);
                Next::Nothing
            }
            Verdict::Skip => {
                self.stats.skipped.one();
                if let Some(not_logged) = self.skipped.pass() {
                    warn!(message = ?message.delivery(attempt), reason, not_logged, "message skipped after its last attempt");
                }
                self.complete(message, attempt, run);
                Next::Nothing
            }
            Verdict::Bury => {
                let said = if let Outcome::DeadLetter(said) = outcome { Some(said) } else { reason };
                Next::Bury { run, reason: said.unwrap_or_else(|| ASKED.to_owned()) }
            }
            Verdict::Again { delay, blocks } => {
                // While the run counts as running its assignment cannot end under the note.
                self.note(message, attempt, blocks, reason);
                drop(run);
                Next::Again(delay)
            }
        }
    }

    /// Books an attempt to send a dead letter; the delay before the next one, or `None` when the message is over.
    fn book_burial(
        &self,
        message: Queued<'_>,
        run: Run<'_>,
        burial: &Burial<'_>,
        buried: Result<(), BuryError>,
    ) -> Option<Duration> {
        let attempt = burial.delivery.attempt();
        let Err(failure) = buried else {
            self.complete(message, attempt, run);
            return None;
        };
        message.assignment().note_trouble(trouble_of(burial, &failure));
        drop(run);
        let failures = burial.failures.saturating_add(1);
        Some(self.retry.burial_delay(failures, self.chance(message, failures)))
    }

    fn chance(&self, message: Queued<'_>, attempt: u32) -> u64 {
        self.random.hash_one((message.offset(), attempt))
    }

    fn complete(&self, message: Queued<'_>, attempt: u32, run: Run<'_>) {
        match run.complete(message.offset()) {
            Completed::Counted => self.stats.handled.one(),
            Completed::Late | Completed::Unknown => {
                self.stats.late_completions.one();
                if let Some(not_logged) = self.late.pass() {
                    warn!(message = ?message.delivery(attempt), not_logged, "handler ended after its assignment; not committed");
                }
            }
        }
    }

    fn note(&self, message: Queued<'_>, attempt: u32, blocks: bool, reason: Option<String>) {
        let reason = reason.unwrap_or_else(|| ASKED.to_owned());
        debug!(message = ?message.delivery(attempt), reason, "handler failed");
        if blocks {
            self.stats.blocked.one();
            // A partition blocks on one message at a time, so that this cannot become a flood.
            let stuck = message.delivery(attempt);
            warn!(group = %stuck.group(), cluster = %stuck.cluster(), topic = %stuck.topic(),
                  partition = stuck.partition(), offset = stuck.offset(), attempts = attempt, reason,
                  "attempts used up; the partition waits for this message, which is tried on: mend the handler");
        }
        message.assignment().note_trouble(Trouble { offset: message.offset(), attempts: attempt, reason });
    }
}

/// Workers for handlers that block: a thread each.
pub(super) struct Threads<H> {
    pub(super) name: String,
    pub(super) handler: Arc<H>,
    pub(super) conduct: Arc<Conduct>,
}

impl<H, O> Runner for Threads<H>
where
    H: Fn(Delivery) -> O + Send + Sync + 'static,
    O: IntoOutcome + 'static,
{
    fn start(&self, lane: usize, inbox: Arc<Inbox>) -> io::Result<Bell> {
        let (bell, rung) = crossbeam_channel::bounded(1);
        let (handler, conduct) = (Arc::clone(&self.handler), Arc::clone(&self.conduct));
        thread::Builder::new().name(format!("{}-{lane}", self.name)).spawn(move || {
            while rung.recv().is_ok() {
                while let Some(item) = inbox.take() {
                    messages_of(&item).for_each(|message| handle_blocking(message, &*handler, &conduct));
                }
            }
        })?;
        Ok(Bell::Thread(bell))
    }
}

fn handle_blocking<H, O>(message: Queued<'_>, handler: &H, conduct: &Conduct)
where
    H: Fn(Delivery) -> O,
    O: IntoOutcome,
{
    for attempt in 1.. {
        let Some((run, delivery)) = conduct.attempt(message, attempt) else { return };
        let ended = catch_unwind(AssertUnwindSafe(|| handler(delivery).into_outcome()));
        match conduct.book(message, run, attempt, ended) {
            Next::Nothing => return,
            Next::Again(delay) => message.assignment().pause_blocking(delay),
            Next::Bury { run, reason } => {
                return bury_blocking(message, run, &message.delivery(attempt), &reason, conduct);
            }
        }
    }
}

fn bury_blocking<'a>(
    message: Queued<'a>,
    mut run: Run<'a>,
    delivery: &Delivery,
    reason: &str,
    conduct: &Conduct,
) {
    for failures in 0.. {
        let burial = Burial { delivery, reason, failures };
        let (result, buried) = crossbeam_channel::bounded(1);
        conduct.burials.bury(&burial, move |it| drop(result.try_send(it)));
        let Ok(buried) = buried.recv() else { return };
        let Some(delay) = conduct.book_burial(message, run, &burial, buried) else { return };
        message.assignment().pause_blocking(delay);
        match message.assignment().begin() {
            Some(again) => run = again,
            None => return conduct.stats.dropped.one(),
        }
    }
}

/// Workers for handlers that are futures: a task each.
pub(super) struct Tasks<H> {
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) handler: Arc<H>,
    pub(super) conduct: Arc<Conduct>,
}

impl<H, F, O> Runner for Tasks<H>
where
    H: Fn(Delivery) -> F + Send + Sync + 'static,
    F: Future<Output = O> + Send + 'static,
    O: IntoOutcome + 'static,
{
    fn start(&self, _lane: usize, inbox: Arc<Inbox>) -> io::Result<Bell> {
        let (bell, mut rung) = tokio::sync::mpsc::channel(1);
        let (handler, conduct) = (Arc::clone(&self.handler), Arc::clone(&self.conduct));
        let task = self.runtime.spawn(async move {
            while rung.recv().await.is_some() {
                while let Some(item) = inbox.take() {
                    for message in messages_of(&item) {
                        handle(message, &*handler, &conduct).await;
                    }
                    // Handlers that never wait must not keep the thread from other tasks.
                    tokio::task::yield_now().await;
                }
            }
        });
        Ok(Bell::Task { bell, task: task.abort_handle() })
    }
}

async fn handle<H, F, O>(message: Queued<'_>, handler: &H, conduct: &Conduct)
where
    H: Fn(Delivery) -> F,
    F: Future<Output = O>,
    O: IntoOutcome,
{
    for attempt in 1.. {
        let Some((run, delivery)) = conduct.attempt(message, attempt) else { return };
        // The call itself may panic too, so that it belongs inside.
        let whole = async { handler(delivery).await.into_outcome() };
        let ended = AssertUnwindSafe(whole).catch_unwind().await;
        match conduct.book(message, run, attempt, ended) {
            Next::Nothing => return,
            Next::Again(delay) => message.assignment().pause(delay).await,
            Next::Bury { run, reason } => {
                return bury(message, run, &message.delivery(attempt), &reason, conduct).await;
            }
        }
    }
}

async fn bury<'a>(
    message: Queued<'a>,
    mut run: Run<'a>,
    delivery: &Delivery,
    reason: &str,
    conduct: &Conduct,
) {
    for failures in 0.. {
        let burial = Burial { delivery, reason, failures };
        let (result, buried) = tokio::sync::oneshot::channel();
        conduct.burials.bury(&burial, move |it| drop(result.send(it)));
        let Ok(buried) = buried.await else { return };
        let Some(delay) = conduct.book_burial(message, run, &burial, buried) else { return };
        message.assignment().pause(delay).await;
        match message.assignment().begin() {
            Some(again) => run = again,
            None => return conduct.stats.dropped.one(),
        }
    }
}
