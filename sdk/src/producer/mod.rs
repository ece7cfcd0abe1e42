//! Sending by topic name.
