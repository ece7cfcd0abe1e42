//! How the routing driver behaves.

use std::{path::PathBuf, time::Duration};

/// Settings of a [`Router`](super::Router), complete: whoever builds it has read the environment.
#[derive(Debug, Clone)]
pub(crate) struct RoutingConfig {
    /// The connect string: tells whether a snapshot belongs to this registry.
    pub(crate) registry: String,
    /// Name of this instance in registrations.
    pub(crate) instance: String,
    /// Own addresses, for gray release; the first one stands in registrations.
    pub(crate) addresses: Vec<String>,
    /// How long a name that leads nowhere is waited for.
    pub(crate) resolve_timeout: Duration,
    /// How long the registry may be silent before the snapshot is used.
    pub(crate) offline_grace: Duration,
    /// Mean time between re-reads of everything behind the watches.
    pub(crate) reread_every: Duration,
    /// Registry calls under way at once.
    pub(crate) concurrent_calls: usize,
    /// The snapshot's file; `None`: no snapshot.
    pub(crate) snapshot: Option<PathBuf>,
    /// How long changes are gathered before the snapshot is written.
    pub(crate) snapshot_debounce: Duration,
}

impl RoutingConfig {
    /// The defaults for the registry that `connect` leads to, with what the environment says: own addresses from
    /// `ZMS_IP`, else found by asking the system for the way to the registry; the snapshot's place from
    /// `ZMS_STATE_DIR`, else the XDG state directory.
    ///
    /// Blocking: may resolve host names.
    pub(crate) fn from_env(connect: &str, instance: &str) -> Self {
        let stated = std::env::var("ZMS_IP").ok();
        let addresses = super::address::own_addresses(stated.as_deref(), connect);
        Self {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            snapshot: super::snapshot::default_path(connect),
            ..Self::new(connect, instance)
        }
    }

    /// The defaults, without own addresses and without a snapshot.
    pub(crate) fn new(connect: &str, instance: &str) -> Self {
        Self {
            registry: connect.to_owned(),
            instance: instance.to_owned(),
            addresses: Vec::new(),
            resolve_timeout: Duration::from_secs(10),
            offline_grace: Duration::from_secs(3),
            reread_every: Duration::from_secs(60),
            concurrent_calls: 64,
            snapshot: None,
            snapshot_debounce: Duration::from_secs(1),
        }
    }

    /// Keeps the snapshot in this directory, under a name that belongs to the registry.
    pub(crate) fn keep_snapshot_in(&mut self, directory: &std::path::Path) {
        self.snapshot = Some(super::snapshot::path_in(directory, &self.registry));
    }
}
