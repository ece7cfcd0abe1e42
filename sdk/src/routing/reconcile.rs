//! One entry's reconciler: register, read in the binding order, adopt all at once; again while there is news.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use zms_core::{
    backoff::Backoff,
    name::TopicName,
    property::Dropped,
    route::{ChangeId, Source},
};

use super::{
    adoption::{Adoption, Verdict},
    chance::random,
    entry::{Adopting, Entry},
    refusal::{Complaint, Refusal},
    registration::{Registration, Standing},
    route::{Resolution, Route},
    router::Router,
    view::{self, NodeSource, Outcome, View, Viewer},
};
use crate::registry::port::{BoxFuture, Node, RegistryError, SessionState};

/// How a round ended that the registry answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Nothing to do until something changes.
    Settled,
    /// What was read does not fit together: read again, a little later.
    Again,
}

impl Router {
    /// The entry's task: ends when there is nothing to do, so that idle entries cost none.
    pub(super) async fn reconcile(self: Arc<Self>, entry: Arc<Entry>) {
        let mut attempt = 0_u32;
        while !entry.is_retired() {
            entry.begin();
            let again = match self.round(&entry).await {
                Ok(Round::Settled) => false,
                Ok(Round::Again) => true,
                Err(error) => self.failed(&entry, &error),
            };
            if again {
                attempt = attempt.saturating_add(1);
                let delay = RETRY.delay(attempt, random());
                let _elapsed_or_marked = tokio::time::timeout(delay, entry.marked()).await;
                continue;
            }
            attempt = 0;
            if !entry.finish() {
                return;
            }
        }
    }

    /// One complete reading. An error says that the registry did not answer: nothing was adopted.
    async fn round(&self, entry: &Entry) -> Result<Round, RegistryError> {
        let session = *self.session.borrow();
        if session.state != SessionState::Connected {
            return Err(RegistryError::Unavailable { reason: "not connected".to_owned() });
        }
        let standing = self.register(entry, session.epoch).await?;
        let reader = LiveNodes { router: self, entry };
        let viewer = Viewer { source: &reader, addresses: &self.config.addresses, origin: Source::Registry };
        let View { outcome, nodes, moving } = view::read(&entry.subject, bound_topic(entry), viewer).await?;
        let used: BTreeSet<String> = nodes.keys().cloned().collect();
        self.with_interests(entry, |interests| interests.retain(entry.id, &used));
        // A session that ended in between took the registration along: what was read after that must not be used.
        if self.session.borrow().epoch != session.epoch {
            return Ok(Round::Again);
        }
        entry.update(|progress| progress.silence = None);
        match outcome {
            Outcome::Changing => Ok(Round::Again),
            Outcome::Refused(complaint) => {
                self.refuse(entry, complaint).await;
                Ok(Round::Settled)
            }
            Outcome::Route(_) if matches!(standing, Standing::NoParent) => Ok(Round::Again),
            Outcome::Route(route) => Ok(self.adopt(entry, &Resolution { route, nodes, moving }).await),
        }
    }

    async fn register(&self, entry: &Entry, epoch: u64) -> Result<Standing, RegistryError> {
        let mut registration = entry.registration.lock().await;
        let standing = {
            let _permit = self.calls.acquire().await;
            registration.ensure(&*self.registry, epoch).await?
        };
        if let Standing::Refused(Some(error)) = &standing {
            self.counters.failed_registrations.add();
            tracing::warn!(entry = %entry.subject, %error, "cannot be registered; traffic goes on without");
        }
        Ok(standing)
    }

    pub(super) async fn leave_once(&self, registration: &mut Registration) -> Result<(), RegistryError> {
        let _permit = self.calls.acquire().await;
        registration.leave(&*self.registry).await
    }

    /// The one place where a route read from the registry takes effect.
    async fn adopt(&self, entry: &Entry, resolution: &Resolution) -> Round {
        let mut adoption = entry.adoption.lock().await;
        if entry.is_retired() {
            return Round::Settled;
        }
        let verdict = adoption.judge(resolution);
        if let Verdict::Older(complaint) = verdict {
            self.counters.stale_reads.add();
            self.complain(entry, &mut adoption, complaint);
            return Round::Settled;
        }
        // A node created anew has lost what stood below it.
        if adoption.was_created_anew(resolution, &entry.subject.path()) {
            entry.registration.lock().await.parent_was_deleted();
            adoption.forget_version(&entry.subject.path());
            return Round::Again;
        }
        if verdict == Verdict::New && !self.push(entry, &resolution.route).await {
            return Round::Settled;
        }
        adoption.adopted(resolution);
        entry.in_force(&resolution.route);
        self.snapshot.put(&resolution.nodes);
        Round::Settled
    }

    /// False when whoever adopts panicked: the route is not in force, and the next event tries again.
    pub(super) async fn push(&self, entry: &Entry, route: &Route) -> bool {
        let adopting = Adopting::begin(entry);
        let pushed = AssertUnwindSafe(entry.subject.push(route)).catch_unwind().await;
        drop(adopting);
        if pushed.is_err() {
            self.counters.failed_adoptions.add();
            tracing::error!(entry = %entry.subject, cluster = %route.cluster(), "adopting a route panicked");
            return false;
        }
        self.counters.adoptions.add();
        tracing::info!(
            entry = %entry.subject, cluster = %route.cluster(), changed = route.changed().0, source = ?route.source(),
            "route adopted"
        );
        true
    }

    async fn refuse(&self, entry: &Entry, complaint: Complaint) {
        if complaint.refusal == Refusal::Missing {
            entry.registration.lock().await.parent_was_deleted();
        }
        let mut adoption = entry.adoption.lock().await;
        self.complain(entry, &mut adoption, complaint);
    }

    /// Once per state of the registry, however often that is read.
    fn complain(&self, entry: &Entry, adoption: &mut Adoption, complaint: Complaint) {
        let is_news = adoption.complain(&complaint);
        if is_news {
            self.count(&complaint.refusal, adoption.is_empty());
        }
        if is_news && !adoption.is_empty() {
            tracing::warn!(
                entry = %entry.subject, reason = %complaint.refusal, changed = ?complaint.changed,
                "what the registry says now cannot be followed; the last route stays"
            );
        }
        entry.update(|progress| {
            progress.answered = true;
            progress.refusal = Some(complaint.refusal);
        });
    }

    fn count(&self, refusal: &Refusal, unused: bool) {
        match refusal {
            Refusal::Unreadable { .. } | Refusal::Unsupported { .. } => self.counters.unreadable_nodes.add(),
            Refusal::Missing | Refusal::UnknownCluster { .. } if !unused => {
                self.counters.missing_in_use.add();
            }
            Refusal::Missing | Refusal::UnknownCluster { .. } | Refusal::Older { .. } => {}
        }
    }

    /// A round that the registry did not answer. True when to try again by and by; without a connection the next one
    /// marks the entry.
    fn failed(&self, entry: &Entry, error: &RegistryError) -> bool {
        let mut is_first = false;
        entry.update(|progress| is_first = progress.silence.replace(error.to_string()).is_none());
        let connected = self.session.borrow().state == SessionState::Connected;
        if connected {
            self.counters.failed_reads.add();
            if is_first {
                tracing::warn!(entry = %entry.subject, %error, "the registry did not answer; trying again");
            }
        }
        connected
    }
}

/// Reads with a watch, known to the entry before it can fire.
struct LiveNodes<'a> {
    router: &'a Router,
    entry: &'a Entry,
}

impl NodeSource for LiveNodes<'_> {
    fn node<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        Box::pin(async move {
            self.router.with_interests(self.entry, |interests| interests.add(self.entry.id, path));
            let _permit = self.router.calls.acquire().await;
            self.router.registry.watch(path).await
        })
    }

    fn dropped(&self, path: &str, changed: ChangeId, dropped: &[Dropped]) {
        if self.router.is_first_report(path, changed) {
            for Dropped { name, reason } in dropped {
                tracing::warn!(path, name, reason, "a property in the registry is left out");
            }
        }
    }
}

/// The topic that a group was bound to when last read.
fn bound_topic(entry: &Entry) -> Option<TopicName> {
    match &entry.progress().borrow().route {
        Some(Route::Group(route)) => Some(route.topic.clone()),
        _ => None,
    }
}

/// Between attempts at a registry that does not answer although it is connected.
pub(super) const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
