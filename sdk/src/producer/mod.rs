//! Sending by topic name.

pub(crate) mod sink;
