//! Real `ZooKeeper` and real Kafka for tests: servers that can be started, killed, paused and restarted, a TCP proxy
//! that can be cut, and the SDK's guarantees as objects that every scenario feeds and finally asks.
//!
//! Servers are plain JVM processes on loopback ports, started from the versions pinned in `services/pom.xml`. They
//! die with the process that started them, however that ends. All calls block, with a limit; from async code, where
//! other tasks are to go on meanwhile, use `tokio::task::spawn_blocking` (the handles are cheap to clone).

pub mod estate;
pub mod guarantees;
pub mod proxy;
pub mod services;
pub mod wait;
