//! How a command fails, and with which exit code.

use std::process::ExitCode;

use serde_json::json;
use zms_sdk::{
    ClusterName, ConnectError, NotReady, ResolveError, SubscribeError,
    admin::AdminError,
    engine::port::{EngineError, FailureKind},
    registry::port::RegistryError,
};

use crate::view::Output;

/// The table of exit codes, as `zmsctl --help` shows it.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   anything not named below
  2   the command line is wrong
  3   something named does not exist
  4   it exists already, or was changed by others meanwhile
  5   refused: in use, on the wrong cluster, being moved (see --force), or not accepted by the cluster
  6   the registry could not be reached; a write may have taken effect
  7   a node in the registry cannot be understood
  8   a cluster did not answer in time
  9   produce, verify: messages were not acknowledged
  10  verify: messages were lost
  11  verify: messages were handled twice
  12  verify: messages were handled out of order
  13  verify: several of 10, 11 and 12
  14  verify: the time ran out, or it was interrupted, before everything was handled
  20  doctor: found at least one error";

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The arguments do not go together.
    #[error("{0}")]
    Usage(String),
    /// A list has entries that cannot be read; the others were printed.
    #[error("{0} of the entries cannot be read; see the column PROBLEM")]
    Unreadable(usize),
    /// As things stand it must not, or cannot, be done.
    #[error("{0}")]
    Refused(String),
    /// It is there already.
    #[error("{0}")]
    Exists(String),
    /// It is not there.
    #[error("{0}")]
    Missing(String),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// A cluster did not do it.
    #[error("cluster {cluster}: {what}: {error}")]
    Cluster { cluster: ClusterName, what: String, error: EngineError },
    /// A cluster was asked and did not answer.
    #[error("{0}")]
    NoAnswer(String),
    /// Sends without an acknowledgement.
    #[error("{0}")]
    NotAcknowledged(String),
    /// What a check found; it was printed in full.
    #[error("{what}")]
    Found { what: String, code: u8 },
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// The exit code, as `zmsctl --help` documents it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Subscribe(SubscribeError::Name(_)) => 2,
            Self::Missing(_) => 3,
            Self::Exists(_) => 4,
            Self::Refused(_) | Self::NotReady(_) | Self::Subscribe(SubscribeError::Option { .. }) => 5,
            Self::Unreadable(_) => 7,
            Self::NoAnswer(_) => 8,
            Self::NotAcknowledged(_) => 9,
            Self::Admin(error) => admin_code(error),
            Self::Resolve(error) | Self::Subscribe(SubscribeError::Unresolved(error)) => resolve_code(error),
            Self::Connect(ConnectError::Registry(error)) => registry_code(error),
            Self::Cluster { error, .. } => cluster_code(error.kind),
            Self::Found { code, .. } => *code,
            Self::Connect(_) | Self::Subscribe(_) | Self::Other(_) => 1,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    pub(crate) fn render(&self, output: Output) -> String {
        match output {
            Output::Table => format!("error: {self}"),
            Output::Json => json!({ "error": self.to_string(), "code": self.code() }).to_string(),
        }
    }
}

fn admin_code(error: &AdminError) -> u8 {
    match error {
        AdminError::Invalid { .. } | AdminError::Secret { .. } => 2,
        AdminError::Missing { .. } => 3,
        AdminError::Exists { .. } | AdminError::Contended { .. } => 4,
        AdminError::InUse { .. } | AdminError::Misplaced { .. } | AdminError::Moving { .. } => 5,
        AdminError::Unreadable(_) => 7,
        AdminError::Registry(error) => registry_code(error),
        _ => 1,
    }
}

fn registry_code(error: &RegistryError) -> u8 {
    match error {
        RegistryError::Invalid { .. } => 2,
        RegistryError::Unavailable { .. } => 6,
        _ => 1,
    }
}

fn resolve_code(error: &ResolveError) -> u8 {
    match error {
        ResolveError::Name(_) => 2,
        ResolveError::UnknownTopic { .. }
        | ResolveError::UnknownGroup { .. }
        | ResolveError::UnknownCluster { .. } => 3,
        ResolveError::UnsupportedBroker { .. } => 5,
        ResolveError::RegistryUnavailable { .. } => 6,
        ResolveError::Unreadable { .. } => 7,
        _ => 1,
    }
}

fn cluster_code(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Unreachable => 8,
        FailureKind::UnknownTopic => 3,
        _ => 5,
    }
}
