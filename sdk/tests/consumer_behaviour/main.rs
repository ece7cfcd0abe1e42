//! Subscriptions against a scripted engine: rebalances, failures and moves in a known order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod control;
mod dead_letter;
mod fake;
mod flow;
mod health;
mod inspection;
mod lifecycle;
mod modes;
mod offsets;
mod rebalance;
mod retry;
mod rig;
mod switch;
