//! One membership: a client, what it holds, and the workers that its messages go to. Lives on the poll thread.

mod booking;
mod valves;

pub(super) use valves::Wish;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{debug, info, warn};
use zms_core::{
    flow::{Load, Marks},
    route::GroupRoute,
};

use super::{
    assignment::Assignment,
    commit::Rounds,
    holdings::Holdings,
    pace::{Streak, Timer},
    pool::Pool,
};
use crate::engine::port::{ConsumerClient, ConsumerControl, EngineError, FailureKind, Records};

/// How long a poll waits when there is nothing to wait for but messages.
const IDLE_POLL: Duration = Duration::from_millis(100);
/// How long a poll waits while a buffer is full: workers that run dry wait for its end. Fast handlers empty a share of the
/// buffer within a millisecond, so the first waits are brief, and each is twice the one before up to the longest.
const BRIEF_POLL: Duration = Duration::from_micros(250);
const FULL_POLL: Duration = Duration::from_millis(5);
/// Taken for the size of a message before any was seen, so that the first fetch of large ones stays small.
const UNKNOWN_SIZE: usize = 64 << 10;
/// Limit on questions to the broker between polls.
const QUESTION_LIMIT: Duration = Duration::from_secs(2);
/// Between commits while a move to another cluster waits for them.
const HURRIED_COMMIT: Duration = Duration::from_millis(200);

/// The limits that a member keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) buffer: Load,
    pub(super) batch: usize,
    pub(super) ahead: usize,
    pub(super) commit_interval: Duration,
}

pub(super) struct Member {
    pub(super) route: Arc<GroupRoute>,
    /// It came from another cluster.
    pub(super) moved: bool,
    pub(super) holdings: Arc<Holdings>,
    pub(super) pool: Pool,
    client: Box<dyn ConsumerClient>,
    limits: Limits,
    records: Vec<Records>,
    /// Size of the largest record in the last batch that had any.
    typical: usize,
    commits: Rounds,
    questions: Timer,
    polls: Streak,
    recovery: Timer,
    poll_limit: Duration,
    /// Whether the last poll brought records.
    fetched: bool,
}

impl Member {
    pub(super) fn new(
        (route, moved): (Arc<GroupRoute>, bool),
        client: Box<dyn ConsumerClient>,
        holdings: Arc<Holdings>,
        pool: Pool,
        limits: Limits,
    ) -> Self {
        let now = Instant::now();
        Self {
            route,
            moved,
            holdings,
            pool,
            client,
            limits,
            records: Vec::new(),
            typical: UNKNOWN_SIZE,
            commits: Rounds::new(now + limits.commit_interval),
            questions: Timer::new(now),
            polls: Streak::default(),
            recovery: Timer::new(now),
            poll_limit: IDLE_POLL,
            fetched: false,
        }
    }

    /// What the client reports now, if it reports errors, and since when.
    pub(super) fn failure(&self) -> Option<(&EngineError, Instant)> {
        self.polls.present()
    }

    /// One turn: fetch, hand over, set what flows, commit what is due. An error means that the client is useless.
    pub(super) fn turn(&mut self, wish: Wish) -> Result<(), EngineError> {
        let load = self.holdings.books.gauge.load();
        let marks = Marks::new(self.limits.buffer, self.holdings.slots().len());
        let batch = marks.batch(load, self.typical, self.limits.batch);
        self.holdings.hold(wish.hold(!marks.has_room(load)));
        let polled = self.client.poll(self.poll_limit, batch, &mut self.records);
        self.fetched = !self.records.is_empty();
        self.dispatch();
        self.note(polled)?;
        if self.holdings.take_untidy() {
            let dropped = self.pool.purge();
            self.holdings.books.stats.dropped.add(dropped);
        }
        self.resolve();
        self.regulate(wish);
        self.commit_on_time(wish);
        Ok(())
    }

    /// Stops fetching and skips what is queued; what runs may end until `deadline`. Polls on meanwhile, so that the group does not take the member for dead. How many handlers were left running.
    pub(super) fn wind_up(&mut self, deadline: impl Fn() -> Instant) -> usize {
        let running = |assignments: &[Arc<Assignment>]| {
            assignments.iter().map(|assignment| assignment.running()).sum::<usize>()
        };
        self.holdings.stop_all();
        self.regulate(Wish::LEAVE);
        self.poll_limit = FULL_POLL;
        while running(&self.holdings.assignments()) > 0 && Instant::now() < deadline() {
            if self.turn(Wish::LEAVE).is_err() {
                break;
            }
            // What was given meanwhile is not begun either.
            self.holdings.stop_all();
        }
        running(&self.holdings.assignments())
    }

    /// Commits what is done, for the last time. A group that is forming anew takes no commit until it stands: it is
    /// waited for until `deadline`.
    pub(super) fn last_commit(&mut self, deadline: impl Fn() -> Instant) {
        self.commits.settle(&mut *self.client, &self.holdings, self.limits.commit_interval);
        while let Err(error) = self.holdings.committer.commit(&*self.client, &self.holdings.assignments()) {
            let may_pass = error.kind == FailureKind::Superseded && Instant::now() < deadline();
            // The news of how the group stands now ends the poll.
            self.poll_limit = IDLE_POLL;
            if !may_pass || self.turn(Wish::LEAVE).is_err() {
                warn!(group = %self.route.group, cluster = %self.route.cluster.name, %error,
                      "last commit failed; what was done since the one before will be handled again");
                return;
            }
            self.holdings.stop_all();
        }
    }

    /// Takes the member apart. What still runs completes too late.
    pub(super) fn into_parts(self) -> (Box<dyn ConsumerClient>, Pool) {
        self.holdings.abandon();
        self.holdings.books.stats.dropped.add(self.pool.purge());
        (self.client, self.pool)
    }

    /// What the client's thread may ask and order.
    pub(super) fn control(&self) -> &dyn ConsumerControl {
        &*self.client
    }

    /// A partition begins anew: moves the client there before it fetches again, and has that committed.
    pub(super) fn settle(&mut self, wish: Wish) {
        self.regulate(wish);
        self.commits.not_later_than(Instant::now());
    }

    fn note(&mut self, polled: Result<(), EngineError>) -> Result<(), EngineError> {
        let (group, cluster) = (&self.route.group, &self.route.cluster.name);
        if let Err(error) = &polled {
            self.holdings.books.stats.poll_errors.one();
            if matches!(error.kind, FailureKind::Fatal | FailureKind::Fenced) {
                return polled;
            }
        }
        match polled.err().or_else(|| self.holdings.take_error()) {
            Some(error) if self.polls.take(&error, Instant::now()) => {
                warn!(%group, %cluster, %error, "client reports an error; polling goes on");
            }
            // A client that fails without waiting must not spin. Where others flow, they go on.
            Some(_) if self.fetched => std::thread::sleep(FULL_POLL),
            Some(_) => std::thread::sleep(IDLE_POLL),
            None => self.look_for_recovery(),
        }
        Ok(())
    }

    /// A client that is refused says so once and is quiet then, so that a streak of errors is over only when the cluster
    /// answers what it is asked.
    fn look_for_recovery(&mut self) {
        let now = Instant::now();
        if !self.polls.is_quiet(now) || !self.recovery.is_due(now) || self.commits.are_failing() {
            return;
        }
        match self.ask() {
            Ok(()) => {
                self.recovery.succeed(now);
                if let Some((error, count)) = self.polls.end() {
                    let (group, cluster) = (&self.route.group, &self.route.cluster.name);
                    info!(%group, %cluster, %error, count, "client works again");
                }
            }
            Err(error) => {
                debug!(%error, "client does not work yet");
                self.recovery.fail(Instant::now());
            }
        }
    }

    /// Whether the topic is there and, if that was refused, the group is open to this client.
    fn ask(&self) -> Result<(), EngineError> {
        if self.client.partitions(QUESTION_LIMIT)? == 0 {
            let reason = format!("topic {} does not exist on this cluster", self.route.topic);
            return Err(EngineError { kind: FailureKind::UnknownTopic, reason });
        }
        match self.polls.present() {
            Some((error, _)) if error.kind.is_lasting() => {
                let any = self.holdings.slots().keys().next().copied().unwrap_or(0);
                self.client.committed(&[any], QUESTION_LIMIT).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn resolve(&mut self) {
        let now = Instant::now();
        if !self.questions.is_due(now) || self.holdings.unresolved().is_empty() {
            return;
        }
        self.holdings.resolve_again(&*self.client, QUESTION_LIMIT);
        if self.holdings.unresolved().is_empty() {
            self.questions.succeed(Instant::now());
            self.commits.not_later_than(now);
        } else {
            self.questions.fail(Instant::now());
        }
    }

    fn commit_on_time(&mut self, wish: Wish) {
        let interval = self.commit_interval(wish);
        self.commits.turn(&mut *self.client, &self.holdings, interval);
    }

    fn commit_interval(&self, wish: Wish) -> Duration {
        let usual = self.limits.commit_interval;
        if wish.hurry { usual.min(HURRIED_COMMIT) } else { usual }
    }
}
