//! Sending by topic name.
//!
//! A send counts itself in its topic's gate, reads the route, and hands its message to the client of the route's
//! cluster; the delivery report ends the count, returns the room in the buffer, and gives the caller the result. When
//! the route changes to another client, new sends are held until those on the old one have their reports.

mod batch;
mod blocking;
mod clients;
mod error;
mod fit;
mod handle;
mod holding;
mod hurry;
mod map;
mod memory;
mod options;
mod producers;
mod profile;
mod report;
mod room;
mod sending;
pub(crate) mod sink;
mod stats;
mod switch;
#[cfg(test)]
mod tests;
mod topic;
mod written;

pub(crate) use blocking::may_block;
pub use error::{Returned, SendError, SendOutcome};
pub use handle::Producer;
pub use options::{ProducerConfig, ProducerOptions};
pub(crate) use producers::Producers;
pub use profile::{Limits, ProducerConfigError, Profile, check_overrides, limits};
pub use sending::Sending;
pub use stats::{ClusterUse, PoolStats, ProducerStats};
pub use zms_core::pool::Cause as FullCause;
