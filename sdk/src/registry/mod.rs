//! The metadata store: which cluster a topic lives on, who is connected. A port and its adapters.

mod listeners;
mod memory;
mod path;
pub mod port;
mod zookeeper;

pub use memory::{Fault, MemoryRegistry};
#[cfg(feature = "zookeeper-tls")]
pub use zookeeper::ZooKeeperTls;
pub use zookeeper::{ZooKeeper, ZooKeeperOptions};
