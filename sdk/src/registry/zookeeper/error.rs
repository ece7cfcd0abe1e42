//! The client library's errors in the port's terms.

use tracing::debug;
use zookeeper_client::Error;

use crate::registry::port::RegistryError;

/// Translates what a call about `path` answered.
pub(super) fn translate(path: &str, error: Error) -> RegistryError {
    let path = path.to_owned();
    match error {
        Error::NoNode => RegistryError::Missing { path },
        Error::NodeExists => RegistryError::Exists { path },
        Error::BadVersion => RegistryError::Conflict { path },
        Error::NotEmpty => RegistryError::NotEmpty { path },
        Error::NoAuth | Error::AuthFailed | Error::InvalidAcl => RegistryError::Denied { path },
        Error::BadArguments(_) | Error::NoChildrenForEphemerals | Error::QuotaExceeded => {
            RegistryError::Invalid { reason: format!("{path}: {error}") }
        }
        Error::ConnectionLoss | Error::SessionExpired | Error::SessionMoved | Error::ClientClosed => {
            unavailable(error.to_string())
        }
        // What a request gets whose connection was given up while it waited; the text is the library's own affair.
        Error::UnexpectedError(text) => {
            debug!(path, text, "request without an answer");
            unavailable(Error::ConnectionLoss.to_string())
        }
        // Answers that only a connection in trouble gives: what became of the request is open.
        other => unavailable(format!("{path}: {other}")),
    }
}

pub(super) fn unavailable(reason: impl Into<String>) -> RegistryError {
    RegistryError::Unavailable { reason: reason.into() }
}
