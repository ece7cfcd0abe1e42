//! The handle: one for a process.

mod builder;
mod dead_letters;
mod error;
mod handle;
mod health;
mod status;
mod subscriptions;
mod topics;
mod ways;

pub use builder::ZmsBuilder;
pub use error::{CloseError, ConnectError};
pub use handle::Zms;
pub use health::{SubscriptionHealth, UnusableTopic, ZmsHealth};
pub use status::Status;
