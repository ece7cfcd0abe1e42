//! An entry's first adoption: waited for, and while the registry is silent taken from the snapshot.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use zms_core::{
    property::Dropped,
    route::{ChangeId, Source},
};

use super::{
    ResolveError,
    adoption::Verdict,
    entry::{Adopting, Entry},
    route::Resolution,
    router::Router,
    snapshot::Saved,
    view::{self, NodeSource, Outcome, View, Viewer},
};
use crate::registry::port::{BoxFuture, Node, RegistryError};

impl Router {
    /// Waits for an entry's first adoption.
    pub(super) async fn first_adoption(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<(), ResolveError> {
        let started = Instant::now();
        let mut progress = entry.progress();
        let mut stop = self.stop.subscribe();
        let mut grace = Some(self.grace_end());
        loop {
            let now = progress.borrow_and_update().clone();
            if now.route.is_some() {
                return Ok(());
            }
            if self.is_closed() {
                return Err(ResolveError::Closed);
            }
            if let Some(refusal) = now.refusal.as_ref().filter(|refusal| !refusal.may_pass()) {
                return Err(refusal.error(&entry.subject, started.elapsed()));
            }
            tokio::select! {
                biased;
                _ = progress.changed() => {}
                _ = stop.wait_for(|stopped| *stopped) => return Err(ResolveError::Closed),
                () = sleep_until(grace) => {
                    grace = None;
                    if !now.answered {
                        // Begins here, so that it also ends when the runtime has gone and nothing is spawned.
                        let adopting = Adopting::begin(Arc::clone(entry));
                        self.runtime.spawn(Arc::clone(self).adopt_offline(adopting));
                    }
                }
                // Once there is a route, how long it takes is up to whoever adopts it.
                () = tokio::time::sleep_until(started + self.config.resolve_timeout), if !now.adopting => {
                    return Err(timed_out(entry, started.elapsed()));
                }
            }
        }
    }

    /// Adopts what the snapshot knows, unless the registry was faster. Dropped with the runtime only.
    async fn adopt_offline(self: Arc<Self>, adopting: Adopting<Arc<Entry>>) {
        let entry = &adopting.0;
        if let Some(resolution) = self.saved(entry).await {
            let mut adoption = entry.adoption.lock().await;
            let is_first = adoption.judge(&resolution) == Verdict::New && adoption.is_empty();
            if is_first && !entry.is_retired() && self.push(entry, &resolution.route).await {
                adoption.adopted(&resolution);
                entry.in_force(&resolution.route);
            }
        }
    }

    async fn saved(&self, entry: &Entry) -> Option<Resolution> {
        let saved = self.snapshot.saved().await;
        let origin = Source::Snapshot { written_at_ms: saved.written_at_ms() };
        let viewer = Viewer { source: &saved, addresses: &self.config.addresses, origin };
        let View { outcome, nodes, moving } = view::read(&entry.subject, None, viewer).await.ok()?;
        let Outcome::Route(route) = outcome else { return None };
        saved.announce();
        Some(Resolution { route, nodes, moving })
    }
}

impl NodeSource for Saved<'_> {
    fn node<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        Box::pin(async move { Ok(Saved::node(self, path)) })
    }

    /// Was reported when it was read from the registry.
    fn dropped(&self, _: &str, _: ChangeId, _: &[Dropped]) {}
}

fn timed_out(entry: &Entry, waited: Duration) -> ResolveError {
    let progress = entry.progress();
    let progress = progress.borrow();
    if let Some(refusal) = &progress.refusal {
        return refusal.error(&entry.subject, waited);
    }
    let silence = progress.silence.clone().unwrap_or_else(|| format!("no answer in {waited:?}"));
    ResolveError::RegistryUnavailable { entry: entry.subject.to_string(), reason: silence }
}

/// Never, for `None`.
async fn sleep_until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
