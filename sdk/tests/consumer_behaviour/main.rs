//! Subscriptions against a scripted engine: rebalances, failures and moves in a known order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batch;
mod control;
mod dead_letter;
mod fake;
mod flow;
mod health;
mod inspection;
mod lifecycle;
mod modes;
mod offsets;
mod ordering;
mod pace;
mod rebalance;
mod resize;
mod retry;
mod rig;
mod storm;
mod switch;
