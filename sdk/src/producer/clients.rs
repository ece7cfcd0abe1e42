//! Clients, one for each (cluster, properties): opened once, shared by topics, closed when nobody uses them.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::{DashMap, Entry};
use tokio::{
    runtime::Handle,
    sync::OnceCell,
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use zms_core::{name::ClusterName, route::ClusterSpec};

use super::{
    hurry::{Impatient, Urgency},
    stats::Counters,
};
use crate::engine::port::{Engine, OpenError, ProducerClient, ProducerSpec};

/// What makes two topics share a client.
#[derive(Clone)]
pub(super) struct ClientKey {
    pub(super) cluster: Arc<ClusterSpec>,
    pub(super) properties: Vec<(String, String)>,
}

impl fmt::Debug for ClientKey {
    /// Values of properties are left out: an application may have set a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").field("cluster", &self.cluster.name).finish_non_exhaustive()
    }
}

impl PartialEq for ClientKey {
    fn eq(&self, other: &Self) -> bool {
        self.cluster.same_client(&other.cluster) && self.properties == other.properties
    }
}

impl Eq for ClientKey {}

impl Hash for ClientKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cluster.name.hash(state);
        self.cluster.bootstrap.hash(state);
        self.properties.hash(state);
    }
}

/// A client's place in the cache, from before it is opened.
#[derive(Debug)]
pub(super) struct Slot {
    key: ClientKey,
    client: OnceCell<Arc<dyn ProducerClient>>,
    /// Leases. Rises only under the cache's lock, so that a client about to be closed is never handed out.
    users: AtomicUsize,
    unused_since: Mutex<Option<Instant>>,
    failed: AtomicBool,
    retired: AtomicBool,
    pub(super) urgency: Urgency,
}

/// The use of an open client, which stays open meanwhile.
#[derive(Debug)]
pub(super) struct Lease {
    user: User,
    client: Arc<dyn ProducerClient>,
}

/// Keeps a slot in the cache.
#[derive(Debug)]
struct User(Arc<Slot>);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoClient {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the client of cluster {cluster} could not be opened: {reason}")]
    Crashed { cluster: ClusterName, reason: String },
    #[error("the handle is closed")]
    Closed,
}

pub(super) struct Clients {
    engine: Arc<dyn Engine>,
    client_id: String,
    slots: DashMap<ClientKey, Arc<Slot>>,
    closed: AtomicBool,
    /// What a close has begun to close. Short: a list is added to and copied under it.
    closing: Mutex<Vec<Arc<dyn ProducerClient>>>,
    counters: Arc<Counters>,
    runtime: Handle,
}

/// How long an unused client may take to close.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a client may overrun the deadline of a close before it is left to itself.
const OVERTIME: Duration = Duration::from_secs(2);

impl Clients {
    pub(super) fn new(engine: Arc<dyn Engine>, client_id: String, counters: Arc<Counters>) -> Self {
        Self {
            engine,
            client_id,
            slots: DashMap::new(),
            closed: AtomicBool::new(false),
            closing: Mutex::default(),
            counters,
            runtime: Handle::current(),
        }
    }

    /// The client for a key, opened on a thread of its own if it is the first use.
    ///
    /// Dropping the future leaves an opening client to the next who asks.
    pub(super) async fn lease(&self, key: ClientKey) -> Result<Lease, NoClient> {
        let user = match self.slots.entry(key) {
            Entry::Occupied(entry) => User::of(entry.get()),
            Entry::Vacant(entry) => {
                let slot = Slot::new(entry.key().clone());
                User::of(&entry.insert(slot))
            }
        };
        let client = user.0.client.get_or_try_init(|| self.open(&user.0.key)).await?.clone();
        if self.closed.load(Ordering::SeqCst) {
            // Closing went by while this client was being opened.
            drop(self.retire(&user.0, Duration::ZERO));
            return Err(NoClient::Closed);
        }
        Ok(Lease { user, client })
    }

    async fn open(&self, key: &ClientKey) -> Result<Arc<dyn ProducerClient>, NoClient> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(NoClient::Closed);
        }
        let engine = self.engine.clone();
        let spec = ProducerSpec {
            cluster: key.cluster.clone(),
            client_id: self.client_id.clone(),
            properties: key.properties.clone(),
        };
        let opened = self.runtime.spawn_blocking(move || engine.open_producer(&spec)).await;
        let client = opened.map_err(|reason| NoClient::Crashed {
            cluster: key.cluster.name.clone(),
            reason: reason.to_string(),
        })??;
        self.counters.clients_now.fetch_add(1, Ordering::Relaxed);
        Ok(client)
    }

    /// Takes failed clients out of the cache and closes them in the background; whether there were any.
    pub(super) fn replace_failed(&self) -> bool {
        let failed = self.remove_where(Slot::has_failed);
        for slot in &failed {
            Counters::count(&self.counters.replaced_clients);
            let reason = slot.client.get().and_then(|client| client.fatal());
            let reason = reason.map_or_else(|| "it refused a record".to_owned(), |error| error.reason);
            tracing::error!(cluster = %slot.key.cluster.name, %reason, "a producer client failed for good and is replaced");
            drop(self.retire(slot, Duration::ZERO));
        }
        !failed.is_empty()
    }

    /// Closes clients in the background that nobody has used for `idle`.
    pub(super) fn close_idle(&self, idle: Duration) {
        let now = Instant::now();
        for slot in self.remove_where(|slot| slot.idle_for(now) >= Some(idle)) {
            tracing::debug!(cluster = %slot.key.cluster.name, "closing a producer client that is not used any more");
            drop(self.retire(&slot, FAREWELL));
        }
    }

    /// Closes all clients at the same time, and opens none from now on. The number of records given up.
    ///
    /// `deadline` is asked after the clients are known to [`hasten`](Self::hasten). Runs on the runtime of the caller:
    /// the one that the clients were opened on may be gone.
    pub(super) async fn close(&self, deadline: impl Fn() -> Instant) -> usize {
        self.closed.store(true, Ordering::SeqCst);
        let clients = {
            let mut closing = self.closing();
            closing.extend(self.remove_where(|_| true).iter().filter_map(|slot| self.take_out(slot)));
            closing.clone()
        };
        let limit = deadline().saturating_duration_since(Instant::now());
        let runtime = Handle::current();
        let closes: Vec<_> =
            clients.into_iter().map(|client| runtime.spawn_blocking(move || client.close(limit))).collect();
        let mut given_up = 0;
        for close in closes {
            match timeout_at(deadline() + OVERTIME, close).await {
                Ok(Ok(count)) => given_up += count,
                Ok(Err(error)) => tracing::error!(%error, "closing a producer client failed"),
                Err(_) => {
                    tracing::error!("a producer client overran its deadline and closes in the background");
                }
            }
        }
        given_up
    }

    /// Hurries the open clients of a cluster, or all, until the answer is dropped.
    pub(super) fn hurry(&self, cluster: Option<&ClusterName>) -> Vec<Impatient> {
        let open = self.slots.iter().filter(|slot| slot.client.initialized());
        let meant = open.filter(|slot| cluster.is_none_or(|name| slot.key.cluster.name == *name));
        meant.map(|slot| Impatient::new(slot.value().clone(), &self.runtime)).collect()
    }

    /// Gives a close under way less time.
    pub(super) fn hasten(&self, limit: Duration) {
        let runtime = Handle::current();
        let clients = self.closing().clone();
        for client in clients {
            drop(runtime.spawn_blocking(move || client.close(limit)));
        }
    }

    /// Closes all clients in the background: nobody is left who could wait.
    pub(super) fn abandon(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for slot in self.remove_where(|_| true) {
            drop(self.retire(&slot, FAREWELL));
        }
    }

    /// Starts closing on a thread of its own; a client that was never opened has nothing to close.
    fn retire(&self, slot: &Arc<Slot>, limit: Duration) -> Option<JoinHandle<usize>> {
        let client = self.take_out(slot)?;
        Some(self.runtime.spawn_blocking(move || client.close(limit)))
    }

    /// The client of a slot, for the one who closes it.
    fn take_out(&self, slot: &Slot) -> Option<Arc<dyn ProducerClient>> {
        let client = slot.client.get()?.clone();
        if slot.retired.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.counters.clients_now.fetch_sub(1, Ordering::Relaxed);
        Some(client)
    }

    fn closing(&self) -> MutexGuard<'_, Vec<Arc<dyn ProducerClient>>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_where(&self, unwanted: impl Fn(&Slot) -> bool) -> Vec<Arc<Slot>> {
        let keys: Vec<_> =
            self.slots.iter().filter(|slot| unwanted(slot)).map(|slot| slot.key().clone()).collect();
        keys.iter()
            .filter_map(|key| self.slots.remove_if(key, |_, slot| unwanted(slot)))
            .map(|(_, slot)| slot)
            .collect()
    }
}

impl Slot {
    fn new(key: ClientKey) -> Arc<Self> {
        Arc::new(Self {
            key,
            client: OnceCell::new(),
            users: AtomicUsize::new(0),
            unused_since: Mutex::new(None),
            failed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            urgency: Urgency::default(),
        })
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
            || self.client.get().is_some_and(|client| client.fatal().is_some())
    }

    /// Blocking: has what lingers sent.
    pub(super) fn hurry(&self, limit: Duration) {
        if let Some(client) = self.client.get() {
            client.hurry(limit);
        }
    }

    /// How long nobody has used it and nothing of it has been in flight.
    fn idle_for(&self, now: Instant) -> Option<Duration> {
        if self.users.load(Ordering::Acquire) > 0 {
            return None;
        }
        if self.client.get().is_some_and(|client| client.outstanding() > 0) {
            return None;
        }
        let since = *self.unused_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map(|since| now.saturating_duration_since(since))
    }
}

impl Lease {
    pub(super) fn client(&self) -> &Arc<dyn ProducerClient> {
        &self.client
    }

    pub(super) fn same_client(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.user.0, &other.user.0)
    }

    /// Hurries the client until the answer is dropped.
    pub(super) fn hurry(&self, runtime: &Handle) -> Impatient {
        Impatient::new(self.user.0.clone(), runtime)
    }

    /// Says that the client is of no use any more, for everybody.
    pub(super) fn fail(&self) {
        self.user.0.failed.store(true, Ordering::Release);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.user.0.failed.load(Ordering::Acquire)
    }
}

impl User {
    /// Called under the cache's lock.
    fn of(slot: &Arc<Slot>) -> Self {
        slot.users.fetch_add(1, Ordering::AcqRel);
        Self(slot.clone())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        *self.0.unused_since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}
