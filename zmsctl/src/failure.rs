//! How a command fails, and with which exit code.

use std::process::ExitCode;

use serde_json::json;
use zms_sdk::{admin::AdminError, registry::port::RegistryError};

use crate::view::Output;

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
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// The exit code, as `zmsctl --help` documents it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Admin(AdminError::Invalid { .. } | AdminError::Secret { .. }) => 2,
            Self::Unreadable(_) | Self::Admin(AdminError::Unreadable(_)) => 7,
            Self::Admin(AdminError::Missing { .. }) => 3,
            Self::Admin(AdminError::Exists { .. } | AdminError::Contended { .. }) => 4,
            Self::Admin(
                AdminError::InUse { .. } | AdminError::Misplaced { .. } | AdminError::Moving { .. },
            ) => 5,
            Self::Admin(AdminError::Registry(RegistryError::Unavailable { .. })) => 6,
            Self::Admin(_) | Self::Other(_) => 1,
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
