//! What becomes of records: librdkafka's delivery reports as outcomes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    message::Message as _,
    producer::{DeliveryResult, ProducerContext},
};

use crate::{
    engine::port::{Outcome, Ticket},
    kafka::{
        error::coded,
        logging::ClientLog,
        native::{self, Persistence},
    },
};

#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Records handed over whose completion has not returned.
    pub(super) outstanding: AtomicUsize,
    /// Records that a close gave up.
    pub(super) given_up: AtomicUsize,
}

/// Receives the reports.
pub(super) struct Reports {
    pub(super) counters: Arc<Counters>,
    pub(super) log: ClientLog,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.log.line(level, facility, text);
    }

    fn error(&self, error: KafkaError, text: &str) {
        self.log.error(&error, text);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Mutex<Ticket>>;

    fn delivery(&self, result: &DeliveryResult<'_>, carried: Self::DeliveryOpaque) {
        let outcome = self.outcome(result);
        // A panic here would leave the other reports of this event unserved.
        if catch_unwind(AssertUnwindSafe(|| unwrapped(*carried).complete(outcome))).is_err() {
            self.log.note("completion panicked", "a completion of a record panicked");
        }
        self.counters.outstanding.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Reports {
    fn outcome(&self, result: &DeliveryResult<'_>) -> Outcome {
        let (error, report) = match result {
            Ok(report) => {
                return Outcome::Delivered {
                    partition: report.partition(),
                    offset: Some(report.offset()).filter(|offset| *offset >= 0),
                    timestamp_ms: report.timestamp().to_millis(),
                };
            }
            Err((error, report)) => (error, report),
        };
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        if matches!(code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight) {
            self.counters.given_up.fetch_add(1, Ordering::SeqCst);
        }
        match native::persistence(report) {
            Persistence::Never => Outcome::NotSent(coded(code)),
            Persistence::Possible | Persistence::Certain => Outcome::Unknown(coded(code)),
        }
    }
}

/// The mutex only makes the ticket shareable, which the client library demands of what it carries; nobody locks it.
pub(super) fn unwrapped(carried: Mutex<Ticket>) -> Ticket {
    carried.into_inner().unwrap_or_else(PoisonError::into_inner)
}
