//! What the handle and the poll thread of a subscription share.

mod looking;

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Instant, SystemTime},
};

use tokio::sync::watch;
use zms_core::{
    name::{ClusterName, GroupName, TopicName},
    route::GroupRoute,
};

use super::{
    control::Orders,
    enrolment::RegistryAway,
    error::Fault,
    health::LastingKind,
    holdings::{Books, Holdings},
    pool::Crew,
    stop::Stop,
    supervision::Supervision,
};

pub(super) struct Context {
    pub(super) group: GroupName,
    pub(super) books: Arc<Books>,
    pub(super) crew: Crew,
    pub(super) stop: Stop,
    pub(super) orders: Orders,
    pub(super) supervision: Supervision,
    /// Why the subscription ends by itself.
    pub(super) fault: OnceLock<Fault>,
    pub(super) phase: watch::Sender<Phase>,
    registry: Option<RegistryAway>,
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
    /// It has had an assignment at some time.
    pub(super) has_run: bool,
    /// Since when it has none.
    pub(super) without: Option<SystemTime>,
    /// When the poll thread last came round.
    pub(super) seen: (Instant, SystemTime),
}

impl Context {
    pub(super) fn new(
        books: Arc<Books>,
        crew: Crew,
        route: &GroupRoute,
        registry: Option<RegistryAway>,
    ) -> Self {
        Self {
            group: route.group.clone(),
            books,
            crew,
            stop: Stop::default(),
            orders: Orders::default(),
            supervision: Supervision::default(),
            fault: OnceLock::new(),
            phase: watch::Sender::new(Phase::Opening),
            registry,
            view: Mutex::new(View {
                cluster: route.cluster.name.clone(),
                topic: route.topic.clone(),
                route: route.cluster.name.clone(),
                holdings: None,
                failure: None,
                has_run: false,
                without: Some(SystemTime::now()),
                seen: (Instant::now(), SystemTime::now()),
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

    /// The subscription ends by itself, for this reason.
    pub(super) fn fail(&self, fault: Fault) {
        let cluster = self.view().cluster.clone();
        let reason = fault.to_string();
        self.supervision.fail(LastingKind::Ended, &cluster, &reason, Instant::now());
        self.view().failure = Some(reason);
        // The first one is the cause.
        let _ = self.fault.set(fault);
    }
}
