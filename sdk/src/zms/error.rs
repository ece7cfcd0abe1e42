//! Why a handle did not come to be, or did not end as asked.

use std::time::Duration;

use crate::{producer::ProducerConfigError, registry::port::RegistryError};

/// Why [`Zms::connect`](super::Zms::connect) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No registry was named.
    #[error("no registry given: call `zookeeper(\"host:2181\")` or `registry(..)` on the builder")]
    NoRegistry,
    /// The registry cannot be used, and no snapshot of it stands on disk. Check the address, and that `ZooKeeper`
    /// runs; retrying may help.
    #[error("cannot connect to the registry: {0}")]
    Registry(#[from] RegistryError),
    /// Producer settings do not fit one another.
    #[error("producer settings: {0}")]
    Producer(#[from] ProducerConfigError),
}

/// What a [`Zms::close`](super::Zms::close) had to give up at its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not closed cleanly within {limit:?}: {undelivered} messages given up, {subscriptions} subscriptions still ending"
)]
pub struct CloseError {
    /// The deadline given.
    pub limit: Duration,
    /// Messages whose senders got an error.
    pub undelivered: usize,
    /// Subscriptions with handlers still running; their messages are handled again.
    pub subscriptions: usize,
}
