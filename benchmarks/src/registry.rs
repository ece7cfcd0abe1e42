//! The registry that our side asks: a real `ZooKeeper`, filled as an operator would fill it.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use zms_integration_tests::services::ZooKeeperServer;
use zms_sdk::{
    ClusterName, GroupName, TopicName,
    admin::{Admin, Format},
    registry::{ZooKeeper, ZooKeeperOptions},
};

use crate::Failure;

/// A running registry with one cluster. Ends with this value.
pub(crate) struct Registry {
    // In this order: the connection ends before its runtime and its server.
    admin: Admin,
    runtime: Runtime,
    server: ZooKeeperServer,
    cluster: ClusterName,
}

impl Registry {
    /// Starts it, with the cluster at `bootstrap`.
    pub(crate) fn start(bootstrap: &str) -> Result<Self, Failure> {
        let server = ZooKeeperServer::start()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let cluster = ClusterName::new("bench")?;
        let admin = runtime.block_on(async {
            let registry = ZooKeeper::connect(ZooKeeperOptions::new(server.connect_string())).await?;
            let admin = Admin::new(Arc::new(registry));
            admin
                .add_cluster(&cluster, Format::Json, |entry| bootstrap.clone_into(&mut entry.bootstrap))
                .await?;
            Ok::<_, Failure>(admin)
        })?;
        Ok(Self { admin, runtime, server, cluster })
    }

    pub(crate) fn connect_string(&self) -> String {
        self.server.connect_string()
    }

    /// Enters a topic whose producers use a profile of the SDK.
    pub(crate) fn add_topic(&self, topic: &str, profile: &str) -> Result<(), Failure> {
        let fill = |entry: &mut zms_sdk::admin::TopicMeta| {
            entry.producer.insert("profile".to_owned(), profile.to_owned());
        };
        let topic = TopicName::new(topic)?;
        self.runtime.block_on(self.admin.add_topic(&topic, Format::Json, &self.cluster, fill))?;
        Ok(())
    }

    /// Enters a group, bound to a topic.
    pub(crate) fn add_group(&self, group: &str, topic: &str) -> Result<(), Failure> {
        let (group, topic) = (GroupName::new(group)?, TopicName::new(topic)?);
        self.runtime.block_on(self.admin.add_group(&group, Format::Json, &topic, |_| ()))?;
        Ok(())
    }
}
