//! A registry in memory, with sessions and faults to order: for tests, the demo and sandboxes.

mod store;
#[cfg(test)]
mod tests;
mod tree;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use tokio::sync::watch;

use self::{
    store::{ClientId, Store, unavailable},
    tree::Touched,
};
use super::{
    path::check_path,
    port::{BoxFuture, ChangeListener, Node, Op, Registry, RegistryError, Session, SharedRegistry},
};

/// One client of a metadata store that lives in memory.
///
/// Clones share the client and its session; [`MemoryRegistry::connect`] makes another client of the same store. The
/// store lives as long as its clients. When a call that writes returns, the listeners of all clients with a watch on
/// the changed nodes have been called, on the thread of the writer.
///
/// Its faults are harsher than `ZooKeeper`'s: a lost connection forgets all watches, so that only a client which
/// reads everything again after a reconnect sees what it missed.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use zms_sdk::registry::{MemoryRegistry, port::Registry};
///
/// let client = MemoryRegistry::new();
/// let operator = client.connect();
/// operator.create("/zms/topic/orders", "clusterName=a".into()).await?;
/// assert_eq!(client.read("/zms/topic/orders").await?.expect("created above").version, 0);
///
/// client.disconnect();
/// assert!(client.read("/zms/topic/orders").await.is_err());
/// # Ok::<(), zms_sdk::registry::port::RegistryError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryRegistry {
    client: Arc<Client>,
}

/// What is to go wrong with one call; see [`MemoryRegistry::fail_next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call answers [`RegistryError::Unavailable`] and has no effect.
    RequestLost,
    /// The call takes effect, yet answers [`RegistryError::Unavailable`].
    AnswerLost,
}

impl MemoryRegistry {
    /// A connected client of a new, empty store.
    pub fn new() -> Self {
        let registry = Self::join(&Arc::new(Mutex::new(Store::default())));
        registry.reconnect();
        registry
    }

    /// Another connected client of the same store, with its own session, listeners and faults.
    #[must_use]
    pub fn connect(&self) -> Self {
        let registry = self.connect_offline();
        registry.reconnect();
        registry
    }

    /// Another client of the same store that has no session before [`MemoryRegistry::reconnect`]: a start while the
    /// registry is down.
    #[must_use]
    pub fn connect_offline(&self) -> Self {
        Self::join(&self.client.store)
    }

    /// This client as long as somebody else holds it, too.
    #[cfg(feature = "testing")]
    pub(crate) fn observed(&self) -> impl Fn() -> Option<Self> + Send + Sync + use<> {
        let client = Arc::downgrade(&self.client);
        move || Some(Self { client: client.upgrade()? })
    }

    /// This client as the SDK takes it.
    pub fn shared(&self) -> SharedRegistry {
        Arc::new(self.clone())
    }

    /// Cuts this client off: its calls answer [`RegistryError::Unavailable`] and its watches are forgotten. Its session
    /// lives on, and so do its ephemeral nodes. Without effect on a client that is cut off or closed.
    pub fn disconnect(&self) {
        self.client.store().disconnect(self.client.id);
    }

    /// Connects this client again, in a new session if its own expired meanwhile. Without effect on a client that is
    /// connected or closed.
    pub fn reconnect(&self) {
        self.client.store().reconnect(self.client.id);
    }

    /// Ends this client's session as the server does: its ephemeral nodes and its watches go. A connected client gets
    /// a new session at once, one that is cut off on [`MemoryRegistry::reconnect`].
    pub fn expire_session(&self) {
        self.client.write(|store, id| Ok(((), store.expire(id)))).unwrap_or_default();
    }

    /// Makes one later call of this client fail; several wait in line for as many calls.
    pub fn fail_next(&self, fault: Fault) {
        self.client.store().client(self.client.id).faults.push_back(fault);
    }

    fn join(store: &Arc<Mutex<Store>>) -> Self {
        let (publish, session) = watch::channel(Session::default());
        let id = lock(store).join(publish);
        Self { client: Arc::new(Client { id, store: Arc::clone(store), session }) }
    }

    /// A call of this client: refused when it cannot be made, else carried out, its watchers told.
    fn call<T>(
        &self,
        act: impl FnOnce(&mut Store, ClientId) -> Result<(T, Touched), RegistryError>,
    ) -> Result<T, RegistryError> {
        let fault = self.client.store().admit(self.client.id)?;
        if fault == Some(Fault::RequestLost) {
            return Err(unavailable("the request was lost"));
        }
        let result = self.client.write(act);
        if fault == Some(Fault::AnswerLost) {
            return Err(unavailable("the answer was lost"));
        }
        result
    }
}

impl Default for MemoryRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegistry")
            .field("session", &*self.client.session.borrow())
            .finish_non_exhaustive()
    }
}

impl Registry for MemoryRegistry {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        Box::pin(async move { self.call(|store, _| Ok((store.read(path)?, Touched::new()))) })
    }

    fn watch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        Box::pin(async move {
            self.call(|store, id| {
                let node = store.read(path)?;
                store.client(id).armed.insert(path.to_owned());
                Ok((node, Touched::new()))
            })
        })
    }

    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>, RegistryError>> {
        Box::pin(async move {
            check_path(path)?;
            self.call(|store, _| Ok((store.tree.children(path), Touched::new())))
        })
    }

    fn create<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move { self.call(|store, _| Ok(((), store.tree.create_with_parents(path, data)?))) })
    }

    fn set<'a>(
        &'a self,
        path: &'a str,
        data: Bytes,
        version: i32,
    ) -> BoxFuture<'a, Result<i32, RegistryError>> {
        let op = Op::Set { path: path.to_owned(), data, version };
        Box::pin(async move { self.call(|store, _| Ok((version + 1, store.tree.commit(&[op])?))) })
    }

    fn delete<'a>(&'a self, path: &'a str, version: i32) -> BoxFuture<'a, Result<(), RegistryError>> {
        let op = Op::Delete { path: path.to_owned(), version };
        Box::pin(async move { self.call(|store, _| Ok(((), store.tree.commit(&[op])?))) })
    }

    fn commit(&self, ops: Vec<Op>) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(async move { self.call(|store, _| Ok(((), store.tree.commit(&ops)?))) })
    }

    fn register<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<u64, RegistryError>> {
        Box::pin(async move {
            self.call(|store, id| {
                let client = store.client(id);
                let (owner, epoch) = (client.session, client.publish.borrow().epoch);
                Ok((epoch, store.tree.register(path, data, owner)?))
            })
        })
    }

    fn unregister<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move { self.call(|store, _| Ok(((), store.tree.unregister(path)?))) })
    }

    fn listen(&self, listener: Weak<dyn ChangeListener>) {
        self.client.store().client(self.client.id).listeners.add(listener);
    }

    fn session(&self) -> watch::Receiver<Session> {
        self.client.session.clone()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.client.write(|store, id| Ok(((), store.close(id)))).unwrap_or_default();
        })
    }
}

/// Ends its session when the last handle goes, as a connection that breaks for good does.
struct Client {
    id: ClientId,
    store: Arc<Mutex<Store>>,
    session: watch::Receiver<Session>,
}

impl Client {
    fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// Listeners are called after the lock is given back: one that calls the registry must not hang.
    fn write<T>(
        &self,
        act: impl FnOnce(&mut Store, ClientId) -> Result<(T, Touched), RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut store = self.store();
        let (value, touched) = act(&mut store, self.id)?;
        let calls = store.use_up_watches(&touched);
        drop(store);
        for (path, listener) in calls {
            listener.changed(&path);
        }
        Ok(value)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.write(|store, id| Ok(((), store.leave(id)))).unwrap_or_default();
    }
}

/// A panic of one test thread must not hide the state from the others; every change is complete or not begun.
fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
