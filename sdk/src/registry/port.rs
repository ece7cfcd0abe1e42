//! The port: what the SDK needs of a metadata store, in the store's own terms (paths, versions, sessions).

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use tokio::sync::watch;
use zms_core::route::ChangeId;

/// A boxed future, so that the port can be used as a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The data; empty is legal.
    pub data: Bytes,
    /// The version for compare-and-set. Starts anew at 0 when a node is created again.
    pub version: i32,
    /// Place of the last change in the store's total order.
    pub changed: ChangeId,
}

/// One write of a [`Registry::commit`]: all take effect, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The node must stand at this version.
    Check {
        /// Its path.
        path: String,
        /// The version expected.
        version: i32,
    },
    /// Creates a persistent node. Its parent must exist.
    Create {
        /// Its path.
        path: String,
        /// Its data.
        data: Bytes,
    },
    /// Replaces a node's data.
    Set {
        /// Its path.
        path: String,
        /// Its new data.
        data: Bytes,
        /// The version expected.
        version: i32,
    },
    /// Deletes a node without children.
    Delete {
        /// Its path.
        path: String,
        /// The version expected.
        version: i32,
    },
}

/// Why a registry call did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No server answered within the limit, or the connection broke. A write may or may not have taken effect:
    /// read again.
    #[error("registry unavailable: {reason}")]
    Unavailable {
        /// What happened, in words.
        reason: String,
    },
    /// The node does not exist (or the parent of a node to create).
    #[error("{path} does not exist in the registry")]
    Missing {
        /// The path asked for.
        path: String,
    },
    /// A node to create exists.
    #[error("{path} exists already")]
    Exists {
        /// The path asked for.
        path: String,
    },
    /// The node stands at another version than expected: somebody else wrote it. Read again and decide again.
    #[error("{path} was changed by somebody else meanwhile")]
    Conflict {
        /// The path asked for; in a multi, that of the check or write that failed.
        path: String,
    },
    /// A node to delete has children.
    #[error("{path} has children")]
    NotEmpty {
        /// The path asked for.
        path: String,
    },
    /// The server refused this identity.
    #[error("no permission for {path} in the registry")]
    Denied {
        /// The path asked for.
        path: String,
    },
    /// The request is malformed (a bad path, data above the limit, a bad connect string).
    #[error("registry request refused: {reason}")]
    Invalid {
        /// What is wrong, in words.
        reason: String,
    },
    /// The registry handle was closed.
    #[error("registry handle is closed")]
    Closed,
}

/// Connection state, as a latest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Whether requests are answered now.
    pub state: SessionState,
    /// Number of the session, counted from 1; another number means that all ephemeral nodes of earlier ones are gone
    /// or about to go. 0: no session yet.
    pub epoch: u64,
    /// Counts connections within and across sessions: another number means that events may have been missed and
    /// everything has to be read again.
    pub connection: u64,
}

/// See [`Session`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionState {
    /// No connection yet, or lost and being restored.
    #[default]
    Disconnected,
    /// Connected.
    Connected,
    /// Closed by [`Registry::close`]; final.
    Closed,
}

/// Receives what changed. Called on the registry's own task: must neither block nor call back, only mark work to do.
pub trait ChangeListener: Send + Sync {
    /// The node at `path` was created, changed or deleted since it was last read by [`Registry::watch`]. Its watch is
    /// used up: read it by [`Registry::watch`] to arm it again.
    fn changed(&self, path: &str);
}

/// A metadata store: hierarchical, versioned, with one-shot watches and sessions.
///
/// Every call ends within the adapter's request timeout with [`RegistryError::Unavailable`] at the latest. Dropping a
/// future abandons the wait, not the request: a write may still take effect.
pub trait Registry: Send + Sync + fmt::Debug + 'static {
    /// Reads a node; `None` when there is none.
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>>;

    /// Reads a node and arms a one-shot watch on it by the same call, also on a node that is missing. Fires
    /// [`ChangeListener::changed`] once for the next creation, change of data, or deletion. Several armed watches on
    /// one path fire once. Watches do not survive a new session; after a new [`Session::connection`] read again.
    fn watch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>>;

    /// Names (not paths) of a node's children, sorted; `None` when the node is missing.
    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>, RegistryError>>;

    /// Creates a persistent node with data in one step, and its missing parents without data.
    fn create<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// Replaces data if the node stands at `version`; the new version.
    fn set<'a>(
        &'a self,
        path: &'a str,
        data: Bytes,
        version: i32,
    ) -> BoxFuture<'a, Result<i32, RegistryError>>;

    /// Deletes a node if it stands at `version`.
    fn delete<'a>(&'a self, path: &'a str, version: i32) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// Carries out all writes or none.
    fn commit(&self, ops: Vec<Op>) -> BoxFuture<'_, Result<(), RegistryError>>;

    /// Makes sure that an ephemeral node of the *current* session stands at `path` with `data`; the session's epoch.
    /// One that an earlier session of this process left is replaced; within a session it is created once and only its
    /// data is ever changed. The parent must exist.
    fn register<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<u64, RegistryError>>;

    /// Removes an ephemeral node; a node already gone is fine.
    fn unregister<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), RegistryError>>;

    /// Adds a listener for watch events. Held weakly: it ends with its last strong reference.
    fn listen(&self, listener: std::sync::Weak<dyn ChangeListener>);

    /// The session, as a latest value.
    fn session(&self) -> watch::Receiver<Session>;

    /// Ends the session; ephemeral nodes go. Later calls answer [`RegistryError::Closed`]. Idempotent.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A shared registry handle.
pub type SharedRegistry = Arc<dyn Registry>;
