//! The only place that commits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tracing::{debug, warn};
use zms_core::tracker::Mark;

use super::{assignment::Assignment, holdings::Holdings, pace::Timer, stats::Stats};
use crate::engine::port::{ConsumerClient, ConsumerControl, EngineError, FailureKind, Position};

/// The text beside a position takes at most this many bytes. Brokers take 4,096 unless told otherwise.
const METADATA_LIMIT: usize = 4000;
/// After this long a commit between polls counts as failed. It does not hold the poll thread, so that it may be longer
/// than a slow coordinator takes.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// After this many commits in a row that failed, the client counts as failing.
const MANY_FAILURES: u32 = 3;

/// Commits what is due of assignments. After a failure everything is still due, so that the next commit carries the
/// newest positions.
pub(super) struct Committer {
    stats: Arc<Stats>,
    /// The cluster's brokers take no texts as long as ours: positions alone are committed.
    plain: AtomicBool,
}

/// What is committed in one request.
#[derive(Default)]
pub(super) struct Round(Vec<(Arc<Assignment>, Mark)>);

impl Round {
    fn positions(&self) -> Vec<Position> {
        let position = |(assignment, mark): &(Arc<Assignment>, Mark)| Position {
            partition: assignment.partition,
            offset: mark.offset,
            metadata: mark.metadata.clone(),
        };
        self.0.iter().map(position).collect()
    }
}

impl Committer {
    pub(super) fn new(stats: Arc<Stats>) -> Self {
        Self { stats, plain: AtomicBool::new(false) }
    }

    /// Commits what is due of these assignments, in one request, and waits for the answer.
    pub(super) fn commit(
        &self,
        control: &dyn ConsumerControl,
        assignments: &[Arc<Assignment>],
    ) -> Result<(), EngineError> {
        let plain = self.plain.load(Relaxed);
        let result = self.attempt(control, assignments);
        if self.plain.load(Relaxed) == plain { result } else { self.attempt(control, assignments) }
    }

    fn attempt(
        &self,
        control: &dyn ConsumerControl,
        assignments: &[Arc<Assignment>],
    ) -> Result<(), EngineError> {
        let round = self.due(assignments);
        if round.0.is_empty() {
            return Ok(());
        }
        let answer = control.commit(&round.positions());
        self.book(round, answer)
    }

    fn due(&self, assignments: &[Arc<Assignment>]) -> Round {
        let limit = if self.plain.load(Relaxed) { 0 } else { METADATA_LIMIT };
        Round(
            assignments.iter().filter_map(|a| Some((Arc::clone(a), a.book().tracker.due(limit)?))).collect(),
        )
    }

    fn book(&self, round: Round, answer: Result<(), EngineError>) -> Result<(), EngineError> {
        if let Err(error) = answer {
            self.stats.commit_failures.one();
            debug!(%error, partitions = round.0.len(), "commit failed; the newest positions are committed again");
            if error.kind == FailureKind::TooLarge && !self.plain.swap(true, Relaxed) {
                warn!(%error, limit = METADATA_LIMIT, "the brokers' offset.metadata.max.bytes is too small to note what \
                      is done above a position; positions alone are committed, and a crash repeats more");
            }
            return Err(error);
        }
        self.stats.commits.one();
        for (assignment, mark) in round.0 {
            assignment.book().tracker.committed_to(mark);
        }
        Ok(())
    }
}

/// The commits between polls, which never keep the poll thread waiting: one at a time is on its way.
pub(super) struct Rounds {
    timer: Timer,
    under_way: Option<(Round, Instant)>,
}

impl Rounds {
    pub(super) fn new(first: Instant) -> Self {
        Self { timer: Timer::new(first), under_way: None }
    }

    /// Whether the last commit failed.
    pub(super) fn are_failing(&self) -> bool {
        self.timer.failures() > 0
    }

    /// The next commit is due at `at`, unless commits are failing.
    pub(super) fn not_later_than(&mut self, at: Instant) {
        self.timer.not_later_than(at);
    }

    /// Takes in the answer to the last commit and, `interval` after that, begins the next.
    pub(super) fn turn(&mut self, client: &mut dyn ConsumerClient, holdings: &Holdings, interval: Duration) {
        self.settle(client, holdings, interval);
        if self.under_way.is_some() || !self.timer.is_due(Instant::now()) {
            return;
        }
        let round = holdings.committer.due(&holdings.assignments());
        if round.0.is_empty() {
            self.timer.succeed(Instant::now() + interval);
            return;
        }
        let begun = client.begin_commit(&round.positions());
        self.under_way = Some((round, Instant::now() + ANSWER_LIMIT));
        match begun {
            Ok(()) => self.settle(client, holdings, interval),
            Err(error) => self.end(holdings, Err(error), interval),
        }
    }

    /// Takes in the answer to the last commit, if it is there.
    pub(super) fn settle(
        &mut self,
        client: &mut dyn ConsumerClient,
        holdings: &Holdings,
        interval: Duration,
    ) {
        let Some((_, deadline)) = &self.under_way else { return };
        let given_up = || (Instant::now() >= *deadline).then(|| Err(unanswered()));
        if let Some(answer) = client.poll_commit().or_else(given_up) {
            self.end(holdings, answer, interval);
        }
    }

    fn end(&mut self, holdings: &Holdings, answer: Result<(), EngineError>, interval: Duration) {
        let Some((round, _)) = self.under_way.take() else { return };
        let now = Instant::now();
        match holdings.committer.book(round, answer) {
            Ok(()) => self.timer.succeed(now + interval),
            Err(error) => {
                self.timer.fail(now);
                // One that fails while the group forms anew is nothing to tell of.
                if error.kind.is_lasting() || self.timer.failures() >= MANY_FAILURES {
                    holdings.keep_error(Some(error));
                }
            }
        }
    }
}

fn unanswered() -> EngineError {
    let reason = format!("no answer to a commit within {ANSWER_LIMIT:?}");
    EngineError { kind: FailureKind::Unreachable, reason }
}

#[cfg(test)]
mod tests;
