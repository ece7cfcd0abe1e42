//! What services hold to send: cheap to clone, one topic.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use zms_core::{
    name::{ClusterName, TopicName},
    pool::{Bound, Level},
};

use super::{
    error::{Returned, SendError},
    report::{Claim, Parcel, Reply, SendResult},
    room::{NoRoom, Room},
    sending::Sending,
    stats::Counters,
    topic::Topic,
};
use crate::{
    engine::port::FailureKind,
    message::{Message, Receipt},
};

/// Sends to one topic, wherever it lives now. A clone costs a reference count; all clones share everything.
///
/// Messages of one key arrive in the order of their sends by one task, also when the topic changes cluster, unless
/// the old cluster stopped answering meanwhile (logged and counted).
#[derive(Clone)]
pub struct Producer {
    pub(super) topic: Arc<Topic>,
}

/// Counted for each message beside its data: what it costs in the client's queues.
const OVERHEAD: usize = 256;

impl Producer {
    pub(super) fn new(topic: Arc<Topic>) -> Self {
        Self { topic }
    }

    /// Sends a message and waits for the cluster's acknowledgement.
    ///
    /// Waits for room in the send buffer first, up to `max_block`. While the topic changes cluster the message waits,
    /// up to the delivery timeout. Handed to a client, it has the delivery timeout once more.
    ///
    /// Dropping the future before there is room sends nothing. Dropped later, the message may still be sent, and its
    /// room stays taken until its delivery report.
    ///
    /// # Errors
    /// [`SendError`]; it tells whether the message may have arrived, and gives it back if it was not handed over.
    pub async fn send(&self, message: Message) -> Result<Receipt, SendError> {
        let started = Instant::now();
        match self.admit(cost(&message)).await {
            Ok(room) => self.accept(message, room).await,
            Err(no_room) => Err(self.refuse(no_room, message, started.elapsed())),
        }
    }

    /// Sends a message and calls back with its result, exactly once, on the client's own thread: the callback must not
    /// block. Its panics are caught and counted. Returns when there is room in the send buffer, which is the
    /// back-pressure; a message refused calls back before it returns.
    ///
    /// Dropping the future before there is room sends nothing and drops the callback uncalled.
    pub async fn send_with(&self, message: Message, callback: impl FnOnce(SendResult) + Send + 'static) {
        let started = Instant::now();
        let reply = Reply::Callback(Box::new(callback));
        match self.admit(cost(&message)).await {
            Ok(room) => self.submit(message, room, reply),
            Err(no_room) => {
                let refusal = self.refusal(no_room, message, started.elapsed());
                reply.give(Err(refusal), &self.topic.core.counters);
            }
        }
    }

    /// Sends a message if there is room at once, and wants no result. Never waits. Messages that are dropped or fail
    /// are counted.
    pub fn send_oneway(&self, message: Message) {
        match self.topic.account.try_take(cost(&message)) {
            Ok(room) => self.submit(message, room, Reply::Nobody),
            Err(no_room) => {
                let refusal = self.refusal(no_room, message, Duration::ZERO);
                if !self.topic.drop_logged.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%refusal, "a one-way message was dropped; further ones are only counted");
                }
                Reply::Nobody.give(Err(refusal), &self.topic.core.counters);
            }
        }
    }

    /// Sends a message if there is room at once; its result comes by the future returned, which may be dropped: the
    /// message is sent all the same. Never waits, so it may be called anywhere, also on threads without async.
    ///
    /// ```
    /// # async fn example(producer: zms_sdk::Producer) {
    /// use zms_sdk::{Message, SendError};
    ///
    /// match producer.try_send(Message::new("paid").key("order-42")) {
    ///     Ok(sending) => println!("{:?}", sending.await),
    ///     Err(error @ SendError::BufferFull { .. }) => {
    ///         println!("shed load, keep it, or wait with `send`: {error}");
    ///         let _message = error.into_message();
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SendError`] when it is not taken: the buffer is full ([`BufferFull`](SendError::BufferFull)), the message too
    /// large, the handle closed, or no client can be opened. [`into_message`](SendError::into_message) gives it back
    /// unchanged.
    pub fn try_send(&self, message: Message) -> Result<Sending, SendError> {
        match self.topic.account.try_take(cost(&message)) {
            Ok(room) => self.accept(message, room).unless_refused(),
            Err(no_room) => Err(self.refuse(no_room, message, Duration::ZERO)),
        }
    }

    /// Sends a message if there is room at once, and calls back as [`send_with`](Self::send_with) does. Never waits; a
    /// message refused calls back before it returns.
    pub(crate) fn try_send_with(&self, message: Message, callback: impl FnOnce(SendResult) + Send + 'static) {
        let reply = Reply::Callback(Box::new(callback));
        match self.topic.account.try_take(cost(&message)) {
            Ok(room) => self.submit(message, room, reply),
            Err(no_room) => {
                let refusal = self.refusal(no_room, message, Duration::ZERO);
                reply.give(Err(refusal), &self.topic.core.counters);
            }
        }
    }

    /// Waits until every message that this handle and its clones sent to the topic has its result, those held back
    /// while the topic changes cluster included. Sends made meanwhile are waited for too. Each ends within its
    /// delivery timeout, so this ends some time after the last send. Dropping the future changes nothing.
    pub async fn flush(&self) {
        self.topic.idle().await;
    }

    /// The topic.
    pub fn topic(&self) -> &TopicName {
        &self.topic.name
    }

    /// The cluster that the topic lives on now, as far as this handle knows.
    pub fn cluster(&self) -> Option<ClusterName> {
        self.topic.cluster()
    }

    /// Messages accepted and not yet reported, but for held ones.
    pub fn in_flight(&self) -> usize {
        self.topic.gate.in_flight()
    }

    /// Fetches the topic's metadata, so that the first send does not wait for it; bounded, and a failure is only
    /// logged, for sends report it better.
    pub(crate) async fn warm(&self) {
        if let Some(active) = self.topic.active.load_full() {
            self.topic.warm(&active).await;
        }
    }

    /// Waits for room, and has what lingers sent meanwhile.
    pub(super) async fn admit(&self, bytes: usize) -> Result<Room, NoRoom> {
        self.patiently(bytes, self.topic.admit(bytes)).await
    }

    /// Sends a message that has its room.
    pub(super) fn accept(&self, message: Message, room: Room) -> Sending {
        let (caller, result) = oneshot::channel();
        self.submit(message, room, Reply::Future(caller));
        Sending::new(result, self.clone())
    }

    fn submit(&self, message: Message, room: Room, reply: Reply) {
        let claim = Claim { room, reply, accepted: Instant::now() };
        self.topic.submit(Parcel { message, claim });
    }

    /// Counts a message that was not taken; what its sender learns.
    pub(super) fn refuse(&self, no_room: NoRoom, message: Message, waited: Duration) -> SendError {
        Counters::count(&self.topic.core.counters.not_sent);
        self.refusal(no_room, message, waited)
    }

    fn refusal(&self, no_room: NoRoom, message: Message, waited: Duration) -> SendError {
        let size = cost(&message);
        self.no_room(no_room, size, message, waited)
    }

    /// What its sender learns when there was no room for so many bytes.
    pub(super) fn no_room(
        &self,
        no_room: NoRoom,
        size: usize,
        message: Message,
        waited: Duration,
    ) -> SendError {
        let (topic, cluster) = (self.topic.name.clone(), self.topic.cluster());
        let message = Returned::from(message);
        match no_room {
            NoRoom::Closed => SendError::Closed { topic, cluster, message },
            NoRoom::Ever { limit, bound } => {
                let limited_by = match bound {
                    Bound::Topic => {
                        "the part of the send buffer that one topic may have; raise `buffer` or `topic_cap`"
                    }
                    Bound::Cluster => {
                        "the part of the send buffer that one cluster may have; raise `buffer` or `cluster_ceiling`"
                    }
                    Bound::Pool => {
                        "the send buffer less what is kept for other clusters; raise `buffer`, or lower `cluster_floor`"
                    }
                };
                SendError::TooLarge { topic, cluster, size, limit, limited_by, message }
            }
            NoRoom::InTime(cause) => {
                let Level { total, free, topic_cap } = self.topic.core.pool.level();
                let cause = Box::new(cause);
                SendError::BufferFull { topic, cluster, size, cause, total, topic_cap, free, waited, message }
            }
        }
    }

    /// For a result that got lost with its sender: only a crash inside the client does that.
    pub(super) fn no_result(&self) -> SendError {
        let topic = self.topic.name.clone();
        let Some(cluster) = self.topic.cluster() else {
            return SendError::Closed { topic, cluster: None, message: Returned::default() };
        };
        let reason = "the client dropped the send".to_owned();
        SendError::Unknown { topic, cluster, partition: None, kind: FailureKind::Other, reason }
    }
}

pub(super) fn cost(message: &Message) -> usize {
    message.size().saturating_add(OVERHEAD)
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("topic", &self.topic.name)
            .field("cluster", &self.topic.cluster())
            .field("in_flight", &self.topic.gate.in_flight())
            .finish_non_exhaustive()
    }
}
