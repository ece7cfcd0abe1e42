//! What the handle and the poll thread of a subscription share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use zms_core::{
    name::{ClusterName, GroupName, TopicName},
    route::GroupRoute,
    tracker::Tracker,
};

use super::{
    holdings::{Books, Holdings, Slot},
    inspect::{Inspection, OldestView, PartitionView, State},
    pool::Crew,
    stop::Stop,
};

pub(super) struct Context {
    pub(super) group: GroupName,
    pub(super) books: Arc<Books>,
    pub(super) crew: Crew,
    pub(super) stop: Stop,
    pub(super) phase: watch::Sender<Phase>,
    view: Mutex<View>,
}

/// How far a subscription has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Opening,
    Refused(String),
    Joining,
    Running,
    /// Ended, with this many handlers left running.
    Closed(usize),
}

/// What can be seen of the poll thread's state.
pub(super) struct View {
    pub(super) cluster: ClusterName,
    pub(super) topic: TopicName,
    pub(super) route: ClusterName,
    pub(super) holdings: Option<Arc<Holdings>>,
    pub(super) failure: Option<String>,
}

impl Context {
    pub(super) fn new(books: Arc<Books>, crew: Crew, route: &GroupRoute) -> Self {
        Self {
            group: route.group.clone(),
            books,
            crew,
            stop: Stop::default(),
            phase: watch::Sender::new(Phase::Opening),
            view: Mutex::new(View {
                cluster: route.cluster.name.clone(),
                topic: route.topic.clone(),
                route: route.cluster.name.clone(),
                holdings: None,
                failure: None,
            }),
        }
    }

    // A plain lock: held to copy a few fields, never across a call to a client.
    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves on to `phase`; waiters wake only when it is another one. A closed subscription stays closed.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|present| {
            let news = !matches!(present, Phase::Closed(_)) && *present != phase;
            if news {
                *present = phase;
            }
            news
        });
    }

    pub(super) fn inspect(&self) -> Inspection {
        let phase = self.phase.borrow().clone();
        let view = self.view();
        let now = self.books.now_ms();
        let holdings = view.holdings.as_ref();
        let partitions = holdings
            .map(|h| h.slots().iter().map(|(partition, slot)| self.view_of(*partition, slot, now)).collect());
        let load = self.books.gauge.load();
        let state = match phase {
            Phase::Closed(_) => State::Closed,
            _ if self.stop.deadline().is_some() => State::Stopping,
            Phase::Opening | Phase::Refused(_) => State::Opening,
            _ if view.cluster != view.route => State::Switching,
            Phase::Joining => State::Joining,
            Phase::Running => State::Running,
        };
        Inspection {
            state,
            cluster: view.cluster.clone(),
            route: view.route.clone(),
            topic: view.topic.clone(),
            failure: view.failure.clone(),
            buffered_messages: load.messages,
            buffered_bytes: load.bytes,
            counts: self.books.stats.snapshot(),
            partitions: partitions.unwrap_or_default(),
        }
    }

    fn view_of(&self, partition: i32, slot: &Slot, now: u64) -> PartitionView {
        let book = slot.assignment.as_ref().map(|assignment| assignment.book());
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
            partition,
            position: tracker.map(Tracker::position),
            committed: tracker.and_then(Tracker::committed),
            queued_messages: tracker.map_or(0, Tracker::span),
            queued_bytes: load.bytes,
            paused: slot.paused,
            oldest,
            trouble,
        }
    }
}
