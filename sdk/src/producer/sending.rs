//! A message on its way, as its sender holds it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::{Producer, error::SendError, report::SendResult};
use crate::message::Receipt;

/// A message that was taken, and its result to come: a future of it, exactly one.
///
/// Dropping it changes nothing for the message: it is sent, its result is counted, and nobody learns of it.
pub struct Sending {
    result: oneshot::Receiver<SendResult>,
    producer: Producer,
}

impl Sending {
    pub(super) fn new(result: oneshot::Receiver<SendResult>, producer: Producer) -> Self {
        Self { result, producer }
    }

    /// What was refused while it was handed over comes back at once.
    pub(super) fn unless_refused(mut self) -> Result<Self, SendError> {
        match self.result.try_recv() {
            Ok(Err(error)) => Err(error),
            Ok(Ok(receipt)) => Ok(self.done(receipt)),
            Err(_) => Ok(self),
        }
    }

    /// Waits on this thread. Never on an async thread.
    pub(super) fn wait(self) -> SendResult {
        self.result.blocking_recv().unwrap_or_else(|_| Err(self.producer.no_result()))
    }

    fn done(self, receipt: Receipt) -> Self {
        let (sender, result) = oneshot::channel();
        // Its receiver is here.
        drop(sender.send(Ok(receipt)));
        Self { result, ..self }
    }
}

impl Future for Sending {
    type Output = Result<Receipt, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = Pin::new(&mut self.result).poll(context);
        result.map(|result| result.unwrap_or_else(|_| Err(self.producer.no_result())))
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("topic", self.producer.topic()).finish_non_exhaustive()
    }
}
