//! Subscriptions on Kafka clusters inside the process.
#![cfg(feature = "testing")]

mod faults;
mod groups;
mod moves;
mod rig;
mod throughput;
