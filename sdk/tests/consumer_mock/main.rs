//! Subscriptions on Kafka clusters inside the process.
#![cfg(feature = "testing")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod groups;
mod modes;
mod moves;
mod rig;
mod throughput;
