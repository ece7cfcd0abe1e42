//! The routing driver: entries in use, the events that concern them, and the tasks that keep them right.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
    time::Instant,
};
use zms_core::{
    name::{GroupName, TopicName},
    route::ChangeId,
};

use super::{
    ResolveError, RoutingConfig,
    chance::jittered,
    counters::{Counters, EntryInspection, RoutingInspection},
    entry::Entry,
    interests::{EntryId, Interests},
    lease::{GroupLease, Lease, TopicLease},
    registration::Registration,
    snapshot::{Snapshot, now_ms},
    subject::Subject,
};
use crate::{
    producer::sink::TopicSink,
    registry::port::{ChangeListener, Session, SessionState, SharedRegistry},
};

/// Follows the registry for all topics and groups of one handle.
///
/// An event only marks the entries that it concerns; an entry has a task as long as it has work, and at most one, so
/// that an entry which waits never delays another. An idle entry costs no task.
pub(crate) struct Router {
    me: Weak<Self>,
    pub(super) registry: SharedRegistry,
    pub(super) config: RoutingConfig,
    pub(super) runtime: Handle,
    pub(super) session: watch::Receiver<Session>,
    /// Bounds registry calls under way: a re-read of everything must not flood the registry.
    pub(super) calls: Semaphore,
    pub(super) counters: Counters,
    pub(super) snapshot: Arc<Snapshot>,
    /// Short: maps are looked up and changed, nothing is called under it.
    table: Mutex<Table>,
    /// Since when there is no connection, by both clocks; short, a copy.
    down_since: Mutex<Option<(Instant, SystemTime)>>,
    pub(super) stop: watch::Sender<bool>,
    /// Changes of cluster nodes whose left-out properties were logged; short.
    reported: Mutex<BTreeMap<String, ChangeId>>,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<EntryId, Arc<Entry>>,
    interests: Interests,
    last_id: u64,
    closed: bool,
}

impl Router {
    /// Starts following `registry`. Must be called within a tokio runtime, on which its tasks then run.
    pub(crate) fn start(registry: SharedRegistry, config: RoutingConfig) -> Arc<Self> {
        let mut session = registry.session();
        let at_start = *session.borrow_and_update();
        let snapshot = Arc::new(Snapshot::new(config.snapshot.clone(), &config.registry));
        let router = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            runtime: Handle::current(),
            session: session.clone(),
            calls: Semaphore::new(config.concurrent_calls.max(1)),
            counters: Counters::default(),
            snapshot: Arc::clone(&snapshot),
            table: Mutex::default(),
            down_since: Mutex::new((at_start.state != SessionState::Connected).then(both_clocks)),
            stop: watch::Sender::new(false),
            reported: Mutex::default(),
            registry,
            config,
        });
        let listener: Weak<dyn ChangeListener> = Arc::downgrade(&router) as _;
        router.registry.listen(listener);
        let debounce = router.config.snapshot_debounce;
        router.runtime.spawn(snapshot.write_until(debounce, router.stop.subscribe()));
        router.runtime.spawn(follow_session(Arc::downgrade(&router), session, at_start));
        router
    }

    /// Resolves a topic, has `sink` adopt its route, and keeps it adopting until the lease is given back.
    ///
    /// Waits up to `resolve_timeout` for what is missing, and as long as the sink takes once there is a route.
    /// Dropping the future gives the topic up.
    pub(crate) async fn topic(
        self: &Arc<Self>,
        topic: &TopicName,
        sink: Arc<dyn TopicSink>,
    ) -> Result<TopicLease, ResolveError> {
        let lease = self.open(Subject::topic(topic.clone(), sink))?;
        self.first_adoption(lease.entry()).await?;
        Ok(TopicLease::new(lease))
    }

    /// Resolves a group and keeps its route up to date until the lease is given back. Waits and may be dropped as
    /// [`Router::topic`].
    pub(crate) async fn group(self: &Arc<Self>, group: &GroupName) -> Result<GroupLease, ResolveError> {
        let lease = self.open(Subject::group(group.clone()))?;
        self.first_adoption(lease.entry()).await?;
        GroupLease::new(lease).ok_or(ResolveError::Closed)
    }

    /// Resolves a topic for a subscription that reads it without a group, called `group` where a name is needed.
    /// Otherwise as [`Router::group`].
    pub(crate) async fn reader(
        self: &Arc<Self>,
        topic: &TopicName,
        group: &GroupName,
    ) -> Result<GroupLease, ResolveError> {
        let lease = self.open(Subject::reader(topic.clone(), group.clone()))?;
        self.first_adoption(lease.entry()).await?;
        GroupLease::new(lease).ok_or(ResolveError::Closed)
    }

    /// What it does now.
    pub(crate) fn inspect(&self) -> RoutingInspection {
        let age = |at| Duration::from_millis(now_ms().saturating_sub(at));
        RoutingInspection {
            entries: self.entries().iter().map(|entry| inspect_entry(entry)).collect(),
            counters: self.counters.values(self.snapshot.failures()),
            snapshot_age: self.snapshot.written_at_ms().map(age),
        }
    }

    /// Gives all leases back, writes the snapshot and ends all tasks, within `limit`. Leases are of no use after it,
    /// and nothing can be resolved any more. Does not close the registry. Idempotent.
    pub(crate) async fn close(self: &Arc<Self>, limit: Duration) {
        let entries = {
            let mut table = self.table();
            table.closed = true;
            std::mem::take(&mut table.entries)
        };
        // Side by side: a registry that hangs must not cost the snapshot.
        let leave = join_all(entries.into_values().map(|entry| self.retire(entry)));
        let work = async { tokio::join!(leave, self.snapshot.flush()) };
        if tokio::time::timeout(limit, work).await.is_err() {
            tracing::warn!(
                ?limit,
                "leaving the registry took longer than allowed; the session's end does the rest"
            );
        }
        self.stop.send_replace(true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.table().closed
    }

    fn open(self: &Arc<Self>, subject: Subject) -> Result<Lease, ResolveError> {
        let registration = Registration::of(&subject, &self.config);
        let entry = {
            let mut table = self.table();
            if table.closed {
                return Err(ResolveError::Closed);
            }
            table.last_id += 1;
            let id = EntryId(table.last_id);
            let entry = Arc::new(Entry::new(id, subject, registration));
            table.entries.insert(id, Arc::clone(&entry));
            entry
        };
        self.mark(&entry);
        Ok(Lease::new(Arc::clone(self), entry))
    }

    /// The entry is of no use any more: events do not find it.
    pub(super) fn forget(&self, entry: &Entry) {
        entry.retire();
        let mut table = self.table();
        table.entries.remove(&entry.id);
        table.interests.remove(entry.id);
    }

    pub(super) fn with_interests(&self, entry: &Entry, change: impl FnOnce(&mut Interests)) {
        let mut table = self.table();
        // An entry given back meanwhile must not come back in.
        if table.entries.contains_key(&entry.id) {
            change(&mut table.interests);
        }
    }

    /// The registry has been silent for as long as it may be before the snapshot is used.
    pub(super) fn grace_end(&self) -> Instant {
        let since = *self.down_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or_else(Instant::now, |(since, _)| since) + self.config.offline_grace
    }

    /// Since when the registry is away, if it is.
    pub(crate) fn away_since(&self) -> Option<SystemTime> {
        self.down_since.lock().unwrap_or_else(PoisonError::into_inner).map(|(_, since)| since)
    }

    /// Whether what is wrong with this change of `path` was not logged before; many entries share a cluster.
    pub(super) fn is_first_report(&self, path: &str, changed: ChangeId) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.insert(path.to_owned(), changed) != Some(changed)
    }

    fn session_changed(&self, before: Session, now: Session) {
        let connected = now.state == SessionState::Connected;
        let mut down_since = self.down_since.lock().unwrap_or_else(PoisonError::into_inner);
        *down_since = if connected { None } else { down_since.or_else(|| Some(both_clocks())) };
        drop(down_since);
        if before.state == SessionState::Connected && now.state == SessionState::Disconnected {
            tracing::warn!("the registry is away; all routes stay as they are until it is back");
        }
        if connected && now.connection != before.connection {
            if before.connection > 0 {
                self.counters.reconnects.add();
                tracing::info!(epoch = now.epoch, "connected to the registry again; reading everything anew");
            }
            self.mark_all();
        }
    }

    fn reread(&self) {
        self.counters.rereads.add();
        self.mark_all();
    }

    fn mark_all(&self) {
        for entry in self.entries() {
            self.mark(&entry);
        }
    }

    fn mark(&self, entry: &Arc<Entry>) {
        if entry.mark()
            && let Some(router) = self.me.upgrade()
        {
            self.runtime.spawn(router.reconcile(Arc::clone(entry)));
        }
    }

    fn entries(&self) -> Vec<Arc<Entry>> {
        self.table().entries.values().cloned().collect()
    }

    /// A panic elsewhere leaves the maps usable: at worst an event finds an entry that is gone.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeListener for Router {
    fn changed(&self, path: &str) {
        let concerned: Vec<Arc<Entry>> = {
            let table = self.table();
            table.interests.users(path).filter_map(|id| table.entries.get(&id).cloned()).collect()
        };
        for entry in concerned {
            self.mark(&entry);
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("session", &*self.session.borrow()).finish_non_exhaustive()
    }
}

/// Marks everything after each new connection and, behind the watches, now and then. Holds no strong reference while
/// it waits, so that a router which nobody uses goes.
async fn follow_session(router: Weak<Router>, mut session: watch::Receiver<Session>, mut seen: Session) {
    let Some((mut stop, every)) = router.upgrade().map(|it| (it.stop.subscribe(), it.config.reread_every))
    else {
        return;
    };
    let mut next_reread = Instant::now() + jittered(every);
    loop {
        let is_time = tokio::select! {
            changed = session.changed() => match changed {
                Ok(()) => false,
                Err(_) => return,
            },
            () = tokio::time::sleep_until(next_reread) => true,
            _ = stop.wait_for(|stopped| *stopped) => return,
        };
        let Some(router) = router.upgrade() else { return };
        if is_time {
            next_reread = Instant::now() + jittered(every);
            router.reread();
            continue;
        }
        let now = *session.borrow_and_update();
        router.session_changed(seen, now);
        if now.state == SessionState::Closed {
            return;
        }
        seen = now;
    }
}

fn both_clocks() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::now())
}

fn inspect_entry(entry: &Entry) -> EntryInspection {
    let progress = entry.progress();
    let progress = progress.borrow();
    let refusal = progress.refusal.as_ref().map(ToString::to_string);
    EntryInspection {
        entry: entry.subject.to_string(),
        route: progress.route.as_ref().map(|route| (route.cluster().clone(), route.source())),
        trouble: refusal.or_else(|| progress.silence.clone()),
    }
}
