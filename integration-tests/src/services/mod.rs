//! Servers for tests, and the gate in front of tests that need them.

pub mod by_hand;
mod error;
mod install;
mod kafka;
pub(crate) mod port;
mod process;
mod shared;
mod zookeeper;

pub use error::ServiceError;
pub use install::{
    Availability, availability, jar_directory, jars, java_class_path, require_services,
    require_services_and_jdk,
};
pub use kafka::{Broker, KafkaBuilder, KafkaCluster};
pub use shared::Shared;
pub use zookeeper::ZooKeeperServer;
