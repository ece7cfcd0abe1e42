//! Use many Kafka clusters as one: send to a topic name, subscribe with a group name; the registry knows the cluster.
//!
//! [`Zms`] connects. It sends ([`Zms::send`], [`Zms::producer`]) and subscribes ([`Zms::subscribe`], [`Zms::standalone`]);
//! services need one for a process. What a subscription can be told stands on [`Subscriber`], what it can be told and asked
//! while it runs on [`Subscription`], and the types of both in [`consumer`]. The `testing` module, by the feature of that
//! name, has clusters and a registry inside the process.
//!
//! ```no_run
//! use std::time::Duration;
//! use zms_sdk::{
//!     Delivery, Message, Outcome, RetryPolicy, Zms,
//!     consumer::{Batch, ConsumeFrom, Exhausted, Ordering, SeekTo},
//! };
//!
//! # async fn service() -> Result<(), Box<dyn std::error::Error>> {
//! let zms = Zms::connect("zk1:2181,zk2:2181").await?;
//! zms.send("orders", Message::new("paid").key("order-42")).await?;
//!
//! // Each key in its order, 16 keys at a time; three attempts, then to the topic dlq.billing, which must be registered.
//! let policy = RetryPolicy::new()
//!     .attempts(3)
//!     .backoff(Duration::from_millis(100), Duration::from_secs(5))
//!     .then(Exhausted::DeadLetter);
//! let billing = zms
//!     .subscribe("billing")
//!     .ordering(Ordering::Key)
//!     .workers(16)
//!     .rate_limit(2_000, 100)
//!     .retry(policy)
//!     .handle(|order: Delivery| async move {
//!         match order.payload() {
//!             None => Outcome::dead_letter("an order without content"),
//!             Some(_content) => Outcome::Done, // or a Result, whose error means: again
//!         }
//!     })
//!     .await?;
//! billing.ready().await?;
//!
//! // Up to 500 messages at once, on threads that may block.
//! let reporting = zms
//!     .subscribe("reporting")
//!     .handle_batch_blocking(500, |orders: Batch| println!("{} orders", orders.len()))
//!     .await?;
//! reporting.ready().await?;
//!
//! // Every instance gets every message from now on.
//! let cache = zms
//!     .subscribe("cache")
//!     .broadcast()
//!     .consume_from(ConsumeFrom::Latest)
//!     .handle(|order: Delivery| async move { println!("forget {:?}", order.key()) })
//!     .await?;
//! cache.ready().await?;
//!
//! // While it runs: fewer workers; the partitions held here again from a time on; how it is.
//! billing.resize(4)?;
//! for partition in reporting.inspect().partitions {
//!     reporting.seek(partition.partition, SeekTo::Timestamp(1_700_000_000_000)).await?;
//! }
//! println!("ready: {}, {:?}", zms.health().is_ready(), billing.health());
//!
//! zms.close(Duration::from_secs(10)).await?;
//! # Ok(())
//! # }
//! ```

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
pub use producer::{Producer, SendError, Sending};
pub use routing::ResolveError;
pub use zms::{
    CloseError, ConnectError, Status, SubscriptionHealth, UnusableTopic, Zms, ZmsBuilder, ZmsHealth,
};
pub use zms_core::name::{ClusterName, GroupName, NameError, TopicName};
