//! Use many Kafka clusters as one: send to a topic name, subscribe with a group name; the registry knows the cluster.

pub mod admin;
pub mod consumer;
pub mod engine;
mod headers;
pub mod kafka;
mod message;
mod panics;
pub mod producer;
pub mod registry;
pub mod routing;
mod serial;
#[cfg(feature = "testing")]
pub mod testing;
mod zms;

pub use consumer::{
    Delivery, Health, NotReady, Outcome, RetryPolicy, ShutdownError, SubscribeError, Subscriber, Subscription,
};
pub use headers::{HeaderRef, Headers, HeadersIter};
pub use message::{Header, Message, Receipt};
pub use producer::{Producer, SendError};
pub use routing::ResolveError;
pub use zms::{
    CloseError, ConnectError, Status, SubscriptionHealth, UnusableTopic, Zms, ZmsBuilder, ZmsHealth,
};
pub use zms_core::name::{ClusterName, GroupName, NameError, TopicName};
