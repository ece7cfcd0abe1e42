//! What a subscription can be told.

use std::{
    fmt,
    num::{NonZeroU32, NonZeroUsize},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use zms_core::{flow::Load, rate::Rate};

use super::{DeadLetters, Ordering, RetryPolicy, member::Limits, mode::ModeOptions, switch::DepartureLimits};

/// librdkafka's default of `max.poll.interval.ms`.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);

/// What the SDK sets for every client, by both names where the library knows two, and what to do in its place. A value that
/// had no effect would be believed to have one.
const RESERVED: &[(&str, &str)] = &[
    ("allow.auto.create.topics", "topics are created by operators, never by a reader"),
    ("auto.commit.enable", POSITIONS),
    ("auto.offset.reset", "use consume_from, or the group's consumeFrom in the registry"),
    ("bootstrap.servers", "the registry says where the cluster is"),
    ("client.id", "use client_id"),
    ("enable.auto.commit", POSITIONS),
    ("enable.auto.offset.store", POSITIONS),
    ("enable.partition.eof", "it follows the ends of logs by other means"),
    ("group.id", "the group is what is subscribed to"),
    ("metadata.broker.list", "the registry says where the cluster is"),
    ("plugin.library.paths", "it loads code"),
];
const POSITIONS: &str = "positions follow what is done, never what was fetched";

/// All options; the setters with their documentation are on [`Subscriber`](super::Subscriber).
#[derive(Clone)]
pub(super) struct Options {
    pub(super) workers: usize,
    pub(super) ordering: Ordering,
    /// In place of `workers`, when set.
    pub(super) adaptive: Option<RangeInclusive<usize>>,
    /// Messages per second, and how many at once.
    pub(super) rate: Option<(u32, u32)>,
    pub(super) retry: RetryPolicy,
    /// In place of the handle's.
    pub(super) dead_letters: Option<Arc<dyn DeadLetters>>,
    pub(super) buffer: Load,
    pub(super) ahead: usize,
    pub(super) batch: usize,
    pub(super) commit_interval: Duration,
    pub(super) drain_limit: Duration,
    pub(super) departure: DepartureLimits,
    pub(super) mode: ModeOptions,
    pub(super) client_id: String,
    pub(super) properties: Vec<(String, String)>,
}

impl fmt::Debug for Options {
    /// Values of properties are left out: an application may have set a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.properties.iter().map(|(name, _)| name).collect();
        f.debug_struct("Options")
            .field("workers", &self.workers)
            .field("ordering", &self.ordering)
            .field("adaptive", &self.adaptive)
            .field("rate", &self.rate)
            .field("retry", &self.retry)
            .field("buffer", &self.buffer)
            .field("ahead", &self.ahead)
            .field("commit_interval", &self.commit_interval)
            .field("drain_limit", &self.drain_limit)
            .field("departure", &self.departure)
            .field("mode", &self.mode)
            .field("client_id", &self.client_id)
            .field("properties", &names)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(4, NonZeroUsize::get),
            ordering: Ordering::default(),
            adaptive: None,
            rate: None,
            retry: RetryPolicy::new(),
            dead_letters: None,
            buffer: Load { messages: 50_000, bytes: 64 << 20 },
            ahead: 20_000,
            batch: 500,
            commit_interval: Duration::from_secs(1),
            drain_limit: Duration::from_secs(5),
            departure: DepartureLimits {
                stalled: Duration::from_secs(60),
                unreachable: Duration::from_secs(10),
            },
            mode: ModeOptions::default(),
            client_id: "zms-sdk".to_owned(),
            properties: Vec::new(),
        }
    }
}

impl Options {
    /// The number of workers, when all options fit.
    pub(super) fn check(&self) -> Result<NonZeroUsize, String> {
        let Some(workers) = NonZeroUsize::new(self.workers) else {
            return Err("workers is 0; at least 1 is needed".to_owned());
        };
        if self.buffer.messages == 0 || self.buffer.bytes == 0 {
            return Err("max_buffered_messages and max_buffered_bytes must be at least 1".to_owned());
        }
        if self.ahead == 0 {
            return Err("max_ahead must be at least 1".to_owned());
        }
        if self.commit_interval.is_zero() {
            return Err("commit_interval is 0; choose at least some milliseconds".to_owned());
        }
        if let Some((name, reason)) = self.reserved() {
            return Err(format!("property {name}: the SDK sets it itself; {reason}"));
        }
        let interval = self.max_poll_interval();
        if self.drain_limit.saturating_mul(2) > interval {
            return Err(format!(
                "drain_limit {:?} must be at most half of max.poll.interval.ms ({interval:?}): while handlers are \
                 waited for the client is not polled, and the group would expel this member",
                self.drain_limit
            ));
        }
        self.rate()?;
        let adaptive = self.adaptive()?;
        Ok(adaptive.map_or(workers, |workers| *workers.start()))
    }

    /// The first property that is not the application's to set, and why.
    fn reserved(&self) -> Option<&'static (&'static str, &'static str)> {
        self.properties.iter().find_map(|(set, _)| RESERVED.iter().find(|(name, _)| name == set))
    }

    /// The bounds of the number of workers, where it is found out.
    pub(super) fn adaptive(&self) -> Result<Option<RangeInclusive<NonZeroUsize>>, String> {
        let Some(bounds) = &self.adaptive else { return Ok(None) };
        match (NonZeroUsize::new(*bounds.start()), NonZeroUsize::new(*bounds.end())) {
            (Some(min), Some(max)) if min <= max => Ok(Some(min..=max)),
            _ => {
                Err(format!("adaptive {bounds:?} workers; at least 1 is needed, and the first is the least"))
            }
        }
    }

    /// The rate limit.
    pub(super) fn rate(&self) -> Result<Option<Rate>, String> {
        let Some((messages, burst)) = self.rate else { return Ok(None) };
        match (NonZeroU32::new(messages), NonZeroU32::new(burst)) {
            (Some(messages), Some(burst)) => Ok(Some(Rate::per_second(messages).burst(burst))),
            _ => Err(format!(
                "rate_limit of {messages} messages per second, {burst} at once; at least 1 of each is needed"
            )),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            buffer: self.buffer,
            batch: self.batch,
            ahead: self.ahead,
            commit_interval: self.commit_interval,
        }
    }

    fn max_poll_interval(&self) -> Duration {
        let set = self.properties.iter().rev().find(|(name, _)| name == "max.poll.interval.ms");
        set.and_then(|(_, value)| value.parse().ok()).map_or(MAX_POLL_INTERVAL, Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::default();
        change(&mut options);
        options.check().unwrap_err()
    }

    #[test]
    fn the_defaults_fit() {
        assert!(Options::default().check().is_ok());
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_numbers() {
        assert!(refused(|o| o.workers = 0).contains("workers"));
        assert!(refused(|o| o.rate = Some((0, 1))).contains("rate_limit"));
        assert!(refused(|o| o.rate = Some((1, 0))).contains("rate_limit"));
        assert!(refused(|o| o.adaptive = Some(0..=1)).contains("adaptive"));
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let reversed = Some(3..=2);
        assert!(refused(|o| o.adaptive = reversed).contains("adaptive"));
        assert!(refused(|o| o.buffer.bytes = 0).contains("max_buffered_bytes"));
        assert!(refused(|o| o.ahead = 0).contains("max_ahead"));
        assert!(refused(|o| o.commit_interval = Duration::ZERO).contains("commit_interval"));
        assert!(refused(|o| o.drain_limit = Duration::from_secs(151)).contains("300s"));
        for (name, _) in RESERVED {
            let set = |o: &mut Options| o.properties.push(((*name).to_owned(), "hunter2".to_owned()));
            assert!(refused(set).starts_with(&format!("property {name}: ")), "{name}");
            assert!(!refused(set).contains("hunter2"));
        }
        let short = ("max.poll.interval.ms".to_owned(), "6000".to_owned());
        assert!(refused(|o| o.properties.push(short)).contains("6s"));
    }
}
