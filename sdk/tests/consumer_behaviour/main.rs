//! Subscriptions against a scripted engine: rebalances, failures and moves in a known order.

mod fake;
mod flow;
mod lifecycle;
mod offsets;
mod rebalance;
mod retry;
mod rig;
mod switch;
