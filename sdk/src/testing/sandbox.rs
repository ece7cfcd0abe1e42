//! A whole estate inside the process: clusters, a registry, and handles that see them as services do.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use zms_core::property::{Scope, check};

use super::{FAST_GROUP_PROPERTIES, MockCluster, MockClusterError};
use crate::{
    ClusterName, ConnectError, GroupName, NameError, TopicName, Zms, ZmsBuilder,
    admin::{Admin, AdminError, Format, Safety},
    registry::MemoryRegistry,
};

/// Kafka clusters (librdkafka's mock) and a registry, all inside the process: for tests of services that use this
/// SDK. See [`MockCluster`] for how it differs from a real one.
///
/// ```
/// use zms_sdk::{Message, testing::Sandbox};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let sandbox = Sandbox::start(["a", "b"]).await?;
/// sandbox.topic("orders", 4, "a").await?;
/// let zms = sandbox.connect().await?;
/// let receipt = zms.send("orders", Message::new("paid")).await?;
/// assert_eq!(receipt.cluster.as_str(), "a");
///
/// sandbox.move_topic("orders", "b").await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sandbox {
    store: MemoryRegistry,
    /// The registry clients of the handles made here.
    handles: Mutex<Vec<Handle>>,
    clusters: BTreeMap<String, MockCluster>,
    admin: Admin,
}

type Handle = Box<dyn Fn() -> Option<MemoryRegistry> + Send + Sync>;

/// The sandbox could not do as told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A mock cluster failed.
    #[error(transparent)]
    Cluster(#[from] MockClusterError),
    /// The registry refused.
    #[error(transparent)]
    Registry(#[from] AdminError),
    /// The sandbox has no such cluster.
    #[error("the sandbox has no cluster {name}; it was started with {known:?}")]
    NoCluster {
        /// The name asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
}

impl Sandbox {
    /// Starts one cluster of one broker for each name, registered under it.
    ///
    /// # Errors
    /// [`SandboxError`] when a name is not valid or a cluster cannot be started.
    pub async fn start(names: impl IntoIterator<Item = &str>) -> Result<Self, SandboxError> {
        let store = MemoryRegistry::new();
        let admin = Admin::new(store.shared());
        let mut clusters = BTreeMap::new();
        for name in names {
            let cluster = MockCluster::start(1)?;
            let bootstrap = cluster.bootstrap().to_owned();
            admin
                .add_cluster(&ClusterName::new(name)?, Format::Json, |meta| meta.bootstrap = bootstrap)
                .await?;
            clusters.insert(name.to_owned(), cluster);
        }
        Ok(Self { store, handles: Mutex::default(), clusters, admin })
    }

    /// Creates a topic on every cluster, so that it can move, and registers it as living on `cluster`.
    ///
    /// # Errors
    /// [`SandboxError`] when it exists or the cluster does not.
    pub async fn topic(&self, topic: &str, partitions: i32, cluster: &str) -> Result<(), SandboxError> {
        self.cluster(cluster)?;
        for mock in self.clusters.values() {
            mock.create_topic(topic, partitions)?;
        }
        let (topic, cluster) = (TopicName::new(topic)?, ClusterName::new(cluster)?);
        self.admin.add_topic(&topic, Format::Json, &cluster, |_| ()).await?;
        Ok(())
    }

    /// Registers a group bound to `topic`, on the topic's cluster, with timings that suit tests.
    ///
    /// # Errors
    /// [`SandboxError`] when it exists or the topic does not.
    pub async fn group(&self, group: &str, topic: &str) -> Result<(), SandboxError> {
        // What the registry may not set, the SDK sets itself.
        let settable = FAST_GROUP_PROPERTIES.iter().filter(|(name, _)| check(Scope::Consumer, name).is_ok());
        let (group, topic) = (GroupName::new(group)?, TopicName::new(topic)?);
        let add = self.admin.add_group(&group, Format::Json, &topic, |meta| {
            meta.consumer.extend(settable.clone().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        });
        add.await?;
        Ok(())
    }

    /// Moves a topic, then its groups, to another cluster, as an operator who edits the registry does.
    ///
    /// # Errors
    /// [`SandboxError`] when the topic or the cluster does not exist.
    pub async fn move_topic(&self, topic: &str, to: &str) -> Result<(), SandboxError> {
        self.cluster(to)?;
        let (topic, to) = (TopicName::new(topic)?, ClusterName::new(to)?);
        self.admin.set_topic(&topic, Safety::Forced, |meta| meta.cluster = to.clone()).await?;
        for group in self.admin.groups().await? {
            if group.meta.is_ok_and(|meta| meta.is_some_and(|meta| meta.topic == topic)) {
                let name = GroupName::new(&group.name)?;
                self.admin.set_group(&name, Safety::Forced, |meta| meta.cluster = to.clone()).await?;
            }
        }
        Ok(())
    }

    /// A handle with a session of its own, as another process would have.
    ///
    /// # Errors
    /// See [`ZmsBuilder::connect`].
    pub async fn connect(&self) -> Result<Zms, ConnectError> {
        self.builder().connect().await
    }

    /// Settings for such a handle.
    pub fn builder(&self) -> ZmsBuilder {
        let client = self.store.connect();
        self.handles().push(Box::new(client.observed()));
        Zms::builder().registry(client.shared()).resolve_timeout(Duration::from_secs(10))
    }

    /// Cuts all handles made here off from the registry, which itself can still be edited: what they would see of an
    /// outage.
    pub fn registry_down(&self) {
        self.each_client(MemoryRegistry::disconnect);
    }

    /// Gives those that were cut off their registry back.
    pub fn registry_up(&self) {
        self.each_client(MemoryRegistry::reconnect);
    }

    fn each_client(&self, order: impl Fn(&MemoryRegistry)) {
        let mut handles = self.handles();
        handles.retain(|client| client().inspect(&order).is_some());
    }

    fn handles(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cluster, to break and to mend.
    ///
    /// # Errors
    /// [`SandboxError::NoCluster`].
    pub fn cluster(&self, name: &str) -> Result<&MockCluster, SandboxError> {
        let known = || self.clusters.keys().cloned().collect();
        self.clusters
            .get(name)
            .ok_or_else(|| SandboxError::NoCluster { name: name.to_owned(), known: known() })
    }

    /// The registry, as a client of its own: what is broken on it concerns no handle. For those see
    /// [`registry_down`](Self::registry_down).
    pub fn registry(&self) -> &MemoryRegistry {
        &self.store
    }

    /// The registry's editor.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("clusters", &self.clusters).finish_non_exhaustive()
    }
}
