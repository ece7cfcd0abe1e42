//! Payloads that are made by writing them, straight into memory of the send buffer.

use std::io;

use serde::Serialize;
use tokio::time::Instant;

use super::{
    Producer,
    error::{Returned, SendError},
    handle::cost,
    memory::{WriteError, Written},
    report::SendResult,
    stats::Counters,
};
use crate::message::Message;

impl Producer {
    /// Sends a message whose payload `write` makes, straight into memory of the send buffer: there is no second copy
    /// of it, and small payloads share a block. Key, headers, timestamp and partition are those of `message`, whose own
    /// payload is dropped. Otherwise as [`send`](Self::send).
    ///
    /// `write` has to write the same each time: it is called once more when the memory at hand did not suffice. It runs
    /// on the caller's thread.
    ///
    /// Dropping the future before there is room sends nothing. Dropped later, the message may still be sent, and its
    /// room stays taken until its delivery report.
    ///
    /// ```
    /// # async fn example(producer: zms_sdk::Producer) -> Result<(), zms_sdk::SendError> {
    /// use zms_sdk::Message;
    ///
    /// let (id, cents) = (42, 1999);
    /// let message = Message::default().key(format!("order-{id}"));
    /// producer.send_written(message, |payload| write!(payload, "{id};{cents}")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SendError`]; [`NotWritten`](SendError::NotWritten) with what `write` failed with, or when it wrote more each
    /// time. What comes back then, or without room, is `message` without a payload.
    pub async fn send_written(
        &self,
        message: Message,
        write: impl FnMut(&mut dyn io::Write) -> io::Result<()> + Send,
    ) -> SendResult {
        let started = Instant::now();
        let mut message = Message { payload: None, ..message };
        let (topic, beside) = (&self.topic, cost(&message));
        let deadline = started + topic.core.config.options.max_block;
        let writing = topic.account.blocks().write(&topic.account, beside, deadline, write);
        match self.patiently(beside, writing).await {
            Ok(Written { payload, room }) => {
                message.payload = Some(payload);
                self.accept(message, room).await
            }
            Err(WriteError::NoRoom { no_room, bytes }) => {
                Counters::count(&topic.core.counters.not_sent);
                Err(self.no_room(no_room, bytes, message, started.elapsed()))
            }
            Err(WriteError::Failed(source)) => {
                Counters::count(&topic.core.counters.not_sent);
                let (topic, cluster) = (topic.name.clone(), topic.cluster());
                Err(SendError::NotWritten { topic, cluster, source, message: Returned::from(message) })
            }
        }
    }

    /// Sends a message whose payload is `value` as JSON, serialized straight into memory of the send buffer. Everything
    /// else is as with [`send_written`](Self::send_written).
    ///
    /// ```
    /// # async fn example(producer: zms_sdk::Producer) -> Result<(), zms_sdk::SendError> {
    /// use zms_sdk::Message;
    ///
    /// // Anything that derives `serde::Serialize`.
    /// let order = std::collections::BTreeMap::from([("id", 42), ("cents", 1999)]);
    /// producer.send_json(Message::default().key("order-42"), &order).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`send_written`](Self::send_written).
    pub async fn send_json<T: Serialize + Sync + ?Sized>(&self, message: Message, value: &T) -> SendResult {
        self.send_written(message, |payload| Ok(serde_json::to_writer(payload, value)?)).await
    }
}
