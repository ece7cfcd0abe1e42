//! The partitions that a member holds, as the broker gives and takes them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tracing::{debug, warn};
use zms_core::{
    flow::Valve,
    tracker::{Epoch, Tracker},
};

use super::{
    assignment::Assignment,
    commit::Committer,
    control::Pauses,
    delivery::Origin,
    inspect::PauseReason,
    ledger::Ledgers,
    start::{Begin, Rule},
    stats::{Gauge, Stats},
    tags::Tags,
};
use crate::engine::port::{AssignmentListener, ConsumerControl, EngineError, FailureKind, Start};

/// What all memberships of a subscription share.
pub(super) struct Books {
    pub(super) stats: Arc<Stats>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) epochs: AtomicU64,
    pub(super) drain_limit: Duration,
    pub(super) pauses: Pauses,
    /// For positions that are not kept at the broker.
    pub(super) ledgers: Ledgers,
    /// Messages wanted; `None`: all.
    pub(super) tags: Option<Tags>,
    /// Ages are counted from here.
    pub(super) began: Instant,
}

impl Books {
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The partitions held through one client. A client that is replaced keeps its own, so that its last calls cannot
/// touch those of its successor.
pub(super) struct Holdings {
    pub(super) origin: Arc<Origin>,
    pub(super) books: Arc<Books>,
    pub(super) committer: Committer,
    rule: Rule,
    /// Why nothing at all may flow now; partitions that are given meanwhile must not flow for an instant.
    hold: Mutex<Option<PauseReason>>,
    // Never held across a call to the client: such calls block, and call back into this listener.
    slots: Mutex<BTreeMap<i32, Slot>>,
    joined: AtomicBool,
    untidy: AtomicBool,
    last_error: Mutex<Option<EngineError>>,
}

/// One partition held.
pub(super) struct Slot {
    /// `None` until it is known where to start.
    pub(super) assignment: Option<Arc<Assignment>>,
    /// Assigned during the present poll. Records in that poll's batch may stem from before the assignment.
    pub(super) fresh: bool,
    /// Records were dropped: the client has to move back before it goes on.
    pub(super) seek: bool,
    pub(super) valve: Valve,
    /// Closes when the work is too far ahead of the position.
    pub(super) ahead: Valve,
    /// As the client was last told. It lets flow what it assigns, unless told otherwise within the assignment.
    pub(super) paused: Option<PauseReason>,
}

impl Slot {
    fn new(assignment: Option<Arc<Assignment>>, hold: Option<PauseReason>) -> Self {
        let paused = if assignment.is_none() { Some(PauseReason::Starting) } else { hold };
        Self {
            assignment,
            fresh: true,
            seek: false,
            valve: Valve::default(),
            ahead: Valve::default(),
            paused,
        }
    }
}

impl Holdings {
    pub(super) fn new(origin: Arc<Origin>, books: Arc<Books>, rule: Rule) -> Self {
        let committer = Committer::new(Arc::clone(&books.stats));
        Self {
            origin,
            books,
            committer,
            rule,
            hold: Mutex::default(),
            slots: Mutex::default(),
            joined: AtomicBool::new(false),
            untidy: AtomicBool::new(false),
            last_error: Mutex::default(),
        }
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, BTreeMap<i32, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets why nothing at all may flow.
    pub(super) fn hold(&self, reason: Option<PauseReason>) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Whether the group has answered with an assignment.
    pub(super) fn is_joined(&self) -> bool {
        self.joined.load(Relaxed)
    }

    /// Whether workers may hold items of ended assignments; asking resets it.
    pub(super) fn take_untidy(&self) -> bool {
        self.untidy.swap(false, Relaxed)
    }

    /// Lanes may hold items of ended assignments.
    pub(super) fn mark_untidy(&self) {
        self.untidy.store(true, Relaxed);
    }

    /// What went wrong while an assignment was taken in or given back, once.
    pub(super) fn take_error(&self) -> Option<EngineError> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn assignments(&self) -> Vec<Arc<Assignment>> {
        self.slots().values().filter_map(|slot| slot.assignment.clone()).collect()
    }

    /// The positions of all that is held.
    pub(super) fn positions(&self) -> BTreeMap<i32, i64> {
        let assignments = self.assignments();
        assignments.iter().map(|held| (held.partition, held.book().tracker.position())).collect()
    }

    /// Partitions without a start yet.
    pub(super) fn unresolved(&self) -> Vec<i32> {
        self.slots().iter().filter(|(_, slot)| slot.assignment.is_none()).map(|(p, _)| *p).collect()
    }

    /// Finds out where the partitions without a start begin, moves the client there and commits it.
    pub(super) fn resolve_again(&self, control: &dyn ConsumerControl, limit: Duration) {
        let open = self.unresolved();
        for (partition, begin) in self.begins(control, &open, limit) {
            let assignment = self.open(partition, begin);
            if let Some(slot) = self.slots().get_mut(&partition) {
                slot.assignment = Some(assignment);
                slot.seek = true;
            }
        }
    }

    /// A new assignment of a partition whose log has started over at `offset`. The earlier one ends.
    pub(super) fn rewind(&self, slot: &mut Slot, partition: i32, offset: i64) {
        if let Some(old) = slot.assignment.take() {
            old.stop();
            let mut book = old.book();
            book.tracker.close();
            warn!(cluster = %self.origin.cluster, topic = %self.origin.topic, partition,
                  expected = book.tracker.next(), offset, "log started over; handling again from there");
        }
        self.books.stats.rewinds.one();
        slot.assignment = Some(self.open(partition, Begin::anew(offset)));
        self.untidy.store(true, Relaxed);
    }

    /// Nothing begins any more.
    pub(super) fn stop_all(&self) {
        for assignment in self.assignments() {
            assignment.stop();
        }
    }

    /// Ends all assignments without a commit.
    pub(super) fn abandon(&self) {
        let slots = std::mem::take(&mut *self.slots());
        end(&slots.into_values().filter_map(|slot| slot.assignment).collect::<Vec<_>>());
        self.untidy.store(true, Relaxed);
    }

    fn begins(
        &self,
        control: &dyn ConsumerControl,
        partitions: &[i32],
        limit: Duration,
    ) -> BTreeMap<i32, Begin> {
        let (begins, failure) = self.rule.resolve(control, partitions, limit);
        for (partition, begin) in begins.iter().filter(|(_, begin)| begin.committed.is_none()) {
            debug!(group = %self.origin.group, cluster = %self.origin.cluster, topic = %self.origin.topic, partition,
                   offset = begin.offset, "start of the partition fixed");
        }
        if failure.is_some() {
            self.keep_error(failure);
        }
        begins
    }

    pub(super) fn open(&self, partition: i32, begin: Begin) -> Arc<Assignment> {
        let epoch = Epoch(self.books.epochs.fetch_add(1, Relaxed));
        let mut tracker = Tracker::new(epoch, begin.offset, begin.committed);
        tracker.resume(begin.done);
        Arc::new(Assignment::new(Arc::clone(&self.origin), partition, Arc::clone(&self.books.gauge), tracker))
    }

    /// Takes partitions out, stopped already: once they are no longer shown, none of their queued work begins.
    fn take(&self, partitions: &[i32]) -> Vec<Arc<Assignment>> {
        let mut slots = self.slots();
        let held = partitions.iter().filter_map(|partition| slots.get(partition)?.assignment.clone());
        let held: Vec<_> = held.inspect(|assignment| assignment.stop()).collect();
        slots.retain(|partition, _| !partitions.contains(partition));
        held
    }

    fn commit(&self, control: &dyn ConsumerControl, assignments: &[Arc<Assignment>]) {
        let mut result = self.committer.commit(control, assignments);
        if matches!(&result, Err(error) if error.kind == FailureKind::Other) {
            result = self.committer.commit(control, assignments);
        }
        self.keep_error(result.err());
    }

    pub(super) fn keep_error(&self, error: Option<EngineError>) {
        if error.is_some() {
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        }
    }
}

impl AssignmentListener for Holdings {
    fn assigned(&self, control: &dyn ConsumerControl, partitions: &[i32]) -> Vec<(i32, Start)> {
        self.books.stats.assignments.one();
        if partitions.is_empty() {
            self.joined.store(true, Relaxed);
            return Vec::new();
        }
        // Given without having been taken: what was in work under the earlier assignment must not count in this one.
        end(&self.take(partitions));
        let begins = self.begins(control, partitions, self.books.drain_limit);
        let hold = *self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let paused = self.books.pauses.now();
        let (mut assignments, mut pause) = (Vec::new(), Vec::new());
        for &partition in partitions {
            let assignment = begins.get(&partition).map(|begin| self.open(partition, begin.clone()));
            assignments.extend(assignment.clone());
            let slot = Slot::new(assignment, hold.or_else(|| paused.reason(partition)));
            pause.extend(slot.paused.map(|_| partition));
            self.slots().insert(partition, slot);
        }
        if !pause.is_empty() {
            control.pause(&pause);
        }
        // A start that was chosen is committed at once: a group that begins at the end would otherwise begin at a
        // later end after a crash, and skip what came between.
        self.commit(control, &assignments);
        self.joined.store(true, Relaxed);
        begins.into_iter().map(|(partition, begin)| (partition, Start::At(begin.offset))).collect()
    }

    fn revoked(&self, control: &dyn ConsumerControl, partitions: &[i32], lost: bool) {
        let stats = &self.books.stats;
        let taken = self.take(partitions);
        stats.revocations.one();
        if lost {
            stats.losses.one();
        } else {
            let deadline = Instant::now() + self.books.drain_limit;
            let busy: Vec<i32> =
                taken.iter().filter(|a| !a.drained_by(deadline)).map(|a| a.partition).collect();
            if !busy.is_empty() {
                stats.drain_timeouts.one();
                warn!(group = %self.origin.group, cluster = %self.origin.cluster, topic = %self.origin.topic,
                      partitions = ?busy, limit = ?self.books.drain_limit,
                      "handlers still run while their partitions are taken; their messages will be handled again");
            }
            self.commit(control, &taken);
        }
        end(&taken);
        self.untidy.store(true, Relaxed);
    }
}

/// Stops and closes: what still runs completes too late.
fn end(assignments: &[Arc<Assignment>]) {
    for assignment in assignments {
        assignment.stop();
        assignment.book().tracker.close();
    }
}
