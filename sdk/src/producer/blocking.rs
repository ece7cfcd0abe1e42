//! Sending without async.

use tokio::{runtime::Handle, time::Instant};

use super::{
    Producer,
    error::{Returned, SendError},
    handle::cost,
    report::SendResult,
    room::{NoRoom, Room},
};
use crate::message::Message;

impl Producer {
    /// Sends a message and keeps the calling thread until the cluster has acknowledged it: [`send`](Self::send) for code
    /// without async, such as handlers of [`handle_blocking`](crate::Subscriber::handle_blocking). It waits as long, in
    /// the same line. The runtime that the handle was connected on has to run meanwhile, on other threads.
    ///
    /// A thread of an async runtime is never blocked: there it is refused at once. That includes those of
    /// `spawn_blocking`, which cannot be told from the others; `Handle::current().block_on(producer.send(message))`
    /// does on them.
    ///
    /// ```
    /// # fn example(producer: zms_sdk::Producer) {
    /// use zms_sdk::Message;
    ///
    /// let thread = std::thread::spawn(move || producer.send_blocking(Message::new("paid").key("order-42")));
    /// println!("{:?}", thread.join());
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`AsyncThread`](SendError::AsyncThread) on a thread of an async runtime. The message
    /// comes back unchanged, if it was not handed over.
    pub fn send_blocking(&self, message: Message) -> SendResult {
        let message = may_block(self.topic.name.as_str(), message)?;
        let started = Instant::now();
        match self.admit_blocking(cost(&message), started) {
            Ok(room) => self.accept(message, room).wait(),
            Err(no_room) => Err(self.refuse(no_room, message, started.elapsed())),
        }
    }

    fn admit_blocking(&self, bytes: usize, started: Instant) -> Result<Room, NoRoom> {
        let account = &self.topic.account;
        match account.try_take(bytes) {
            Err(NoRoom::InTime(_)) => {}
            taken_or_never => return taken_or_never,
        }
        let _hurry = self.hurry(bytes);
        account.take_blocking(bytes, started + self.topic.core.config.options.max_block)
    }
}

/// The message, on a thread that may wait.
pub(crate) fn may_block(topic: &str, message: Message) -> Result<Message, SendError> {
    match Handle::try_current() {
        Ok(_) => Err(SendError::AsyncThread { topic: topic.to_owned(), message: Returned::from(message) }),
        Err(_) => Ok(message),
    }
}
