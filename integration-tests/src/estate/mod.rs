//! Everything that services see: a registry in `ZooKeeper`, Kafka clusters registered there, topics and groups; and
//! trials on it, in which numbered senders and recording handlers feed the [guarantees](crate::guarantees).
//!
//! All of it goes through the SDK's public API. What fails here fails the test that asked, so these helpers panic.

mod handled;
mod positions;
mod remote;
mod sender;
mod trial;

use std::sync::Arc;
use std::time::Duration;

use zms_sdk::admin::{Admin, Format, Safety};
use zms_sdk::producer::ProducerOptions;
use zms_sdk::registry::port::{SessionState, SharedRegistry};
use zms_sdk::registry::{ZooKeeper, ZooKeeperOptions};
use zms_sdk::{ClusterName, GroupName, TopicName, Zms, ZmsBuilder};

use crate::services::{KafkaCluster, Shared, ZooKeeperServer};
use crate::wait::eventually;

pub use handled::Handled;
pub use positions::Committed;
pub use remote::RemoteMember;
pub use sender::{Sender, Sent};
pub use trial::Trial;

/// What a close may take; a healthy one takes far less.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(60);

/// A registry of its own, below a path of its own, and the clusters that it knows.
#[derive(Debug)]
pub struct Estate {
    connect: String,
    clusters: Vec<(ClusterName, KafkaCluster)>,
    registry: SharedRegistry,
    admin: Admin,
}

impl Estate {
    /// Registers `clusters` in a new registry on `zookeeper`.
    ///
    /// # Panics
    /// When the registry refuses.
    pub async fn on(zookeeper: &ZooKeeperServer, clusters: &[(&str, &KafkaCluster)]) -> Self {
        show_logs();
        let connect = format!("{}/{}", zookeeper.connect_string(), Shared::unique("estate"));
        let registry = ZooKeeper::connect(ZooKeeperOptions::new(&connect)).await.expect("ZooKeeper serves");
        let registry: SharedRegistry = Arc::new(registry);
        let admin = Admin::new(Arc::clone(&registry));
        let mut known = Vec::new();
        for (name, cluster) in clusters {
            let name = ClusterName::new(*name).expect("a cluster's name");
            let bootstrap = cluster.bootstrap();
            let fill = |meta: &mut zms_sdk::admin::ClusterMeta| meta.bootstrap = bootstrap;
            admin.add_cluster(&name, Format::Json, fill).await.expect("a new cluster is added");
            known.push((name, (*cluster).clone()));
        }
        Self { connect, clusters: known, registry, admin }
    }

    /// On the servers that the tests of one binary share: clusters `a` and `b`.
    ///
    /// # Panics
    /// When they do not start.
    pub async fn shared() -> Self {
        let shared = tokio::task::spawn_blocking(Shared::get).await.expect("the shared servers start");
        Self::on(shared.zookeeper(), &[("a", shared.a()), ("b", shared.b())]).await
    }

    /// The registry's connect string.
    pub fn connect_string(&self) -> &str {
        &self.connect
    }

    /// Waits until the operator is connected: again, after the registry was away.
    ///
    /// # Panics
    /// When the registry does not come back.
    pub async fn connected(&self) {
        let session = self.registry.session();
        eventually("the operator is connected", || session.borrow().state == SessionState::Connected).await;
    }

    /// The operator's hand.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The clusters, in the order given.
    pub fn clusters(&self) -> &[(ClusterName, KafkaCluster)] {
        &self.clusters
    }

    /// A topic with a new name, created on every cluster and registered on the first one.
    ///
    /// # Panics
    /// When a cluster or the registry refuses.
    pub async fn topic(&self, prefix: &str, partitions: i32) -> TopicName {
        let name = Shared::unique(prefix);
        for (_, cluster) in &self.clusters {
            let (cluster, name) = (cluster.clone(), name.clone());
            let created = tokio::task::spawn_blocking(move || cluster.create_topic(&name, partitions)).await;
            created.expect("creating does not panic").expect("a new topic is created");
        }
        let name = TopicName::new(name).expect("a topic's name");
        let (home, _) = &self.clusters[0];
        self.admin.add_topic(&name, Format::Json, home, |_| ()).await.expect("a new topic is added");
        name
    }

    /// A group with a new name, bound to a topic, on the topic's cluster.
    ///
    /// # Panics
    /// When the registry refuses.
    pub async fn group(&self, topic: &TopicName) -> GroupName {
        let name = GroupName::new(Shared::unique("group")).expect("a group's name");
        self.admin.add_group(&name, Format::Json, topic, |_| ()).await.expect("a new group is added");
        name
    }

    /// Changes the cluster of a topic by hand, without moving anything.
    ///
    /// # Panics
    /// When the registry refuses.
    pub async fn set_topic_cluster(&self, topic: &TopicName, cluster: &str) {
        let cluster = ClusterName::new(cluster).expect("a cluster's name");
        let change = |meta: &mut zms_sdk::admin::TopicMeta| meta.cluster = cluster.clone();
        self.admin.set_topic(topic, Safety::Forced, change).await.expect("the topic is changed");
    }

    /// Changes the cluster of a group by hand, without moving anything.
    ///
    /// # Panics
    /// When the registry refuses.
    pub async fn set_group_cluster(&self, group: &GroupName, cluster: &str) {
        let cluster = ClusterName::new(cluster).expect("a cluster's name");
        let change = |meta: &mut zms_sdk::admin::GroupMeta| meta.cluster = cluster.clone();
        self.admin.set_group(group, Safety::Forced, change).await.expect("the group is changed");
    }

    /// Settings of a handle as one service process has it; no snapshot on disk.
    pub fn builder(&self, instance: &str) -> ZmsBuilder {
        // A busy broker must not be taken for a dead one: a switch that does not wait for it may reorder.
        let producer = ProducerOptions::new().switch_stall(Duration::from_secs(30));
        Zms::builder().zookeeper(&self.connect).instance(instance).without_snapshot().producer(producer)
    }

    /// A handle as one service process has it.
    ///
    /// # Panics
    /// When it does not connect.
    pub async fn open(&self, instance: &str) -> Zms {
        self.builder(instance).connect().await.expect("the registry is there")
    }
}

/// What the SDK logs goes to the test's output, by `RUST_LOG`.
fn show_logs() {
    // Fails from the second time on, as it should.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_test_writer()
        .try_init();
}
