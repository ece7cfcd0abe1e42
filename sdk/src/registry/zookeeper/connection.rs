//! A connection with the tasks behind it: made, lost, given up, or ended together with its session.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinHandle, time::timeout};
use zookeeper_client::{Error, SessionInfo, SessionState, StateWatcher};

use super::{capture::capture, error::translate, link::Link, options::ZooKeeperOptions, watches::Watches};
use crate::registry::{listeners::Listeners, port::RegistryError};

/// One connection of one session.
pub(super) struct Connection {
    pub(super) link: Arc<Link>,
    session: SessionInfo,
    states: StateWatcher,
    tasks: Tasks,
}

/// Why there is no connection.
pub(super) enum ConnectError {
    /// The session to take up again is gone.
    SessionExpired,
    Failed(RegistryError),
}

impl Connection {
    /// Connects and takes up `session` again, or begins a new one. When this returns, reads show at least everything
    /// that was written before: the server may lag behind the one that the session was with.
    pub(super) async fn establish(
        options: &ZooKeeperOptions,
        session: Option<&SessionInfo>,
        epoch: u64,
        listeners: Arc<Listeners>,
    ) -> Result<Self, ConnectError> {
        let (client, library) = capture(options.connect(session)).await;
        let mut tasks = Tasks { library, pump: None };
        let client = client.map_err(|error| ConnectError::new(options, error))?;
        let states = client.state_watcher();
        let session = client.session().clone();

        let synced = timeout(options.request_timeout, client.sync("/")).await;
        if let Err(error) = synced.unwrap_or(Err(Error::Timeout)) {
            tasks.abort().await;
            return Err(ConnectError::new(options, error));
        }
        let (watches, pump) = Watches::new(listeners);
        tasks.pump = Some(tokio::spawn(pump));
        let link = Arc::new(Link::new(client, epoch, watches));
        Ok(Self { link, session, states, tasks })
    }

    /// Returns when the connection is lost, its session expired, or its events ended.
    pub(super) async fn lost(&mut self) {
        // The library connects again by itself, perhaps before anybody looks: any change of state means that events
        // may have been missed.
        if self.states.peek_state() != SessionState::SyncConnected {
            return;
        }
        let Some(pump) = &mut self.tasks.pump else { return };
        tokio::select! {
            _ = self.states.changed() => {}
            _ = pump => self.tasks.pump = None,
        }
    }

    /// Drops the connection; its session lives on and can be taken up again.
    pub(super) async fn give_up(mut self) -> SessionInfo {
        self.tasks.abort().await;
        self.session
    }

    /// Ends the session at the server, within `limit`; a session that cannot be ended expires there.
    pub(super) async fn end_session(self, limit: Duration) {
        let Self { link, mut tasks, .. } = self;
        tasks.stop_pump().await;
        // The library ends the session when its client's last handle goes; calls under way hold others for a while.
        drop(link);
        let library = std::mem::take(&mut tasks.library);
        let stops: Vec<_> = library.iter().map(JoinHandle::abort_handle).collect();
        let ended = async {
            for task in library {
                // An error is a panic of the library: it ended, too.
                let _ = task.await;
            }
        };
        if timeout(limit, ended).await.is_err() {
            stops.iter().for_each(tokio::task::AbortHandle::abort);
        }
    }
}

impl ConnectError {
    fn new(options: &ZooKeeperOptions, error: Error) -> Self {
        match error {
            Error::SessionExpired => Self::SessionExpired,
            Error::NoHosts => Self::Failed(RegistryError::Unavailable {
                reason: format!("none of {} accepts connections", options.connect),
            }),
            Error::Timeout => Self::Failed(RegistryError::Unavailable {
                reason: format!("none of {} answers", options.connect),
            }),
            error => Self::Failed(translate("/", error)),
        }
    }
}

struct Tasks {
    /// The library's; aborting them drops the connection and leaves the session.
    library: Vec<JoinHandle<()>>,
    pump: Option<JoinHandle<()>>,
}

impl Tasks {
    async fn abort(&mut self) {
        self.stop_pump().await;
        for task in std::mem::take(&mut self.library) {
            task.abort();
            // Waited for, since a client dropped before its task is gone would make it end the session.
            let _ = task.await;
        }
    }

    /// Always before the library's tasks: a watcher whose session task vanishes panics when it is polled.
    async fn stop_pump(&mut self) {
        if let Some(pump) = self.pump.take() {
            pump.abort();
            let _ = pump.await;
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.pump.iter().chain(&self.library).for_each(JoinHandle::abort);
    }
}
