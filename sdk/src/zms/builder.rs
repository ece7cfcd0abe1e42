//! How a handle is set up.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::Semaphore;

use super::{
    ConnectError, Zms,
    dead_letters::DeadLetterSender,
    handle::{Inner, UNRESOLVED_ONEWAY},
    topics::Topics,
};
use crate::{
    engine::port::Engine,
    kafka::KafkaEngine,
    producer::{ProducerOptions, Producers},
    registry::{ZooKeeper, ZooKeeperOptions, port::SharedRegistry},
    routing::{Router, RoutingConfig},
};

/// Settings of a [`Zms`] handle.
///
/// ```no_run
/// use std::time::Duration;
/// use zms_sdk::{Zms, producer::{ProducerOptions, Profile}};
///
/// # async fn connect() -> Result<(), zms_sdk::ConnectError> {
/// let zms = Zms::builder()
///     .zookeeper("zk1:2181,zk2:2181/prod")
///     .instance("billing-service")
///     .resolve_timeout(Duration::from_secs(5))
///     .producer(ProducerOptions::new().profile(Profile::Throughput))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ZmsBuilder {
    registry: Option<Source>,
    instance: Option<String>,
    addresses: Vec<String>,
    resolve_timeout: Option<Duration>,
    offline_grace: Option<Duration>,
    snapshot: Snapshot,
    producer: ProducerOptions,
    engine: Option<Arc<dyn Engine>>,
}

#[derive(Debug, Clone)]
enum Source {
    ZooKeeper(ZooKeeperOptions),
    Given(SharedRegistry),
}

#[derive(Debug, Clone)]
enum Snapshot {
    Default,
    Off,
    Directory(PathBuf),
}

impl ZmsBuilder {
    pub(super) fn new() -> Self {
        Self {
            registry: None,
            instance: None,
            addresses: Vec::new(),
            resolve_timeout: None,
            offline_grace: None,
            snapshot: Snapshot::Default,
            producer: ProducerOptions::new(),
            engine: None,
        }
    }

    /// The registry in `ZooKeeper`, with default options: `host:port` separated by commas, and a chroot if there is
    /// one (`zk1:2181,zk2:2181/prod`). Required, unless [`registry`](Self::registry) is used.
    #[must_use]
    pub fn zookeeper(self, connect: impl Into<String>) -> Self {
        self.zookeeper_with(ZooKeeperOptions::new(connect))
    }

    /// The registry in `ZooKeeper`, with authentication, TLS or other timeouts.
    #[must_use]
    pub fn zookeeper_with(mut self, options: ZooKeeperOptions) -> Self {
        self.registry = Some(Source::ZooKeeper(options));
        self
    }

    /// A registry that is connected already, such as [`MemoryRegistry`](crate::registry::MemoryRegistry).
    /// [`Zms::close`] closes it. No snapshot is kept unless [`snapshot_directory`](Self::snapshot_directory) is set.
    #[must_use]
    pub fn registry(mut self, registry: SharedRegistry) -> Self {
        self.registry = Some(Source::Given(registry));
        self
    }

    /// Name of this service instance, as operators see it in `zmsctl clients` and brokers in `client.id`. Default: the
    /// name of the program.
    #[must_use]
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = Some(name.into());
        self
    }

    /// Own addresses, in place of those found. Gray release compares them with the registry's lists; the first one
    /// stands in registrations. Default: `ZMS_IP`, else the address by which the registry is reached.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.addresses = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// How long a topic or group that the registry does not know is waited for. Default: 10 s.
    #[must_use]
    pub fn resolve_timeout(mut self, limit: Duration) -> Self {
        self.resolve_timeout = Some(limit);
        self
    }

    /// How long the registry may be silent at the start before the snapshot on disk is used. Default: 3 s.
    #[must_use]
    pub fn offline_grace(mut self, limit: Duration) -> Self {
        self.offline_grace = Some(limit);
        self
    }

    /// Where the last-known-good snapshot is kept, from which a start without the registry works. Default:
    /// `ZMS_STATE_DIR`, else the XDG state directory.
    #[must_use]
    pub fn snapshot_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.snapshot = Snapshot::Directory(directory.into());
        self
    }

    /// Keeps no snapshot: a start without the registry fails.
    #[must_use]
    pub fn without_snapshot(mut self) -> Self {
        self.snapshot = Snapshot::Off;
        self
    }

    /// How sending is set up.
    #[must_use]
    pub fn producer(mut self, options: ProducerOptions) -> Self {
        self.producer = options;
        self
    }

    /// What moves messages, in place of the Kafka client.
    #[must_use]
    pub fn engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Connects.
    ///
    /// Waits for `ZooKeeper` up to its `connect_timeout`. If it does not answer and a snapshot stands on disk, the
    /// handle starts from that, with a warning, and follows the registry as soon as it is there. Dropping the future
    /// gives the attempt up.
    ///
    /// # Errors
    /// [`ConnectError`] when the registry cannot be reached and there is no snapshot, or options do not fit one
    /// another.
    pub async fn connect(self) -> Result<Zms, ConnectError> {
        let source = self.registry.ok_or(ConnectError::NoRegistry)?;
        let instance = self.instance.unwrap_or_else(program_name);
        let producer = self.producer.client_id(&instance).build()?;
        let (connect, is_given) = match &source {
            Source::ZooKeeper(options) => (options.connect_string().to_owned(), false),
            Source::Given(_) => ("given".to_owned(), true),
        };
        let mut routing = routing_config(connect, instance.clone()).await;
        if is_given {
            routing.snapshot = None;
        }
        match self.snapshot {
            Snapshot::Default => {}
            Snapshot::Off => routing.snapshot = None,
            Snapshot::Directory(directory) => routing.keep_snapshot_in(&directory),
        }
        if !self.addresses.is_empty() {
            routing.addresses = self.addresses;
        }
        if let Some(limit) = self.resolve_timeout {
            routing.resolve_timeout = limit;
        }
        if let Some(limit) = self.offline_grace {
            routing.offline_grace = limit;
        }
        let registry = open(source, &routing).await?;
        let engine = self.engine.unwrap_or_else(|| Arc::new(KafkaEngine::new()));
        let producers = Producers::start(Arc::clone(&engine), producer);
        let router = Router::start(Arc::clone(&registry), routing);
        let topics = Arc::new(Topics::default());
        let dead_letters =
            DeadLetterSender::new(Arc::clone(&router), Arc::clone(&producers), Arc::clone(&topics));
        Ok(Zms::new(Inner {
            dead_letters: Arc::new(dead_letters),
            producers,
            router,
            engine,
            registry,
            instance,
            topics,
            subscriptions: Arc::default(),
            unresolved: Arc::new(Semaphore::new(UNRESOLVED_ONEWAY)),
        }))
    }
}

/// Host names may have to be resolved, which blocks.
async fn routing_config(connect: String, instance: String) -> RoutingConfig {
    let (given, name) = (connect.clone(), instance.clone());
    let found = tokio::task::spawn_blocking(move || RoutingConfig::from_env(&given, &name)).await;
    found.unwrap_or_else(|_| RoutingConfig::new(&connect, &instance))
}

async fn open(source: Source, routing: &RoutingConfig) -> Result<SharedRegistry, ConnectError> {
    let options = match source {
        Source::Given(registry) => return Ok(registry),
        Source::ZooKeeper(options) => options,
    };
    let has_snapshot = routing.snapshot.as_ref().is_some_and(|file| file.exists());
    if !has_snapshot {
        return Ok(Arc::new(ZooKeeper::connect(options).await?));
    }
    match ZooKeeper::connect(options.clone()).await {
        Ok(registry) => Ok(Arc::new(registry)),
        Err(error) => {
            tracing::warn!(%error, "the registry does not answer; starting from the snapshot on disk");
            Ok(Arc::new(ZooKeeper::start(options)?))
        }
    }
}

fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name =
        program.as_deref().and_then(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "zms".to_owned())
}
