//! Servers for tests, and the gate in front of tests that need them.

mod error;
mod install;
pub(crate) mod port;
mod process;
mod zookeeper;

pub use error::ServiceError;
pub use install::{Availability, availability, require_services};
pub use zookeeper::ZooKeeperServer;
