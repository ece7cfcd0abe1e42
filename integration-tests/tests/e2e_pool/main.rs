//! The pool of workers on real brokers: crashes with work done out of order, members that come and go, changes of size,
//! and logs with holes or a new beginning.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod change;
mod crash;
mod logs;
mod soak;
