//! Handling by group name.
