//! What moves messages on a cluster. A port; the Kafka adapter is in [`crate::kafka`].

pub(crate) mod controlled;
pub mod port;
mod records;
