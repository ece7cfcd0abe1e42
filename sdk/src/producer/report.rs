//! From the client's report back to the caller: everything that a message held is returned, then the result given.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    error::SendError,
    room::Room,
    stats::Counters,
    topic::{Active, Link, Topic},
};
use crate::{
    engine::port::{Completion, EngineError, FailureKind, Outcome},
    message::{Message, Receipt},
    panics::words_of,
};

pub(super) type SendResult = Result<Receipt, SendError>;

/// Who learns how a send ended.
pub(super) enum Reply {
    Future(oneshot::Sender<SendResult>),
    Callback(Box<dyn FnOnce(SendResult) + Send>),
    Nobody,
}

impl Reply {
    /// Counts the result and gives it to whoever waits for it.
    pub(super) fn give(self, result: SendResult, counters: &Counters) {
        Counters::count(match &result {
            Ok(_) => &counters.delivered,
            Err(SendError::Unknown { .. }) => &counters.unknown,
            Err(_) => &counters.not_sent,
        });
        match self {
            // A caller that dropped its future does not want to know.
            Self::Future(caller) => drop(caller.send(result)),
            Self::Callback(callback) => {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| callback(result))) {
                    Counters::count(&counters.callback_panics);
                    words_of(panic);
                }
            }
            Self::Nobody => {
                if result.is_err() {
                    Counters::count(&counters.dropped_oneway);
                }
            }
        }
    }
}

/// A message accepted and not yet handed to a client.
pub(super) struct Parcel {
    pub(super) message: Message,
    pub(super) claim: Claim,
}

/// What an accepted message holds and owes, whatever becomes of it.
pub(super) struct Claim {
    pub(super) room: Room,
    pub(super) reply: Reply,
    pub(super) accepted: Instant,
}

/// One message counted in its topic's gate; dropping it ends the count.
pub(super) struct InFlight {
    topic: Arc<Topic>,
    link: Option<Arc<Link>>,
}

impl InFlight {
    /// For a message that the gate has just counted.
    pub(super) fn counted(topic: &Arc<Topic>) -> Self {
        Self { topic: topic.clone(), link: None }
    }

    /// Counts it on the client as well that it goes to.
    pub(super) fn on(mut self, link: &Arc<Link>) -> Self {
        link.in_flight.fetch_add(1, Ordering::AcqRel);
        self.link = Some(link.clone());
        self
    }
}

impl Drop for InFlight {
    /// The link's count falls before the gate's: a message that still shows on the link shows in the gate too, so the
    /// gate's count less the old links' counts is never too small.
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.in_flight.fetch_sub(1, Ordering::AcqRel);
        }
        if self.topic.gate.leave() {
            self.topic.reports.notify_waiters();
        }
    }
}

/// A message handed over, waiting for its report.
pub(super) struct Sent {
    pub(super) in_flight: InFlight,
    pub(super) claim: Claim,
    pub(super) active: Arc<Active>,
    pub(super) partition: Option<i32>,
}

impl Completion for Sent {
    fn complete(self: Box<Self>, outcome: Outcome) {
        let Self { in_flight, claim: Claim { room, reply, accepted }, active, partition } = *self;
        let topic = in_flight.topic.clone();
        drop(room);
        drop(in_flight);
        let result = match outcome {
            Outcome::Delivered { partition, offset, timestamp_ms } => Ok(Receipt {
                cluster: active.cluster().clone(),
                topic: topic.name.clone(),
                partition,
                offset,
                timestamp_ms,
            }),
            Outcome::NotSent(error) => {
                topic.note_failure(&active, &error);
                Err(active.destination(&topic, partition).not_sent(with_age(error, accepted), None))
            }
            Outcome::Unknown(error) => {
                topic.note_failure(&active, &error);
                Err(active.destination(&topic, partition).unknown(with_age(error, accepted)))
            }
        };
        reply.give(result, &topic.core.counters);
    }
}

impl Sent {
    /// The refused record's result.
    pub(super) fn refused(self, error: EngineError, message: Message) {
        let Self { in_flight, claim: Claim { room, reply, .. }, active, partition } = self;
        let topic = in_flight.topic.clone();
        drop(room);
        drop(in_flight);
        let result = if error.kind == FailureKind::TooLarge {
            SendError::TooLarge {
                topic: topic.name.clone(),
                cluster: Some(active.cluster().clone()),
                size: message.size(),
                limit: active.settings.max_message,
                limited_by: "message.max.bytes of the producer's settings; the topic on the broker has its own limit",
                message: message.into(),
            }
        } else {
            active.destination(&topic, partition).not_sent(error, Some(message))
        };
        reply.give(Err(result), &topic.core.counters);
    }
}

fn with_age(mut error: EngineError, accepted: Instant) -> EngineError {
    let age = Duration::from_millis(u64::try_from(accepted.elapsed().as_millis()).unwrap_or(u64::MAX));
    error.reason = format!("{} (after {age:?})", error.reason);
    error
}
