//! Why a message was not acknowledged.

use std::{fmt, io, time::Duration};

use zms_core::{
    name::{ClusterName, TopicName},
    pool::Cause as FullCause,
};

use crate::{
    engine::port::{EngineError, FailureKind},
    message::Message,
    routing::ResolveError,
};

/// Why a send did not end with a [`Receipt`](crate::Receipt). [`outcome`](Self::outcome) tells whether the message
/// may have arrived, [`is_retryable`](Self::is_retryable) whether the same send may succeed later, and
/// [`into_message`](Self::into_message) gives a message back that was not handed over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The topic does not lead to a cluster. Register it, or restore the registry.
    #[error("{source}")]
    Unresolved {
        /// The topic.
        topic: String,
        /// Why.
        source: ResolveError,
        /// The message, which was not sent.
        message: Returned,
    },
    /// The send buffer had no room within `max_block`: messages are made faster than the cluster takes them.
    #[error(
        "topic {topic}: no room for {size} bytes in the send buffer{}: {cause} ({free} of {total} bytes free); slow \
         down, or raise `buffer` or `max_block`",
        Within(*.waited)
    )]
    BufferFull {
        /// The topic.
        topic: TopicName,
        /// The cluster that it is on, where known.
        cluster: Option<ClusterName>,
        /// Bytes asked for.
        size: usize,
        /// What there was to wait for.
        cause: Box<FullCause>,
        /// Bytes of the whole buffer.
        total: usize,
        /// Bytes that one topic may have of it.
        topic_cap: usize,
        /// Bytes of the whole buffer that were free when the wait ended.
        free: usize,
        /// How long the send waited; zero for one that never does.
        waited: Duration,
        /// The message, which was not sent.
        message: Returned,
    },
    /// The message is larger than can ever be sent. Split it, or raise the limit.
    #[error("topic {topic}: the message takes {size} bytes, more than the limit of {limit} ({limited_by})")]
    TooLarge {
        /// The topic.
        topic: TopicName,
        /// The cluster that it is on, where known.
        cluster: Option<ClusterName>,
        /// Bytes of the message, as they count against the limit.
        size: usize,
        /// The limit.
        limit: usize,
        /// Which one it is: `message.max.bytes`, or a part of the send buffer.
        limited_by: &'static str,
        /// The message, which was not sent.
        message: Returned,
    },
    /// No client can be opened for the topic's cluster, so nothing is sent. Correct the cluster's or topic's entry; it
    /// is tried again every few seconds.
    #[error("topic {topic}: no client can be opened for cluster {cluster}: {reason}")]
    Unusable {
        /// The topic.
        topic: TopicName,
        /// The cluster.
        cluster: ClusterName,
        /// Why.
        reason: String,
        /// The message, which was not sent.
        message: Returned,
    },
    /// The message certainly was not persisted: safe to send again.
    #[error("topic {topic} on cluster {cluster}{}: not sent: {reason}{}", At(*.partition), Remedy(.kind, .topic, .cluster, *.partition))]
    NotSent {
        /// The topic.
        topic: TopicName,
        /// The cluster.
        cluster: ClusterName,
        /// The partition, where the message named one.
        partition: Option<i32>,
        /// What kind of failure it was.
        kind: FailureKind,
        /// The client's words.
        reason: String,
        /// The message, unless it had been handed to the client already.
        message: Returned,
    },
    /// The message may have been persisted: sending it again may duplicate it.
    #[error(
        "topic {topic} on cluster {cluster}{}: unknown whether it arrived: {reason}; sending it again may duplicate it",
        At(*.partition)
    )]
    Unknown {
        /// The topic.
        topic: TopicName,
        /// The cluster.
        cluster: ClusterName,
        /// The partition, where the message named one.
        partition: Option<i32>,
        /// What kind of failure it was.
        kind: FailureKind,
        /// The client's words.
        reason: String,
    },
    /// The topic's sends were held until the delivery deadline. Nothing is wrong with the message: send it again.
    #[error(
        "topic {topic} was held for {waited:?} ({reason}), past the delivery deadline; not sent, send it again"
    )]
    Held {
        /// The topic.
        topic: TopicName,
        /// The cluster that it was on before, where there was one.
        cluster: Option<ClusterName>,
        /// Why sends were held.
        reason: String,
        /// How long this one was.
        waited: Duration,
        /// The message, which was not sent.
        message: Returned,
    },
    /// The payload was not written: its serializer failed. The same value fails again.
    #[error("topic {topic}: the payload was not written: {source}; not sent")]
    NotWritten {
        /// The topic.
        topic: TopicName,
        /// The cluster that it is on, where known.
        cluster: Option<ClusterName>,
        /// The serializer's error.
        source: io::Error,
        /// The message as it was given, without a payload.
        message: Returned,
    },
    /// A send that blocks its thread was called on a thread of an async runtime, which would have stopped. Await
    /// [`send`](crate::Zms::send) there.
    #[error(
        "topic {topic}: a blocking send was called on a thread of an async runtime, which it would stop; await `send` \
         there, or call it on a thread of your own; not sent"
    )]
    AsyncThread {
        /// The topic.
        topic: String,
        /// The message, which was not sent.
        message: Returned,
    },
    /// The handle was closed before the message was handed over.
    #[error("topic {topic}: the handle is closed; not sent")]
    Closed {
        /// The topic.
        topic: TopicName,
        /// The cluster that it was on, where known.
        cluster: Option<ClusterName>,
        /// The message, which was not sent.
        message: Returned,
    },
}

/// Whether a message whose send failed may have arrived all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// It certainly was not persisted: safe to send again.
    NotSent,
    /// It may have been persisted: sending it again may duplicate it.
    Unknown,
}

/// A message on its way back to its owner. `Debug` shows none of its content.
#[derive(Default)]
pub struct Returned(Option<Box<Message>>);

impl Returned {
    /// The message, where it is still there.
    pub fn into_inner(self) -> Option<Message> {
        self.0.map(|message| *message)
    }
}

impl From<Message> for Returned {
    fn from(message: Message) -> Self {
        Self(Some(Box::new(message)))
    }
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(message) => write!(f, "Returned({} bytes)", message.size()),
            None => f.write_str("Returned(nothing)"),
        }
    }
}

impl SendError {
    pub(crate) fn unresolved(topic: &str, source: ResolveError, message: Message) -> Self {
        Self::Unresolved { topic: topic.to_owned(), source, message: message.into() }
    }

    /// Whether the message may have arrived.
    pub fn outcome(&self) -> SendOutcome {
        match self {
            Self::Unknown { .. } => SendOutcome::Unknown,
            _ => SendOutcome::NotSent,
        }
    }

    /// Whether the same message, sent again by the same call, may succeed without anybody changing anything, and
    /// without duplicating it. Never so for [`Unknown`](Self::Unknown).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::BufferFull { .. } | Self::Held { .. } => true,
            Self::NotSent { kind, .. } => !matches!(
                kind,
                FailureKind::TooLarge
                    | FailureKind::Denied
                    | FailureKind::Unsuited
                    | FailureKind::Rejected
                    | FailureKind::UnknownTopic
            ),
            Self::Unresolved { source, .. } => {
                matches!(source, ResolveError::RegistryUnavailable { .. } | ResolveError::NotYet { .. })
            }
            Self::TooLarge { .. }
            | Self::Unusable { .. }
            | Self::Unknown { .. }
            | Self::NotWritten { .. }
            | Self::AsyncThread { .. }
            | Self::Closed { .. } => false,
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        match self {
            Self::Unresolved { topic, .. } | Self::AsyncThread { topic, .. } => topic,
            Self::BufferFull { topic, .. }
            | Self::TooLarge { topic, .. }
            | Self::Unusable { topic, .. }
            | Self::NotSent { topic, .. }
            | Self::Unknown { topic, .. }
            | Self::Held { topic, .. }
            | Self::NotWritten { topic, .. }
            | Self::Closed { topic, .. } => topic.as_str(),
        }
    }

    /// The cluster, where one was known.
    pub fn cluster(&self) -> Option<&ClusterName> {
        match self {
            Self::Unresolved { .. } | Self::AsyncThread { .. } => None,
            Self::BufferFull { cluster, .. }
            | Self::TooLarge { cluster, .. }
            | Self::Held { cluster, .. }
            | Self::NotWritten { cluster, .. }
            | Self::Closed { cluster, .. } => cluster.as_ref(),
            Self::Unusable { cluster, .. }
            | Self::NotSent { cluster, .. }
            | Self::Unknown { cluster, .. } => Some(cluster),
        }
    }

    /// The message, unchanged, if it was not handed to a client. `None` after that: keep a clone (it shares the
    /// payload) to send it again.
    pub fn into_message(self) -> Option<Message> {
        match self {
            Self::Unresolved { message, .. }
            | Self::BufferFull { message, .. }
            | Self::TooLarge { message, .. }
            | Self::Unusable { message, .. }
            | Self::NotSent { message, .. }
            | Self::Held { message, .. }
            | Self::NotWritten { message, .. }
            | Self::AsyncThread { message, .. }
            | Self::Closed { message, .. } => message.into_inner(),
            Self::Unknown { .. } => None,
        }
    }
}

/// Where a message was going, for errors.
#[derive(Clone)]
pub(super) struct Destination {
    pub(super) topic: TopicName,
    pub(super) cluster: ClusterName,
    pub(super) partition: Option<i32>,
}

impl Destination {
    pub(super) fn not_sent(self, error: EngineError, message: Option<Message>) -> SendError {
        let Self { topic, cluster, partition } = self;
        let message = message.map(Returned::from).unwrap_or_default();
        SendError::NotSent { topic, cluster, partition, kind: error.kind, reason: error.reason, message }
    }

    pub(super) fn unknown(self, error: EngineError) -> SendError {
        let Self { topic, cluster, partition } = self;
        SendError::Unknown { topic, cluster, partition, kind: error.kind, reason: error.reason }
    }
}

/// What to do about a failure, where that can be told.
struct Remedy<'a>(&'a FailureKind, &'a TopicName, &'a ClusterName, Option<i32>);

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kind, topic, cluster, partition) = self;
        match kind {
            FailureKind::UnknownTopic => {
                if let Some(partition) = partition {
                    write!(f, "; if the topic is there, it has no partition {partition}")?;
                }
                write!(
                    f,
                    "; if the topic is not there, create it with `zmsctl topic create {topic} --cluster {cluster} --partitions <number>`"
                )
            }
            _ => Ok(()),
        }
    }
}

/// ` within 10s`, or nothing for a send that did not wait.
struct Within(Duration);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() { Ok(()) } else { write!(f, " within {:?}", self.0) }
    }
}

/// ` partition 3`, or nothing.
struct At(Option<i32>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |partition| write!(f, " partition {partition}"))
    }
}
