//! The task that owns the session: keeps one connection, publishes what became of it, ends it on close.

use std::{sync::Arc, time::Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tracing::{debug, info, warn};
use zookeeper_client::SessionInfo;

use super::{
    connection::{ConnectError, Connection},
    error::unavailable,
    link::Link,
    options::ZooKeeperOptions,
    pace::Pace,
};
use crate::registry::{
    listeners::Listeners,
    port::{RegistryError, Session, SessionState},
};

/// What the handle and the supervisor share.
pub(super) struct Shared {
    /// The connection of now.
    pub(super) link: ArcSwapOption<Link>,
    pub(super) session: watch::Sender<Session>,
    /// Why the last attempt to connect failed; none once one succeeded.
    pub(super) failure: watch::Sender<Option<RegistryError>>,
    pub(super) listeners: Arc<Listeners>,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            link: ArcSwapOption::empty(),
            session: watch::Sender::new(Session::default()),
            failure: watch::Sender::new(None),
            listeners: Arc::default(),
        }
    }
}

/// Runs until `stop` says true or its sender is gone.
pub(super) struct Supervisor {
    options: ZooKeeperOptions,
    shared: Arc<Shared>,
    /// The session to take up again.
    session: Option<SessionInfo>,
    epoch: u64,
    pace: Pace,
}

impl Supervisor {
    pub(super) fn new(options: ZooKeeperOptions, shared: Arc<Shared>) -> Self {
        Self { options, shared, session: None, epoch: 0, pace: Pace::default() }
    }

    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let mut connection = tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                connection = self.establish() => connection,
            };
            let since = Instant::now();
            self.publish(&connection);
            let is_stopped = tokio::select! {
                biased;
                () = stopped(&mut stop) => true,
                () = connection.lost() => false,
            };
            self.withdraw();
            if is_stopped {
                connection.end_session(self.options.request_timeout).await;
                break;
            }
            warn!(servers = %self.options.connect, "connection to ZooKeeper lost, connecting again");
            self.session = Some(connection.give_up().await);
            self.pace.connection_ended(since.elapsed());
        }
    }

    /// Tries until it succeeds.
    async fn establish(&mut self) -> Connection {
        loop {
            tokio::time::sleep(self.pace.next_delay()).await;
            let epoch = if self.session.is_some() { self.epoch } else { self.epoch + 1 };
            let listeners = Arc::clone(&self.shared.listeners);
            match Connection::establish(&self.options, self.session.as_ref(), epoch, listeners).await {
                Ok(connection) => {
                    self.epoch = epoch;
                    return connection;
                }
                Err(ConnectError::SessionExpired) => {
                    if self.session.take().is_some() {
                        warn!(epoch = self.epoch, "ZooKeeper session expired, beginning a new one");
                    } else {
                        self.failed(&unavailable("the session expired at once"));
                    }
                }
                Err(ConnectError::Failed(error)) => self.failed(&error),
            }
        }
    }

    /// Logged once per outage.
    fn failed(&self, error: &RegistryError) {
        let is_first = self.shared.failure.send_replace(Some(error.clone())).is_none();
        if is_first {
            warn!(%error, "cannot connect to ZooKeeper, trying on");
        } else {
            debug!(%error, "cannot connect to ZooKeeper");
        }
    }

    fn publish(&self, connection: &Connection) {
        self.shared.link.store(Some(Arc::clone(&connection.link)));
        self.shared.failure.send_replace(None);
        self.shared.session.send_modify(|session| {
            session.state = SessionState::Connected;
            session.epoch = self.epoch;
            session.connection += 1;
        });
        info!(servers = %self.options.connect, epoch = self.epoch, "connected to ZooKeeper");
    }

    fn withdraw(&self) {
        self.shared.link.store(None);
        self.shared.session.send_modify(|session| session.state = SessionState::Disconnected);
    }
}

/// However the task ends, nobody waits for it in vain.
impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.link.store(None);
        self.shared.session.send_modify(|session| session.state = SessionState::Closed);
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the handle was dropped without being closed.
    let _ = stop.wait_for(|stop| *stop).await;
}
