//! How sending is set up.

use std::{collections::BTreeMap, time::Duration};

use zms_core::pool::{Percent, Shares};

use super::profile::{ProducerConfigError, Profile, Settings, Wish, conflict, invalid};

/// Settings of all producers of one handle. Fixed once built, but for what topics override in the registry.
///
/// ```
/// use std::time::Duration;
/// use zms_sdk::producer::{ProducerOptions, Profile};
///
/// let options = ProducerOptions::new()
///     .profile(Profile::Throughput)
///     .buffer(64 << 20)
///     .max_block(Duration::from_secs(2))
///     .build()?;
/// # Ok::<(), zms_sdk::producer::ProducerConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    pub(super) wish: Wish,
    pub(super) client_id: String,
    pub(super) buffer: usize,
    pub(super) block_size: usize,
    topic_cap: u8,
    cluster_floor: u8,
    cluster_ceiling: u8,
    pub(super) max_block: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) switch_stall: Duration,
    pub(super) switch_limit: Duration,
    pub(super) warm_limit: Duration,
    pub(super) refused: Option<ProducerConfigError>,
}

/// Less would not hold even a small message beside what each costs.
const LEAST_BLOCK: usize = 1024;

/// [`ProducerOptions`], checked.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    pub(super) options: ProducerOptions,
    pub(super) settings: Settings,
    pub(super) shares: Shares,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            wish: Wish::default(),
            client_id: "zms".to_owned(),
            buffer: 32 << 20,
            block_size: 16 << 10,
            topic_cap: 50,
            cluster_floor: 12,
            cluster_ceiling: 75,
            max_block: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            switch_stall: Duration::from_secs(1),
            switch_limit: Duration::from_secs(5),
            warm_limit: Duration::from_secs(1),
            refused: None,
        }
    }
}

impl ProducerOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// What sending is tuned for. Default: [`Profile::Durable`]. A topic may override it in the registry.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.wish.profile = profile;
        self
    }

    /// Sets a librdkafka property by its name; it wins over the profile's. [`build`](Self::build) refuses properties
    /// that the SDK sets itself, such as `queue.buffering.max.kbytes`, and `transactional.id`. One that librdkafka does not
    /// know is refused when a client is opened: sends fail with [`SendError::Unusable`](crate::SendError::Unusable).
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        if let Err(refused) = self.wish.set(name, value) {
            self.refused.get_or_insert(refused);
        }
        self
    }

    /// `client.id` of the clients, as brokers log it. Default: `zms`.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = client_id.into();
        self
    }

    /// Bytes of all messages accepted and not yet reported, 256 bytes counted for each beside its data. Default:
    /// 32 MiB. A send for which there is no room waits, first come first served, up to [`max_block`](Self::max_block).
    /// The client library's own queues have no limit beside it. Can be changed live:
    /// [`Zms::resize_buffer`](crate::Zms::resize_buffer).
    #[must_use]
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
        self
    }

    /// Bytes of a block: memory of the buffer that small payloads written into it share. Default: 16 KiB. Larger ones
    /// get memory of their own size. A block is counted as a whole until the last message in it is reported.
    #[must_use]
    pub fn block_size(mut self, bytes: usize) -> Self {
        self.block_size = bytes;
        self
    }

    /// The most that one topic may have of the buffer, in percent. Default: 50, so that a topic that is held or
    /// flooding, or whose partition has no leader, leaves room for the others. With 100 a single topic can use it all.
    #[must_use]
    pub fn topic_cap(mut self, percent: u8) -> Self {
        self.topic_cap = percent;
        self
    }

    /// What is kept of the buffer for each cluster that topics of this handle live on, in percent. Default: 12. All
    /// floors together take half of the buffer at most: with more clusters, each is kept an equal part of that half.
    ///
    /// A message that fits into the unused part of its cluster's floor, with no other of its cluster waiting, never
    /// waits for messages to another cluster, however dead that is. Cost: what is kept and not used serves nobody.
    #[must_use]
    pub fn cluster_floor(mut self, percent: u8) -> Self {
        self.cluster_floor = percent;
        self
    }

    /// The most that all topics of one cluster together may have of the buffer, in percent. Default: 75, so that a
    /// dead cluster leaves room for clusters that are used later. With one cluster only, 100 loses nothing.
    #[must_use]
    pub fn cluster_ceiling(mut self, percent: u8) -> Self {
        self.cluster_ceiling = percent;
        self
    }

    /// How long a send waits for room in the buffer before it fails. Default: 10 s.
    #[must_use]
    pub fn max_block(mut self, limit: Duration) -> Self {
        self.max_block = limit;
        self
    }

    /// How long a client that no topic uses stays open, ready for topics that come back. Default: 60 s. Cost: its
    /// connections and threads.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = limit;
        self
    }

    /// How long a topic that changes cluster waits without any delivery report from the old one (the linger is added
    /// to it) before it goes on without. Default: 1 s. Longer keeps order through longer hiccups of the old cluster;
    /// shorter leaves a dead one sooner.
    #[must_use]
    pub fn switch_stall(mut self, limit: Duration) -> Self {
        self.switch_stall = limit;
        self
    }

    /// How long a topic that changes cluster waits for the old one at most, while reports keep coming. Default: 5 s.
    #[must_use]
    pub fn switch_limit(mut self, limit: Duration) -> Self {
        self.switch_limit = limit;
        self
    }

    /// Checks that the settings fit one another.
    ///
    /// # Errors
    /// [`ProducerConfigError`] names the settings that do not, with their values.
    pub fn build(mut self) -> Result<ProducerConfig, ProducerConfigError> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let shares = self.shares()?;
        let settings = self.check_buffer(self.buffer)?;
        Ok(ProducerConfig { options: self, settings, shares })
    }

    /// Checks that the settings fit a buffer of so many bytes.
    pub(super) fn check_buffer(&self, bytes: usize) -> Result<Settings, ProducerConfigError> {
        let Shares { topic_cap, cluster_ceiling, .. } = self.shares()?;
        let share = topic_cap.min(cluster_ceiling).of(bytes);
        if self.block_size < LEAST_BLOCK {
            return Err(invalid("block_size", &self.block_size.to_string(), "at least 1024 bytes"));
        }
        if self.block_size > share {
            return Err(conflict(
                "a block would never be given out; raise the buffer",
                ("block_size", format!("{} bytes", self.block_size)),
                ("a topic's share of the send buffer", format!("{share} bytes")),
            ));
        }
        self.wish.settle(&BTreeMap::new(), share)
    }

    fn shares(&self) -> Result<Shares, ProducerConfigError> {
        let percent = |name, value: u8| {
            let in_range = Percent::new(value).filter(|_| value > 0 || name == "cluster_floor");
            in_range.ok_or_else(|| invalid(name, &value.to_string(), "percent: 1 to 100, a floor also 0"))
        };
        let shares = Shares {
            topic_cap: percent("topic_cap", self.topic_cap)?,
            cluster_floor: percent("cluster_floor", self.cluster_floor)?,
            cluster_ceiling: percent("cluster_ceiling", self.cluster_ceiling)?,
        };
        if shares.cluster_floor > shares.cluster_ceiling {
            return Err(conflict(
                "more would be kept for a cluster than it may have",
                ("cluster_floor", format!("{} %", self.cluster_floor)),
                ("cluster_ceiling", format!("{} %", self.cluster_ceiling)),
            ));
        }
        Ok(shares)
    }
}
