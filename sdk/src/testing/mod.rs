//! For users' own tests: in-process Kafka clusters, an in-memory registry, guarantee checkers.

mod cluster;
mod sandbox;

pub use cluster::{
    Api, BrokerError, FAST_CONSUMER_PROTOCOL_PROPERTIES, FAST_GROUP_PROPERTIES, MockCluster, MockClusterError,
};
pub use sandbox::{Sandbox, SandboxError};
