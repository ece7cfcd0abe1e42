//! How sending is set up.

use std::{collections::BTreeMap, time::Duration};

use super::profile::{ProducerConfigError, Profile, Settings, Wish};

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
    pub(super) max_block: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) switch_stall: Duration,
    pub(super) switch_limit: Duration,
    pub(super) warm_limit: Duration,
    pub(super) refused: Option<ProducerConfigError>,
}

/// [`ProducerOptions`], checked.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    pub(super) options: ProducerOptions,
    pub(super) settings: Settings,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            wish: Wish::default(),
            client_id: "zms".to_owned(),
            buffer: 32 << 20,
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
    /// that the SDK sets itself, such as `queue.buffering.max.kbytes`, and `transactional.id`.
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
    /// 32 MiB. One topic may hold half of it, so that a topic that is held, or whose cluster is down, leaves room for
    /// the others.
    #[must_use]
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes;
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
        let settings = self.wish.settle(&BTreeMap::new(), self.share())?;
        Ok(ProducerConfig { options: self, settings })
    }

    /// Bytes of the buffer that one topic may hold.
    pub(super) fn share(&self) -> usize {
        self.buffer / 2
    }
}
