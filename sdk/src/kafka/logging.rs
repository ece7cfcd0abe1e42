//! librdkafka's log lines and error callbacks as `tracing` events: one of a kind and minute, with the number of those
//! left out since the last. A dead broker would otherwise write thousands.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{config::RDKafkaLogLevel, error::KafkaError};

const WINDOW: Duration = Duration::from_secs(60);
/// Kinds are librdkafka's facilities and error codes, a few dozen; more than this share one entry.
const MAX_KINDS: usize = 256;

/// Says whether a line of a kind is written, and counts those that are not.
#[derive(Debug, Default)]
struct Limiter {
    kinds: HashMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    written: Instant,
    left_out: u64,
}

impl Limiter {
    /// `Some(n)`: write it, `n` like it were left out before.
    fn admit(&mut self, kind: &str, now: Instant) -> Option<u64> {
        let kind = if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(kind) { kind } else { "other" };
        let Some(seen) = self.kinds.get_mut(kind) else {
            self.kinds.insert(kind.to_owned(), Seen { written: now, left_out: 0 });
            return Some(0);
        };
        if now.duration_since(seen.written) < WINDOW {
            seen.left_out += 1;
            return None;
        }
        seen.written = now;
        Some(std::mem::take(&mut seen.left_out))
    }
}

/// Where one client's lines go.
#[derive(Debug)]
pub(super) struct ClientLog {
    cluster: String,
    client: String,
    limiter: Mutex<Limiter>,
}

impl ClientLog {
    pub(super) fn new(cluster: &str, client: &str) -> Self {
        Self { cluster: cluster.to_owned(), client: client.to_owned(), limiter: Mutex::default() }
    }

    /// A log line of librdkafka.
    pub(super) fn line(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        let (cluster, client) = (self.cluster.as_str(), self.client.as_str());
        // Clients of both kinds get all properties of their cluster, so librdkafka remarks on the other kind's.
        if matches!(level, RDKafkaLogLevel::Debug) || facility == "CONFWARN" {
            tracing::debug!(target: "zms_sdk::kafka", cluster, client, facility, "{text}");
            return;
        }
        let Some(left_out) = self.admit(facility) else { return };
        match level {
            RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "zms_sdk::kafka", cluster, client, facility, left_out, "{text}");
            }
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "zms_sdk::kafka", cluster, client, facility, left_out, "{text}");
            }
            _ => tracing::error!(target: "zms_sdk::kafka", cluster, client, facility, left_out, "{text}"),
        }
    }

    /// An error that librdkafka reports outside any call. It goes on by itself, so this is a warning.
    pub(super) fn error(&self, error: &KafkaError, text: &str) {
        let kind = error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| format!("{code:?}"));
        let (cluster, client) = (self.cluster.as_str(), self.client.as_str());
        if let Some(left_out) = self.admit(&kind) {
            tracing::warn!(target: "zms_sdk::kafka", cluster, client, kind, left_out, "{text}");
        }
    }

    /// Something that this adapter has to say, under the same limit.
    pub(super) fn note(&self, kind: &str, text: &str) {
        let (cluster, client) = (self.cluster.as_str(), self.client.as_str());
        if let Some(left_out) = self.admit(kind) {
            tracing::warn!(target: "zms_sdk::kafka", cluster, client, kind, left_out, "{text}");
        }
    }

    fn admit(&self, kind: &str) -> Option<u64> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner).admit(kind, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_tells_how_many_it_stands_for() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        assert_eq!(limiter.admit("FAIL", start), Some(0));
        for second in 1..60 {
            assert_eq!(limiter.admit("FAIL", start + Duration::from_secs(second)), None);
        }
        assert_eq!(limiter.admit("ERROR", start), Some(0), "another kind is not held back");
        assert_eq!(limiter.admit("FAIL", start + Duration::from_secs(60)), Some(59));
        assert_eq!(limiter.admit("FAIL", start + Duration::from_secs(61)), None);
    }

    #[test]
    fn kinds_without_end_do_not_fill_memory() {
        let mut limiter = Limiter::default();
        let now = Instant::now();
        for number in 0..10 * MAX_KINDS {
            limiter.admit(&number.to_string(), now);
        }
        assert!(limiter.kinds.len() <= MAX_KINDS + 1);
    }
}
