//! One membership: a client, what it holds, and the workers that its messages go to. Lives on the poll thread.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{debug, info, warn};
use zms_core::{
    flow::{Load, Marks},
    route::GroupRoute,
    tracker::Delivered,
};

use super::{
    assignment::Assignment,
    commit::Rounds,
    delivery::Parcel,
    holdings::{Holdings, Slot},
    inspect::PauseReason,
    pace::{Streak, Timer},
    pool::{Item, Pool},
};
use crate::engine::port::{ConsumerClient, EngineError, FailureKind, Record, Records, Start};

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
/// What a member is to do with its partitions now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wish {
    /// Fetch nothing, for good.
    pub(super) leaving: bool,
    /// Fetch nothing until further notice.
    pub(super) suspended: bool,
    /// Others wait for what this member commits: commit often.
    pub(super) hurry: bool,
}

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
            poll_limit: IDLE_POLL,
            fetched: false,
        }
    }

    /// The present failure of polling, if it is failing.
    pub(super) fn failure(&self) -> Option<&EngineError> {
        self.polls.error.as_ref()
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

    /// Commits what is done, for the last time.
    pub(super) fn last_commit(&mut self) {
        self.commits.settle(&mut *self.client, &self.holdings, self.limits.commit_interval);
        let assignments = self.holdings.assignments();
        if let Err(error) = self.holdings.committer.commit(&*self.client, &assignments) {
            warn!(group = %self.route.group, cluster = %self.route.cluster.name, %error,
                  "last commit failed; what was done since the one before will be handled again");
        }
    }

    /// Takes the member apart. What still runs completes too late.
    pub(super) fn into_parts(self) -> (Box<dyn ConsumerClient>, Pool) {
        self.holdings.abandon();
        self.holdings.books.stats.dropped.add(self.pool.purge());
        (self.client, self.pool)
    }

    fn dispatch(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let sizes = self.records.iter().flat_map(Records::iter).map(|record| record.size());
        self.typical = sizes.max().unwrap_or(1).max(1);
        let now = self.holdings.books.now_ms();
        let mut slots = self.holdings.slots();
        for records in self.records.drain(..) {
            let dropped = match slots.get_mut(&records.partition()) {
                Some(slot) if !slot.fresh && slot.assignment.is_some() => {
                    deliver(&self.holdings, slot, records, &mut self.pool, now)
                }
                Some(slot) => {
                    slot.seek = true;
                    records.len()
                }
                None => records.len(),
            };
            self.holdings.books.stats.dropped.add(dropped);
        }
        drop(slots);
        self.pool.send();
    }

    fn note(&mut self, polled: Result<(), EngineError>) -> Result<(), EngineError> {
        let (group, cluster) = (&self.route.group, &self.route.cluster.name);
        if let Err(error) = &polled {
            self.holdings.books.stats.poll_errors.one();
            if error.kind == FailureKind::Fatal {
                return polled;
            }
        }
        match polled.err().or_else(|| self.holdings.take_error()) {
            Some(error) if self.polls.begins_with(&error) => {
                warn!(%group, %cluster, %error, "client reports an error; polling goes on");
            }
            // A client that fails without waiting must not spin.
            Some(_) => std::thread::sleep(FULL_POLL),
            None => {
                if let Some((error, count)) = self.polls.end_if_quiet() {
                    info!(%group, %cluster, %error, count, "client works again");
                }
            }
        }
        Ok(())
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

    /// Derives for each partition whether it may flow, and tells the client where that is news.
    fn regulate(&mut self, wish: Wish) {
        self.move_back();
        let mut slots = self.holdings.slots();
        let marks = Marks::new(self.limits.buffer, slots.len());
        let hold = wish.hold(!marks.has_room(self.holdings.books.gauge.load()));
        let (mut pause, mut resume) = (Vec::new(), Vec::new());
        let mut waits_for_workers = wish.leaving;
        for (&partition, slot) in slots.iter_mut() {
            let reason = slot.reason(hold, marks, self.limits.ahead);
            waits_for_workers |= matches!(
                reason,
                Some(PauseReason::BufferFull | PauseReason::ShareFull | PauseReason::FarAhead)
            );
            match (slot.paused, reason) {
                (None, Some(_)) => pause.push(partition),
                (Some(_), None) => resume.push(partition),
                _ => {}
            }
            slot.paused = reason;
        }
        drop(slots);
        self.poll_limit = match () {
            () if !waits_for_workers => IDLE_POLL,
            () if self.fetched || self.poll_limit > FULL_POLL => BRIEF_POLL,
            () => (self.poll_limit * 2).min(FULL_POLL),
        };
        if !pause.is_empty() {
            self.client.pause(&pause);
        }
        if !resume.is_empty() {
            self.client.resume(&resume);
        }
    }

    /// Moves the client back to where records were dropped.
    fn move_back(&mut self) {
        let mut back = Vec::new();
        for (&partition, slot) in self.holdings.slots().iter_mut() {
            slot.fresh = false;
            if let (true, Some(assignment)) = (slot.seek, &slot.assignment) {
                back.push((partition, assignment.book().tracker.next()));
            }
        }
        if back.is_empty() || !self.questions.is_due(Instant::now()) {
            return;
        }
        for (partition, offset) in back {
            match self.client.seek(partition, Start::At(offset), QUESTION_LIMIT) {
                Ok(()) => {
                    if let Some(slot) = self.holdings.slots().get_mut(&partition) {
                        slot.seek = false;
                    }
                }
                Err(error) => {
                    debug!(cluster = %self.route.cluster.name, partition, offset, %error, "seek failed; tried again");
                    self.questions.fail(Instant::now());
                    return;
                }
            }
        }
        self.questions.succeed(Instant::now());
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

impl Wish {
    const LEAVE: Self = Self { leaving: true, suspended: false, hurry: false };

    /// Why nothing at all may flow.
    fn hold(self, full: bool) -> Option<PauseReason> {
        match () {
            () if self.leaving => Some(PauseReason::Leaving),
            () if self.suspended => Some(PauseReason::Suspended),
            () if full => Some(PauseReason::BufferFull),
            () => None,
        }
    }
}

impl Slot {
    /// Why the partition must not flow.
    fn reason(&mut self, hold: Option<PauseReason>, marks: Marks, ahead: usize) -> Option<PauseReason> {
        let tracked = self.assignment.as_ref().map(|assignment| {
            let tracker = &assignment.book().tracker;
            (tracker.load(), tracker.span())
        });
        let (load, span) = tracked.unwrap_or_default();
        let open = self.valve.update(load, marks.high());
        let near = self.ahead.update_count(span, marks.ahead(ahead));
        match () {
            () if tracked.is_none() || self.seek => Some(PauseReason::Starting),
            () if hold.is_some() => hold,
            () if !open => Some(PauseReason::ShareFull),
            () if !near => Some(PauseReason::FarAhead),
            () => None,
        }
    }
}

/// Books records of one partition and adds them to the pool. How many were dropped.
fn deliver(holdings: &Holdings, slot: &mut Slot, records: Records, pool: &mut Pool, now: u64) -> usize {
    let (mut dropped, mut next) = (0, Some(records));
    while let (Some(mut records), Some(assignment)) = (next.take(), slot.assignment.clone()) {
        let booked = book(&assignment, &mut records, now);
        dropped += booked.dropped;
        holdings.books.stats.already_done.add(booked.already_done);
        next = booked.backwards;
        if !records.is_empty() {
            let load = Load { messages: records.len(), bytes: booked.bytes };
            // Before the workers see it: an item must not give back what was not taken yet.
            holdings.books.gauge.take(load);
            let parcel = Parcel::new(Arc::clone(&assignment.origin), records);
            pool.add(Item { assignment, parcel, load });
        }
        if let Some(records) = &next {
            holdings.rewind(slot, records.partition(), records.offset(0));
        }
    }
    dropped
}

/// What an assignment took in at once.
#[derive(Default)]
struct Booked {
    bytes: usize,
    dropped: usize,
    already_done: usize,
    /// Where the log started over, these and what follows them are still to be booked.
    backwards: Option<Records>,
}

/// Books records under one lock, and leaves in `records` those that are to be handled.
fn book(assignment: &Assignment, records: &mut Records, now: u64) -> Booked {
    let mut booked = Booked::default();
    let (mut kept, mut backwards) = (0, None);
    let mut book = assignment.book();
    records.retain(|record: Record<'_>| {
        if backwards.is_some() {
            return true;
        }
        let bytes = record.size();
        match book.tracker.deliver(record.offset, bytes, now) {
            Delivered::Accepted => {
                kept += 1;
                booked.bytes += bytes;
                true
            }
            Delivered::AlreadyDone => {
                booked.already_done += 1;
                false
            }
            Delivered::Stopped => {
                booked.dropped += 1;
                false
            }
            Delivered::Backwards => {
                backwards = Some(kept);
                true
            }
        }
    });
    booked.backwards = backwards.map(|index| records.split_off(index));
    booked
}
