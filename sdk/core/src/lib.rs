//! The pure half of `zms-sdk`: everything that decides, nothing that acts.
//!
//! No I/O, no clock, no threads, no async runtime and no Kafka or `ZooKeeper` type appears here: time and randomness
//! are arguments, outcomes are values. `clippy.toml` beside this crate's manifest keeps it so. The drivers in
//! `zms-sdk` feed these machines and carry out what they answer.

pub mod backoff;
mod consume_from;
pub mod flow;
pub mod gate;
pub mod gradient;
pub mod hold;
pub mod meta;
pub mod migration;
pub mod name;
pub mod path;
pub mod pool;
pub mod progress;
pub mod property;
pub mod rate;
pub mod registration;
pub mod resolve;
mod rfc3339;
pub mod route;
pub mod run_queue;
pub mod sequence;
pub mod tracker;
