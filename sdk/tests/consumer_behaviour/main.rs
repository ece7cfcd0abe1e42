//! Subscriptions against a scripted engine: rebalances, failures and moves in a known order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dead_letter;
mod fake;
mod flow;
mod lifecycle;
mod offsets;
mod rebalance;
mod retry;
mod rig;
mod switch;
