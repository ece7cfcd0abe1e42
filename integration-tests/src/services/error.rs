//! Why a server could not be started or steered.

use std::fmt;
use std::io;

/// A failed operation on a test server. `Debug` prints the same text as `Display`, so that an `expect` is readable.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// A program that runs the servers is not installed.
    #[error("`{0}` is needed and not on the PATH; `./dev test` names the package to install")]
    MissingTool(&'static str),
    /// The jars could not be fetched.
    #[error("fetching the servers with maven failed:\n{0}")]
    Fetch(String),
    /// The server ended, or did not answer in time.
    #[error("{name} {problem}; the end of its log ({log}):\n{tail}")]
    NotReady {
        /// The server's name.
        name: String,
        /// What happened instead.
        problem: String,
        /// The path of the whole log.
        log: String,
        /// The last lines of the log.
        tail: String,
    },
    /// An operation on a server that is not running.
    #[error("{0} is not running")]
    NotRunning(String),
    /// A request to a running server was refused or not answered.
    #[error("{name}: {problem}")]
    Request {
        /// The server's name.
        name: String,
        /// What was asked and what came back.
        problem: String,
    },
    /// A file, process or socket operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl fmt::Debug for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Adds what was attempted to an I/O error.
pub(crate) trait Attempting<T> {
    fn attempting(self, what: impl fmt::Display) -> Result<T, ServiceError>;
}

impl<T, E: Into<io::Error>> Attempting<T> for Result<T, E> {
    fn attempting(self, what: impl fmt::Display) -> Result<T, ServiceError> {
        self.map_err(|source| ServiceError::Io { what: what.to_string(), source: source.into() })
    }
}
