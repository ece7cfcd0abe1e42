//! Why a reading of the registry did not lead to a route that can be adopted.

use std::{fmt, time::Duration};

use zms_core::route::ChangeId;

use super::{ResolveError, subject::Subject};

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The entry's node does not exist, or has no data yet.
    Missing,
    /// The entry names a cluster that does not exist, or has no data yet.
    UnknownCluster { cluster: String },
    /// A node was not understood.
    Unreadable { path: String, reason: String },
    /// There is no engine for the cluster.
    Unsupported { cluster: String, kind: String },
    /// A node is older than what was adopted: a server that lags, or a registry restored from a backup.
    Older { path: String },
}

/// A refusal of one state of the registry: the same state is reported once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) refusal: Refusal,
    /// The change at fault; `None` for what is missing.
    pub(super) changed: Option<ChangeId>,
}

impl Refusal {
    /// Whether waiting may help: what is missing may be about to be created.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Missing | Self::UnknownCluster { .. } | Self::Older { .. })
    }

    /// The refusal as the caller learns it, after `waited`.
    pub(super) fn error(&self, subject: &Subject, waited: Duration) -> ResolveError {
        let entry = subject.to_string();
        match self.clone() {
            Self::Missing => subject.unknown(waited),
            Self::UnknownCluster { cluster } => ResolveError::UnknownCluster { entry, cluster },
            Self::Unreadable { path, reason } => ResolveError::Unreadable { path, reason },
            Self::Unsupported { cluster, kind } => ResolveError::UnsupportedBroker { entry, cluster, kind },
            Self::Older { .. } => ResolveError::RegistryUnavailable { entry, reason: self.to_string() },
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it is not in the registry"),
            Self::UnknownCluster { cluster } => write!(f, "its cluster {cluster} is not in the registry"),
            Self::Unreadable { path, reason } => write!(f, "{path} cannot be read: {reason}"),
            Self::Unsupported { cluster, kind } => {
                write!(f, "its cluster {cluster} is of type {kind}, which is not supported")
            }
            Self::Older { path } => write!(
                f,
                "the registry answers with a state of {path} older than the one in use; if it was restored from a \
                 backup, restart this process"
            ),
        }
    }
}
