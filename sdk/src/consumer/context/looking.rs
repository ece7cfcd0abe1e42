//! What can be seen of a subscription from outside.

use std::{sync::Arc, time::Duration};

use zms_core::tracker::Tracker;

use super::{Context, Phase};
use crate::consumer::{
    assignment::Assignment,
    health::{Cause, Health},
    holdings::Holdings,
    inspect::{Inspection, OldestView, PartitionView, PauseReason, State},
};

/// Beyond the drain limit, which the poll thread may wait for, it may be away this long.
const ABSENCE: Duration = Duration::from_secs(30);

/// One partition held, as copied from under the lock of all.
struct Held {
    partition: i32,
    assignment: Option<Arc<Assignment>>,
    paused: Option<PauseReason>,
}

impl Context {
    /// Locks one thing at a time, each for as long as a copy takes: neither the poll thread nor a worker waits for the
    /// whole of it.
    pub(in crate::consumer) fn inspect(&self) -> Inspection {
        let phase = self.phase.borrow().clone();
        let (holdings, mut inspection) = {
            let view = self.view();
            let inspection = Inspection {
                state: State::Opening,
                cluster: view.cluster.clone(),
                route: view.route.clone(),
                topic: view.topic.clone(),
                failure: view.failure.clone(),
                buffered_messages: 0,
                buffered_bytes: 0,
                counts: self.books.stats.snapshot(),
                partitions: Vec::new(),
            };
            (view.holdings.clone(), inspection)
        };
        inspection.state = match phase {
            Phase::Closed(_) => State::Closed,
            _ if self.stop.deadline().is_some() => State::Stopping,
            Phase::Opening | Phase::Refused(_) => State::Opening,
            _ if inspection.cluster != inspection.route => State::Switching,
            Phase::Joining => State::Joining,
            Phase::Running => State::Running,
        };
        let now = self.books.now_ms();
        let held = holdings.as_deref().map(held).unwrap_or_default();
        inspection.partitions = held.iter().map(|held| self.view_of(held, now)).collect();
        let load = self.books.gauge.load();
        (inspection.buffered_messages, inspection.buffered_bytes) = (load.messages, load.bytes);
        inspection
    }

    pub(in crate::consumer) fn health(&self) -> Health {
        if self.stop.deadline().is_some() || matches!(*self.phase.borrow(), Phase::Closed(_)) {
            return Health::Stopped { fault: self.fault.get().cloned() };
        }
        let present = self.supervision.present();
        if let Some(failure) = present.failure {
            return Health::Failed { failure };
        }
        let (holdings, has_run, without, seen) = {
            let view = self.view();
            (view.holdings.clone(), view.has_run, view.without, view.seen)
        };
        let error = present.error.map(|(reason, since)| Cause::Broker { reason, since });
        let partitions = holdings.as_deref().map(blocked).unwrap_or_default();
        let blocked = (!partitions.is_empty()).then_some(Cause::Blocked { partitions });
        let joining = without.filter(|_| has_run).map(|since| Cause::Joining { since });
        let away = self.registry.as_ref().and_then(|away| away());
        let stalled = seen.0.elapsed() >= ABSENCE + self.books.drain_limit;
        let causes: Vec<Cause> = [
            error,
            blocked,
            joining,
            away.map(|since| Cause::RegistryAway { since }),
            stalled.then_some(Cause::Stalled { since: seen.1 }),
        ]
        .into_iter()
        .flatten()
        .collect();
        match (has_run, causes.is_empty()) {
            (false, _) => Health::Starting { causes },
            (true, true) => Health::Healthy,
            (true, false) => Health::Degraded { causes },
        }
    }

    fn view_of(&self, held: &Held, now: u64) -> PartitionView {
        let book = held.assignment.as_ref().map(|assignment| assignment.book());
        let tracker = book.as_ref().map(|book| &book.tracker);
        let trouble = book.as_ref().and_then(|book| book.trouble.clone());
        let load = tracker.map(Tracker::load).unwrap_or_default();
        let oldest = tracker.and_then(|tracker| Some((tracker.epoch(), tracker.oldest()?)));
        let oldest = oldest.map(|(epoch, oldest)| {
            let running = self.crew.running(epoch.0, oldest.offset);
            let waiting = trouble.as_ref().filter(|trouble| trouble.offset == oldest.offset);
            OldestView {
                offset: oldest.offset,
                age: Duration::from_millis(now.saturating_sub(oldest.delivered_at)),
                attempt: running
                    .map(|(_, running)| running.attempt)
                    .or(waiting.map(|trouble| trouble.attempts)),
                key_hash: running.and_then(|(_, running)| running.key_hash),
                worker: running.map(|(worker, _)| worker),
            }
        });
        PartitionView {
            partition: held.partition,
            position: tracker.map(Tracker::position),
            committed: tracker.and_then(Tracker::committed),
            queued_messages: tracker.map_or(0, Tracker::span),
            queued_bytes: load.bytes,
            blocked_messages: book.as_ref().map_or(0, |book| book.blocked.len()),
            paused: held.paused,
            oldest,
            trouble,
        }
    }
}

fn held(holdings: &Holdings) -> Vec<Held> {
    let slots = holdings.slots();
    let copy = slots.iter().map(|(&partition, slot)| Held {
        partition,
        assignment: slot.assignment.clone(),
        paused: slot.paused,
    });
    copy.collect()
}

fn blocked(holdings: &Holdings) -> Vec<i32> {
    let assignments = holdings.assignments();
    let blocked = assignments.iter().filter(|assignment| !assignment.book().blocked.is_empty());
    blocked.map(|assignment| assignment.partition).collect()
}
