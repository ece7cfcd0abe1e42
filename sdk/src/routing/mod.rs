//! Routes: read with their watches, resolved, adopted whole, one reconciler per entry.

mod address;
mod adoption;
mod chance;
mod config;
mod counters;
mod entry;
mod error;
mod first;
mod interests;
mod lease;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod probe;
mod reconcile;
mod refusal;
mod registration;
mod route;
mod router;
mod snapshot;
mod subject;
#[cfg(test)]
mod tests;
mod view;
mod work;

pub(crate) use config::RoutingConfig;
pub(crate) use counters::EntryInspection;
pub use counters::RoutingCounters;
pub use error::ResolveError;
pub(crate) use lease::{GroupLease, TopicLease};
pub(crate) use router::Router;
