//! Editing the registry: what operators do, as an API.
//!
//! Every write is a compare-and-set on what was read, so that two operators, or an operator and ZMS's console, never
//! overwrite one another unseen, and a node keeps its format and all that this version does not know of it.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use zms_sdk::{
//!     ClusterName, GroupName, TopicName,
//!     admin::{Admin, Format, Safety},
//!     registry::MemoryRegistry,
//! };
//!
//! let admin = Admin::new(MemoryRegistry::new().shared());
//! let (a, orders, billing) = (ClusterName::new("a")?, TopicName::new("orders")?, GroupName::new("billing")?);
//! admin.add_cluster(&a, Format::Json, |cluster| cluster.bootstrap = "kafka-a:9092".to_owned()).await?;
//! admin.add_topic(&orders, Format::Json, &a, |_| ()).await?;
//! admin.add_group(&billing, Format::Json, &orders, |group| group.suspend = true).await?;
//! assert_eq!(admin.group(&billing).await?.cluster, a);
//!
//! admin.set_group(&billing, Safety::Checked, |group| group.suspend = false).await?;
//! assert!(admin.remove_topic(&orders, Safety::Checked).await.is_err(), "billing is bound to it");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod cluster;
mod error;
mod group;
mod store;
#[cfg(test)]
mod tests;
mod topic;

use std::sync::Arc;

pub use client::LiveClient;
pub use cluster::shown_properties;
pub use error::AdminError;
pub use zms_core::{
    meta::{BrokerKind, ClusterMeta, Format, Gate, GroupMeta, MetaError, StatisticsLogger, TopicMeta},
    route::ConsumeFrom,
};

use self::store::Store;
use crate::registry::port::SharedRegistry;

/// Edits a registry. Clones share its connection.
///
/// Dropping one of its futures abandons the wait, not the request: a write may still take effect.
#[derive(Debug, Clone)]
pub struct Admin {
    store: Arc<Store>,
}

impl Admin {
    /// Edits this registry.
    pub fn new(registry: SharedRegistry) -> Self {
        Self { store: Arc::new(Store::new(registry)) }
    }
}

/// Whether an operation that could harm running services is refused or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Safety {
    /// Refused with [`AdminError::InUse`] or [`AdminError::Misplaced`].
    #[default]
    Checked,
    /// Done. A running migration is respected even so.
    Forced,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<M> {
    /// Its name.
    pub name: String,
    /// What it says; `None` while its node is empty, an error if it cannot be understood.
    pub meta: Result<Option<M>, MetaError>,
}
