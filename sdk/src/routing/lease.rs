//! The use of an entry: while a lease lives, its route is kept up to date; with it goes the registration.

use std::{fmt, sync::Arc};

use tokio::sync::{oneshot, watch};
use zms_core::route::GroupRoute;

use super::{chance::random, entry::Entry, reconcile::RETRY, router::Router};
use crate::registry::port::RegistryError;

/// The use of a topic. Dropping it leaves the registry: the sink gets no further route, and the registration is
/// removed in the background, or, while the registry is away, when it is back. Drop it with nothing in flight.
#[derive(Debug)]
pub(crate) struct TopicLease {
    _lease: Lease,
}

impl TopicLease {
    pub(super) fn new(lease: Lease) -> Self {
        Self { _lease: lease }
    }
}

/// The use of a group. Dropping it leaves the registry as with [`TopicLease`]; drop it with nothing in hand.
#[derive(Debug)]
pub(crate) struct GroupLease {
    /// The group's route, as a latest value.
    pub(crate) routes: watch::Receiver<Arc<GroupRoute>>,
    _lease: Lease,
}

impl GroupLease {
    /// `None` when the group has no route yet.
    pub(super) fn new(lease: Lease) -> Option<Self> {
        Some(Self { routes: lease.entry().subject.routes()?, _lease: lease })
    }
}

/// Gives its entry back when it goes.
pub(super) struct Lease {
    router: Arc<Router>,
    entry: Arc<Entry>,
}

impl Lease {
    pub(super) fn new(router: Arc<Router>, entry: Arc<Entry>) -> Self {
        Self { router, entry }
    }

    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.entry.is_retired() {
            drop(self.router.retire(Arc::clone(&self.entry)));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease of {}", self.entry.subject)
    }
}

impl Router {
    /// Gives an entry back, in a task of its own. What it returns waits for the registration to be removed, or for the
    /// first attempt at it to fail.
    pub(super) fn retire(self: &Arc<Self>, entry: Arc<Entry>) -> impl Future<Output = ()> + use<> {
        self.forget(&entry);
        let (tried, first_attempt) = oneshot::channel();
        self.runtime.spawn(leave(Arc::clone(self), entry, tried));
        async move {
            // An error is the end of the task, which is as good.
            first_attempt.await.unwrap_or_default();
        }
    }
}

/// Removes an entry's registration; while the registry is away, until it is back or the session is over.
async fn leave(router: Arc<Router>, entry: Arc<Entry>, tried: oneshot::Sender<()>) {
    let mut tried = Some(tried);
    let mut stop = router.stop.subscribe();
    for attempt in 1.. {
        let mut session = router.session.clone();
        let epoch = session.borrow_and_update().epoch;
        let mut registration = entry.registration.lock().await;
        let is_over = registration.made_in().is_some_and(|made_in| made_in < epoch);
        let left = router.leave_once(&mut registration).await;
        drop(registration);
        match left {
            Err(RegistryError::Unavailable { .. }) if !is_over => {}
            Err(error) if !matches!(error, RegistryError::Unavailable { .. } | RegistryError::Closed) => {
                tracing::warn!(entry = %entry.subject, %error, "a registration cannot be removed; the session's end removes it");
                return;
            }
            _ => return,
        }
        drop(tried.take());
        tokio::select! {
            _ = session.changed() => {}
            () = tokio::time::sleep(RETRY.delay(attempt, random())) => {}
            _ = stop.wait_for(|stopped| *stopped) => return,
        }
    }
}
