//! More ways to send by topic name. Each finds the topic's producer and goes on as that does.

use std::{io, sync::Arc};

use serde::Serialize;
use tokio::sync::oneshot;
use zms_core::name::TopicName;

use super::Zms;
use crate::{
    message::{Message, Receipt},
    producer::{Producer, SendError, Sending, may_block},
    routing::ResolveError,
};

impl Zms {
    /// Sends a message if it can be taken at once; see [`Producer::try_send`]. Never waits, not even for the route of a
    /// topic that this handle has not sent to yet: that is fetched in the background then, and the message comes back.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let sandbox = zms_sdk::testing::Sandbox::start(["a"]).await?;
    /// # sandbox.topic("orders", 1, "a").await?;
    /// # let zms = sandbox.connect().await?;
    /// use zms_sdk::{Message, SendError};
    ///
    /// # zms.producer("orders").await?;
    /// match zms.try_send("orders", Message::new("paid").key("order-42")) {
    ///     Ok(sending) => assert_eq!(sending.await?.topic.as_str(), "orders"),
    ///     Err(error @ SendError::BufferFull { .. }) => {
    ///         println!("{error}");
    ///         let _to_keep_or_drop = error.into_message();
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok(())
    /// # })
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// As [`Producer::try_send`], and [`SendError::Unresolved`] with [`ResolveError::NotYet`] while the route is being
    /// fetched.
    pub fn try_send(&self, topic: &str, message: Message) -> Result<Sending, SendError> {
        if let Some(producer) = self.inner.producers.lookup(topic) {
            return producer.try_send(message);
        }
        let source = match TopicName::new(topic) {
            Ok(name) => {
                self.fetch(name);
                ResolveError::NotYet { topic: topic.to_owned() }
            }
            Err(error) => error.into(),
        };
        Err(SendError::unresolved(topic, source, message))
    }

    /// Sends messages in this order, and waits for the results, in the same order and one for each; see
    /// [`Producer::send_batch`]. The first send to a topic resolves it.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let sandbox = zms_sdk::testing::Sandbox::start(["a"]).await?;
    /// # sandbox.topic("orders", 1, "a").await?;
    /// # let zms = sandbox.connect().await?;
    /// use zms_sdk::Message;
    ///
    /// let messages = vec![Message::new("one").key("k"), Message::new("two").key("k")];
    /// let results = zms.send_batch("orders", messages).await;
    /// assert_eq!(results.len(), 2);
    /// assert!(results.iter().all(|result| result.is_ok()));
    /// # Ok(())
    /// # })
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    pub async fn send_batch(&self, topic: &str, messages: Vec<Message>) -> Vec<Result<Receipt, SendError>> {
        match self.find(topic).await {
            Ok(producer) => producer.send_batch(messages).await,
            Err(error) => {
                let unresolved = |message| Err(SendError::unresolved(topic, error.clone(), message));
                messages.into_iter().map(unresolved).collect()
            }
        }
    }

    /// Sends `value` as JSON, serialized straight into memory of the send buffer; see [`Producer::send_json`]. The first
    /// send to a topic resolves it.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let sandbox = zms_sdk::testing::Sandbox::start(["a"]).await?;
    /// # sandbox.topic("orders", 1, "a").await?;
    /// # let zms = sandbox.connect().await?;
    /// use zms_sdk::Message;
    ///
    /// // Anything that implements `serde::Serialize`.
    /// let order = std::collections::BTreeMap::from([("id", 42), ("cents", 1999)]);
    /// let receipt = zms.send_json("orders", Message::default().key("order-42"), &order).await?;
    /// assert_eq!(receipt.offset, Some(0));
    /// # Ok(())
    /// # })
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// As [`Producer::send_json`].
    pub async fn send_json<T: Serialize + Sync + ?Sized>(
        &self,
        topic: &str,
        message: Message,
        value: &T,
    ) -> Result<Receipt, SendError> {
        match self.find(topic).await {
            Ok(producer) => producer.send_json(message, value).await,
            Err(error) => Err(SendError::unresolved(topic, error, message)),
        }
    }

    /// Sends a message whose payload `write` makes, straight into memory of the send buffer; see
    /// [`Producer::send_written`]. The first send to a topic resolves it.
    ///
    /// # Errors
    /// As [`Producer::send_written`].
    pub async fn send_written(
        &self,
        topic: &str,
        message: Message,
        write: impl FnMut(&mut dyn io::Write) -> io::Result<()> + Send,
    ) -> Result<Receipt, SendError> {
        match self.find(topic).await {
            Ok(producer) => producer.send_written(message, write).await,
            Err(error) => Err(SendError::unresolved(topic, error, message)),
        }
    }

    /// Sends a message and keeps the calling thread until it is acknowledged; see [`Producer::send_blocking`]. The first
    /// send to a topic resolves it.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let sandbox = zms_sdk::testing::Sandbox::start(["a"]).await?;
    /// # sandbox.topic("orders", 1, "a").await?;
    /// # let zms = sandbox.connect().await?;
    /// use zms_sdk::{Message, SendError};
    ///
    /// let service = zms.clone();
    /// let thread = std::thread::spawn(move || service.send_blocking("orders", Message::new("paid")));
    /// # while !thread.is_finished() {
    /// #     tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    /// # }
    /// assert!(thread.join().unwrap().is_ok());
    ///
    /// // Here, on a thread of an async runtime, it is refused.
    /// let refused = zms.send_blocking("orders", Message::new("paid"));
    /// assert!(matches!(refused, Err(SendError::AsyncThread { .. })));
    /// # Ok(())
    /// # })
    /// # }
    /// # #[cfg(not(feature = "testing"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// As [`Producer::send_blocking`].
    pub fn send_blocking(&self, topic: &str, message: Message) -> Result<Receipt, SendError> {
        let message = may_block(topic, message)?;
        match self.find_blocking(topic) {
            Ok(producer) => producer.send_blocking(message),
            Err(error) => Err(SendError::unresolved(topic, error, message)),
        }
    }

    /// Never on an async thread.
    fn find_blocking(&self, topic: &str) -> Result<Producer, ResolveError> {
        if let Some(producer) = self.inner.producers.lookup(topic) {
            return Ok(producer);
        }
        let (found, answer) = oneshot::channel();
        let (zms, topic) = (self.clone(), topic.to_owned());
        self.inner.producers.runtime().spawn(async move { found.send(zms.open(&topic).await) });
        // A runtime that has ended drops the question.
        answer.blocking_recv().unwrap_or(Err(ResolveError::Closed))
    }

    /// Resolves a topic in the background, unless that is under way.
    fn fetch(&self, topic: TopicName) {
        let inner = &self.inner;
        if inner.topics.knows(&topic) {
            return;
        }
        // As many as one-way messages may wait for: names may come from anywhere.
        let Ok(permit) = Arc::clone(&inner.unresolved).try_acquire_owned() else { return };
        let inner = Arc::clone(inner);
        self.inner.producers.runtime().spawn(async move {
            let opened = inner.topics.open(&topic, &inner.router, &inner.producers).await;
            if let Err(error) = opened {
                tracing::debug!(%topic, %error, "a topic could not be resolved");
            }
            drop(permit);
        });
    }
}
