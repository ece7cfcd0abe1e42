//! Metadata codecs: the registry's cluster, topic and group nodes, in ZMS's `.properties` text and in JSON.
//!
//! A node is read by `ClusterMeta::parse`, `TopicMeta::parse` or `GroupMeta::parse`; its fields may then be changed and
//! it is written by `encode`. What this crate does not know of a node survives that: unknown fields, comments, the
//! order of lines, the spelling of values that were not changed, and the format itself. A node that was not changed
//! is written byte for byte as it was read.

mod cluster;
mod document;
mod edit;
mod error;
mod gate;
mod group;
mod json;
mod properties;
#[cfg(test)]
mod tests;
mod topic;

pub use cluster::{BrokerKind, ClusterMeta};
pub use document::{Format, MAX_SIZE};
pub use error::MetaError;
pub use gate::Gate;
pub use group::GroupMeta;
pub use topic::{StatisticsLogger, TopicMeta};

pub(crate) use document::{Document, Key};
