//! The producer: hands records to librdkafka, whose reports come back on one thread of this client.
//!
//! That thread owns the native client. It serves reports until it is told to close, then flushes, purges what is left
//! at the limit, serves those reports too, and only then destroys the client, so neither a caller of `close` nor a
//! thread that drops the last handle ever waits for librdkafka's threads to end.

mod reports;
mod worker;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, TryLockError, atomic::Ordering},
    thread::{self, ThreadId},
    time::Duration,
};

use rdkafka::{
    message::{Header as NativeHeader, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer},
};
use zms_core::name::TopicName;

use self::{
    reports::{Counters, Reports, unwrapped},
    worker::{Life, Worker},
};
use super::{
    admin::topic_info,
    config::Settings,
    error::{deadline, failure, translated},
    logging::ClientLog,
    native,
};
use crate::{
    engine::port::{
        EngineError, FailureKind, OpenError, ProducerClient, ProducerSpec, Refused, Ticket, TopicInfo,
    },
    message::{Header, Message},
};

/// What a client dropped without `close` gets to send what it holds.
const DROP_GRACE: Duration = Duration::from_secs(5);

type Native = BaseProducer<Reports>;

/// A producer on one cluster.
pub(super) struct KafkaProducer {
    cluster: String,
    /// `None` once a close began. Written only then, so a failing `try_read` says the same.
    native: RwLock<Option<Arc<Native>>>,
    counters: Arc<Counters>,
    life: Arc<Life>,
    worker: ThreadId,
}

impl KafkaProducer {
    pub(super) fn open(spec: &ProducerSpec) -> Result<Self, OpenError> {
        let counters = Arc::new(Counters::default());
        let log = ClientLog::new(spec.cluster.name.as_str(), &spec.client_id);
        let settings = Settings::producer(spec)?;
        let native: Native = settings.open(Reports { counters: Arc::clone(&counters), log })?;
        let native = Arc::new(native);
        let life = Arc::new(Life::default());
        let worker =
            Worker { native: Arc::clone(&native), counters: Arc::clone(&counters), life: Arc::clone(&life) };
        let thread = thread::Builder::new()
            .name("zms-producer".to_owned())
            .spawn(move || worker.run())
            .map_err(|error| OpenError::Config {
                cluster: spec.cluster.name.to_string(),
                reason: format!("no thread for delivery reports: {error}"),
            })?;
        Ok(Self {
            cluster: spec.cluster.name.to_string(),
            native: RwLock::new(Some(native)),
            counters,
            life,
            worker: thread.thread().id(),
        })
    }

    /// Runs `hand_over` unless a close began. Never waits: only a close writes.
    fn with_native<T>(&self, hand_over: impl FnOnce(&Native) -> T) -> Option<T> {
        let slot = match self.native.try_read() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        slot.as_deref().map(hand_over)
    }

    /// A client for a call that takes long, which must not keep a close waiting.
    fn kept(&self) -> Result<Arc<Native>, EngineError> {
        let slot = self.native.read().unwrap_or_else(PoisonError::into_inner);
        slot.clone().ok_or_else(closed)
    }

    fn send(
        &self,
        native: &Native,
        topic: &TopicName,
        message: &Message,
        ticket: Ticket,
    ) -> Result<(), Failed> {
        let mut record: BaseRecord<'_, [u8], [u8], _> =
            BaseRecord::with_opaque_to(topic.as_str(), Box::new(Mutex::new(ticket)));
        record.payload = message.payload.as_deref();
        record.key = message.key.as_deref();
        record.partition = message.partition;
        record.timestamp = message.timestamp_ms;
        record.headers = native_headers(&message.headers);
        // Before the hand-over: the report may come before the call returns.
        self.counters.outstanding.fetch_add(1, Ordering::SeqCst);
        native.send(record).map_err(|(error, record)| {
            self.counters.outstanding.fetch_sub(1, Ordering::SeqCst);
            Failed { error: translated(&error), ticket: unwrapped(*record.delivery_opaque) }
        })
    }

    /// From here on nothing is taken.
    fn shut(&self, limit: Duration) {
        // Dropped before the request, so that the last reference is the worker's and not this thread's.
        drop(self.native.write().unwrap_or_else(PoisonError::into_inner).take());
        self.life.request(deadline(limit));
    }
}

impl ProducerClient for KafkaProducer {
    fn produce(&self, topic: &TopicName, message: Message, ticket: Ticket) -> Result<(), Refused> {
        if let Some(error) = unsendable(&message) {
            return Err(Refused { error, message, ticket });
        }
        let mut ticket = Some(ticket);
        let sent = self.with_native(|native| match ticket.take() {
            Some(ticket) => self.send(native, topic, &message, ticket),
            None => Ok(()),
        });
        match (sent, ticket) {
            (Some(Err(Failed { error, ticket })), _) => Err(Refused { error, message, ticket }),
            (None, Some(ticket)) => Err(Refused { error: closed(), message, ticket }),
            _ => Ok(()),
        }
    }

    fn warm(&self, topic: &TopicName, limit: Duration) -> Result<TopicInfo, EngineError> {
        topic_info(self.kept()?.client(), topic.as_str(), limit)?.ok_or_else(|| {
            let reason = format!("topic {topic} does not exist on cluster {}", self.cluster);
            failure(FailureKind::UnknownTopic, reason)
        })
    }

    fn outstanding(&self) -> usize {
        self.counters.outstanding.load(Ordering::SeqCst)
    }

    fn hurry(&self, limit: Duration) {
        if let Ok(kept) = self.kept() {
            native::flush_slice(kept.client(), limit);
        }
    }

    fn fatal(&self) -> Option<EngineError> {
        let (code, words) = self.with_native(|native| native.client().fatal_error()).flatten()?;
        Some(failure(FailureKind::Fatal, format!("{code}: {words}")))
    }

    fn close(&self, limit: Duration) -> usize {
        self.shut(limit);
        // A completion may close the client that reports to it; waiting there would be waiting for itself.
        if thread::current().id() == self.worker {
            return self.outstanding();
        }
        self.life.wait();
        self.counters.given_up.load(Ordering::SeqCst)
    }
}

impl Drop for KafkaProducer {
    fn drop(&mut self) {
        self.shut(DROP_GRACE);
    }
}

impl fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaProducer")
            .field("cluster", &self.cluster)
            .field("outstanding", &self.outstanding())
            .finish_non_exhaustive()
    }
}

struct Failed {
    error: EngineError,
    ticket: Ticket,
}

fn closed() -> EngineError {
    failure(FailureKind::Purged, "the producer is closed")
}

/// What librdkafka would silently send as something else: it takes timestamp 0 for "now" and a negative partition for
/// "any".
fn unsendable(message: &Message) -> Option<EngineError> {
    if let Some(timestamp) = message.timestamp_ms.filter(|it| *it <= 0) {
        return Some(failure(FailureKind::Rejected, format!("timestamp {timestamp} cannot be sent")));
    }
    let partition = message.partition.filter(|it| *it < 0)?;
    Some(failure(FailureKind::Rejected, format!("partition {partition} cannot exist")))
}

fn native_headers(headers: &[Header]) -> Option<OwnedHeaders> {
    if headers.is_empty() {
        return None;
    }
    let list = OwnedHeaders::new_with_capacity(headers.len());
    Some(headers.iter().fold(list, |list, header| {
        list.insert(NativeHeader { key: &header.name, value: header.value.as_deref() })
    }))
}
