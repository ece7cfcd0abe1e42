//! The registry in `ZooKeeper`.
//!
//! A supervisor task keeps one connection at a time. Each is a client of the library of its own: when a connection is
//! lost, its client is given up without ending the session, and the session is taken up again by a new client at a pace
//! of ours. The library's own way back sleeps for as long as the outage lasted so far, forgets persistent watches, and
//! queues requests without bound meanwhile. Watches end with their connection, as the port allows: who follows
//! [`Session::connection`] reads everything again anyway.

mod capture;
mod connection;
mod error;
mod link;
mod options;
mod pace;
mod supervisor;
#[cfg(feature = "zookeeper-tls")]
mod tls;
mod watches;

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use tokio::{runtime::Handle, sync::watch, time::timeout};

pub use self::options::ZooKeeperOptions;
#[cfg(feature = "zookeeper-tls")]
pub use self::tls::ZooKeeperTls;
use self::{
    error::unavailable,
    link::Link,
    supervisor::{Shared, Supervisor},
};
use super::port::{BoxFuture, ChangeListener, Node, Op, Registry, RegistryError, Session, SessionState};

/// One client of a `ZooKeeper` ensemble, with its session.
///
/// Lost connections are restored and expired sessions replaced in the background, for as long as the handle lives.
/// Meanwhile calls answer [`RegistryError::Unavailable`] at once. The nodes it creates are open to everybody, as those
/// of ZMS are. Sessions are never read-only: a server without its quorum counts as down.
///
/// Dropping the handle ends the session in the background; [`Registry::close`] also waits for that.
pub struct ZooKeeper {
    servers: String,
    request_timeout: Duration,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

impl ZooKeeper {
    /// Connects, and waits for the first session for at most [`ZooKeeperOptions::connect_timeout`].
    ///
    /// Dropping the future gives up.
    ///
    /// # Errors
    /// [`RegistryError::Unavailable`] when no server gave a session in time, [`RegistryError::Denied`] when one refused
    /// the identity, [`RegistryError::Invalid`] for options that cannot work.
    pub async fn connect(options: ZooKeeperOptions) -> Result<Self, RegistryError> {
        let limit = options.connect_timeout;
        let registry = Self::start(options)?;
        let outcome = timeout(limit, registry.first_session()).await;
        let error = match outcome {
            Ok(Ok(())) => return Ok(registry),
            Ok(Err(refused)) => refused,
            Err(_) => registry.no_session(limit),
        };
        registry.close().await;
        Err(error)
    }

    /// Starts connecting in the background and returns at once: for a process that has to come up while `ZooKeeper` is
    /// down. Follow [`Registry::session`] to see when it is there.
    ///
    /// # Errors
    /// [`RegistryError::Invalid`] for options that cannot work, and outside a Tokio runtime.
    pub fn start(options: ZooKeeperOptions) -> Result<Self, RegistryError> {
        let options = options.checked()?;
        let runtime =
            Handle::try_current().map_err(|error| RegistryError::Invalid { reason: error.to_string() })?;
        let shared = Arc::new(Shared::new());
        let (stop, stopped) = watch::channel(false);
        let registry = Self {
            servers: options.connect.clone(),
            request_timeout: options.request_timeout,
            shared: Arc::clone(&shared),
            stop,
        };
        runtime.spawn(Supervisor::new(options, shared).run(stopped));
        Ok(registry)
    }

    async fn first_session(&self) -> Result<(), RegistryError> {
        let mut session = self.shared.session.subscribe();
        let mut failure = self.shared.failure.subscribe();
        let is_refused = |failure: &Option<RegistryError>| {
            matches!(failure, Some(RegistryError::Denied { .. } | RegistryError::Invalid { .. }))
        };
        tokio::select! {
            Ok(_) = session.wait_for(|session| session.state == SessionState::Connected) => Ok(()),
            Ok(refused) = failure.wait_for(is_refused) => Err(refused.clone().unwrap_or(RegistryError::Closed)),
            else => Err(RegistryError::Closed),
        }
    }

    fn no_session(&self, waited: Duration) -> RegistryError {
        let last = match &*self.shared.failure.borrow() {
            Some(RegistryError::Unavailable { reason }) => reason.clone(),
            Some(error) => error.to_string(),
            None => format!("{} did not answer", self.servers),
        };
        unavailable(format!("no session within {waited:?}: {last}"))
    }

    fn link(&self) -> Result<Arc<Link>, RegistryError> {
        if let Some(link) = self.shared.link.load_full() {
            return Ok(link);
        }
        if self.shared.session.borrow().state == SessionState::Closed || *self.stop.borrow() {
            return Err(RegistryError::Closed);
        }
        Err(match &*self.shared.failure.borrow() {
            Some(failure) => unavailable(format!("not connected: {failure}")),
            None => unavailable(format!("not connected to {}", self.servers)),
        })
    }

    /// Bounds a call: the library's requests have no limit of their own.
    async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        let limit = self.request_timeout;
        timeout(limit, call).await.unwrap_or_else(|_| Err(unavailable(format!("no answer within {limit:?}"))))
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeper")
            .field("servers", &self.servers)
            .field("session", &*self.shared.session.borrow())
            .finish_non_exhaustive()
    }
}

impl Registry for ZooKeeper {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        Box::pin(async move { self.within(self.link()?.read(path)).await })
    }

    fn watch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        Box::pin(async move { self.within(self.link()?.watch(path)).await })
    }

    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>, RegistryError>> {
        Box::pin(async move { self.within(self.link()?.children(path)).await })
    }

    fn create<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move { self.within(self.link()?.create(path, &data)).await })
    }

    fn set<'a>(
        &'a self,
        path: &'a str,
        data: Bytes,
        version: i32,
    ) -> BoxFuture<'a, Result<i32, RegistryError>> {
        Box::pin(async move { self.within(self.link()?.set(path, &data, version)).await })
    }

    fn delete<'a>(&'a self, path: &'a str, version: i32) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move { self.within(self.link()?.delete(path, version)).await })
    }

    fn commit(&self, ops: Vec<Op>) -> BoxFuture<'_, Result<(), RegistryError>> {
        Box::pin(async move { self.within(self.link()?.commit(&ops)).await })
    }

    fn register<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<u64, RegistryError>> {
        Box::pin(async move { self.within(self.link()?.register(path, &data)).await })
    }

    fn unregister<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move { self.within(self.link()?.unregister(path)).await })
    }

    fn listen(&self, listener: Weak<dyn ChangeListener>) {
        self.shared.listeners.add(listener);
    }

    fn session(&self) -> watch::Receiver<Session> {
        self.shared.session.subscribe()
    }

    /// Takes at most the request timeout longer than the calls under way; the session of a client that is cut off
    /// expires at the servers instead.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stop.send_replace(true);
            let mut session = self.shared.session.subscribe();
            // The supervisor's limits bound this; an error is impossible while `self` holds the sender.
            let _ = session.wait_for(|session| session.state == SessionState::Closed).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starting_outside_a_runtime_is_refused() {
        let started = ZooKeeper::start(ZooKeeperOptions::new("localhost"));
        assert!(matches!(started, Err(RegistryError::Invalid { .. })), "{started:?}");
    }
}
