//! Which settings can work together.

use std::collections::BTreeMap;

use super::profile::{ProducerConfigError, conflict, invalid};

/// The numbers that have to fit one another; times in milliseconds.
pub(super) struct Numbers {
    pub(super) linger: u64,
    pub(super) delivery: u64,
    request: u64,
    pub(super) batch: u64,
    pub(super) max_message: u64,
}

impl Numbers {
    pub(super) fn read<'a>(value: impl Fn(&str) -> Option<&'a String>) -> Result<Self, ProducerConfigError> {
        let number = |name: &str, default: u64| match value(name) {
            None => Ok(default),
            // librdkafka takes fractions of a millisecond for the linger.
            Some(text) => text
                .parse::<u64>()
                .ok()
                .or_else(|| text.split_once('.').and_then(|(whole, _)| whole.parse().ok()))
                .ok_or_else(|| invalid(name, text, "a number")),
        };
        let max_message = number("message.max.bytes", 1_000_000)?;
        Ok(Self {
            linger: number("linger.ms", 5)?,
            delivery: number("message.timeout.ms", 300_000)?,
            request: number("request.timeout.ms", 30_000)?,
            batch: number("batch.size", max_message.min(1_000_000))?,
            max_message,
        })
    }

    pub(super) fn check(&self, share: usize) -> Result<(), ProducerConfigError> {
        let ms = |value: u64| format!("{value} ms");
        let bytes = |value: u64| format!("{value} bytes");
        // librdkafka reads 0 as "no limit", but no send may stay unanswered for ever.
        if self.delivery == 0 {
            return Err(invalid("message.timeout.ms", "0", "at least 1 ms"));
        }
        if self.linger >= self.delivery {
            return Err(conflict(
                "messages would time out before they are sent; linger must be below the delivery timeout",
                ("linger.ms", ms(self.linger)),
                ("message.timeout.ms", ms(self.delivery)),
            ));
        }
        if self.linger.saturating_add(self.request) > self.delivery {
            return Err(conflict(
                "not even one request fits; request timeout plus linger must not exceed the delivery timeout",
                ("request.timeout.ms plus linger.ms", ms(self.request.saturating_add(self.linger))),
                ("message.timeout.ms", ms(self.delivery)),
            ));
        }
        if self.batch > self.max_message {
            return Err(conflict(
                "a full batch could not be sent; the batch must not exceed the largest message",
                ("batch.size", bytes(self.batch)),
                ("message.max.bytes", bytes(self.max_message)),
            ));
        }
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        if self.max_message > share {
            return Err(conflict(
                "the largest message would never be admitted; raise the buffer",
                ("message.max.bytes", bytes(self.max_message)),
                ("a topic's share of the send buffer", bytes(share)),
            ));
        }
        Ok(())
    }
}

pub(super) fn check_idempotence(properties: &BTreeMap<String, String>) -> Result<(), ProducerConfigError> {
    let value = |name: &str| properties.get(name).map_or("", String::as_str);
    if value("enable.idempotence") != "true" {
        return Ok(());
    }
    let rule = "an idempotent producer needs it; use the profile custom to go without";
    if !matches!(value("acks"), "all" | "-1") {
        return Err(conflict(rule, ("acks", value("acks").to_owned()), ("needed", "all".to_owned())));
    }
    let in_flight = value("max.in.flight.requests.per.connection");
    if !in_flight.is_empty() && !in_flight.parse().is_ok_and(|n: u32| (1..=5).contains(&n)) {
        let left = ("max.in.flight.requests.per.connection", in_flight.to_owned());
        return Err(conflict(rule, left, ("needed", "1 to 5".to_owned())));
    }
    Ok(())
}
