//! What the clients of one in-memory registry share.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tokio::sync::watch;
use zms_core::route::ChangeId;

use super::{
    Fault,
    tree::{SessionId, Touched, Tree},
};
use crate::registry::{
    listeners::Listeners,
    path::check_path,
    port::{ChangeListener, Node, RegistryError, Session, SessionState},
};

pub(super) type ClientId = u64;

/// All clients' state under one lock, so that what a test sees is one order of events.
#[derive(Default)]
pub(super) struct Store {
    pub(super) tree: Tree,
    clients: BTreeMap<ClientId, ClientState>,
    last_client: ClientId,
    last_session: SessionId,
}

pub(super) struct ClientState {
    /// 0: none.
    pub(super) session: SessionId,
    pub(super) armed: BTreeSet<String>,
    pub(super) listeners: Listeners,
    pub(super) faults: VecDeque<Fault>,
    pub(super) publish: watch::Sender<Session>,
}

impl Store {
    pub(super) fn join(&mut self, publish: watch::Sender<Session>) -> ClientId {
        self.last_client += 1;
        let state = ClientState {
            session: 0,
            armed: BTreeSet::new(),
            listeners: Listeners::default(),
            faults: VecDeque::new(),
            publish,
        };
        self.clients.insert(self.last_client, state);
        self.last_client
    }

    /// A handle's client is in the table until its `Drop`.
    pub(super) fn client(&mut self, id: ClientId) -> &mut ClientState {
        self.clients.get_mut(&id).expect("a client leaves only when its last handle is dropped")
    }

    pub(super) fn admit(&mut self, id: ClientId) -> Result<Option<Fault>, RegistryError> {
        let client = self.client(id);
        match client.publish.borrow().state {
            SessionState::Connected => {}
            SessionState::Disconnected => return Err(unavailable("disconnected")),
            SessionState::Closed => return Err(RegistryError::Closed),
        }
        Ok(client.faults.pop_front())
    }

    pub(super) fn read(&self, path: &str) -> Result<Option<Node>, RegistryError> {
        check_path(path)?;
        if path == "/" {
            return Ok(Some(Node { data: Bytes::new(), version: 0, changed: ChangeId(0) }));
        }
        Ok(self.tree.get(path).map(|entry| entry.node.clone()))
    }

    pub(super) fn disconnect(&mut self, id: ClientId) {
        let client = self.client(id);
        client.armed.clear();
        client.publish.send_if_modified(|session| {
            let connected = session.state == SessionState::Connected;
            if connected {
                session.state = SessionState::Disconnected;
            }
            connected
        });
    }

    pub(super) fn reconnect(&mut self, id: ClientId) {
        let next = self.last_session + 1;
        let client = self.client(id);
        let needs_session = client.session == 0;
        let connected = client.publish.send_if_modified(|session| {
            let down = session.state == SessionState::Disconnected;
            if down {
                session.state = SessionState::Connected;
                session.connection += 1;
                session.epoch += u64::from(needs_session);
            }
            down
        });
        if connected && needs_session {
            client.session = next;
            self.last_session = next;
        }
    }

    pub(super) fn expire(&mut self, id: ClientId) -> Touched {
        let client = self.client(id);
        let session = std::mem::take(&mut client.session);
        let was_connected = client.publish.borrow().state == SessionState::Connected;
        self.disconnect(id);
        if was_connected {
            self.reconnect(id);
        }
        self.tree.end_session(session)
    }

    pub(super) fn close(&mut self, id: ClientId) -> Touched {
        let client = self.client(id);
        client.armed.clear();
        let session = std::mem::take(&mut client.session);
        client.publish.send_if_modified(|session| {
            let open = session.state != SessionState::Closed;
            session.state = SessionState::Closed;
            open
        });
        self.tree.end_session(session)
    }

    pub(super) fn leave(&mut self, id: ClientId) -> Touched {
        let touched = self.close(id);
        self.clients.remove(&id);
        touched
    }

    pub(super) fn use_up_watches(&mut self, touched: &[String]) -> Vec<(String, Arc<dyn ChangeListener>)> {
        let mut calls = Vec::new();
        for path in touched {
            for client in self.clients.values_mut() {
                if client.armed.remove(path) {
                    let live = client.listeners.live().into_iter();
                    calls.extend(live.map(|listener| (path.clone(), listener)));
                }
            }
        }
        calls
    }
}

pub(super) fn unavailable(reason: &str) -> RegistryError {
    RegistryError::Unavailable { reason: reason.to_owned() }
}
