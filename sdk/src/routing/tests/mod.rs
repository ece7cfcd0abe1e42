//! The routing driver against a registry in memory, starting from what goes wrong.

mod adopting;
mod leaving;
mod offline;
mod outage;
mod reading;
mod support;
