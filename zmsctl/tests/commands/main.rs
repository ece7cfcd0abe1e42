//! The commands, run as an operator runs them, against a real `ZooKeeper` and real Kafka.

#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

mod doctor;
mod messages;
mod operator;
mod topics;
mod verify;
