//! `zmsctl topic create`: the topic on the cluster, and in the registry if asked for.

use std::{sync::Arc, time::Duration};

use clap::Args;
use serde_json::json;
use zms_sdk::{
    ClusterName, TopicName,
    admin::{Admin, AdminError},
    engine::port::{ClusterAdmin, EngineError, FailureKind, NewTopic},
};

use crate::{
    argument::{NewArgs, assignment},
    context::{Context, ask, open_cluster},
    failure::Failure,
    view::View,
};

pub(super) const EXAMPLES: &str = "\
Without --cluster it is created on the cluster that the registry's entry of the topic names. With --cluster it may be
created elsewhere too, for example where it is to move.

Examples:
  zmsctl topic create orders --cluster a --partitions 12 --replication 3 --register
  zmsctl topic create orders --cluster b --partitions 12 --config retention.ms=604800000
";

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name.
    name: TopicName,
    /// The cluster to create it on.
    #[arg(long)]
    cluster: Option<ClusterName>,
    /// Number of partitions. It can grow later, but then keys change their partitions.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    partitions: i32,
    /// Replicas of each partition; the cluster's default unless given.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100))]
    replication: Option<i32>,
    /// A setting of the topic, by Kafka's name.
    #[arg(long, value_parser = assignment, value_name = "NAME=VALUE")]
    config: Vec<(String, String)>,
    /// Adds the topic to the registry too, unless it is there.
    #[arg(long)]
    register: bool,
    #[command(flatten)]
    new: NewArgs,
}

impl CreateArgs {
    pub(super) async fn run(self, context: &Context) -> Result<View, Failure> {
        let admin = context.admin().await?;
        let registered = match admin.topic(&self.name).await {
            Ok(topic) => Some(topic.cluster),
            Err(AdminError::Missing { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let cluster = self.cluster(registered.as_ref())?;
        self.create(&admin, &cluster, context.wait()).await?;
        if self.register && registered.is_none() {
            self.register(&admin, &cluster).await?;
        }
        let registered = registered.or_else(|| self.register.then(|| cluster.clone()));
        Ok(View::One(json!({
            "created": self.name.as_str(),
            "cluster": cluster.as_str(),
            "partitions": self.partitions,
            "replication": self.replication.map_or_else(|| json!("default"), |replicas| json!(replicas)),
            "registeredOn": registered.as_ref().map(ClusterName::as_str),
        })))
    }

    fn cluster(&self, registered: Option<&ClusterName>) -> Result<ClusterName, Failure> {
        let name = &self.name;
        match (&self.cluster, registered) {
            (Some(asked), Some(registered)) if self.register && asked != registered => {
                Err(Failure::Refused(format!(
                    "topic {name} is registered on cluster {registered}, not {asked}; without --register it is created \
                     on {asked} and stays registered on {registered}"
                )))
            }
            (Some(asked), _) => Ok(asked.clone()),
            (None, Some(registered)) => Ok(registered.clone()),
            (None, None) => Err(Failure::Usage(format!(
                "topic {name} is not in the registry, so that nothing tells its cluster; add --cluster <cluster>, and \
                 --register to put it into the registry too"
            ))),
        }
    }

    async fn create(&self, admin: &Admin, cluster: &ClusterName, limit: Duration) -> Result<(), Failure> {
        let client = open_cluster(cluster, &admin.cluster(cluster).await?)?;
        let topic = NewTopic {
            topic: self.name.clone(),
            partitions: self.partitions,
            replication: self.replication,
            settings: self.config.iter().cloned().collect(),
        };
        let cluster = cluster.clone();
        ask(move || create_new(&client, &topic, &cluster, limit)).await
    }

    async fn register(&self, admin: &Admin, cluster: &ClusterName) -> Result<(), Failure> {
        let name = &self.name;
        match admin.add_topic(name, self.new.format(), cluster, |_| ()).await {
            Ok(_) | Err(AdminError::Exists { .. }) => Ok(()),
            Err(error) => Err(Failure::Other(format!(
                "topic {name} was created on cluster {cluster}, but not registered: {error}; when that is mended, \
                 `zmsctl topic add {name} --cluster {cluster}` does the rest"
            ))),
        }
    }
}

/// Creates a topic that must not exist yet. Blocking.
fn create_new(
    client: &Arc<dyn ClusterAdmin>,
    topic: &NewTopic,
    cluster: &ClusterName,
    limit: Duration,
) -> Result<(), Failure> {
    let name = &topic.topic;
    let failed = |error: EngineError| Failure::Cluster {
        cluster: cluster.clone(),
        what: format!("topic {name} was not created{}", hint(error.kind)),
        error,
    };
    let found = client.topic(name, limit).map_err(failed)?;
    if let Some(found) = found {
        let partitions = found.partitions;
        return Err(Failure::Exists(format!(
            "topic {name} exists on cluster {cluster} already, with {partitions} partitions; if it is not in the \
             registry, `zmsctl topic add {name} --cluster {cluster}` puts it there"
        )));
    }
    client.create_topic(topic, limit).map_err(failed)
}

fn hint(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unreachable => {
            " (look whether the cluster runs and its bootstrap servers are right; when in doubt try again, which tells \
             if it exists)"
        }
        FailureKind::Denied => " (the identity in the cluster's properties needs the right to create topics)",
        _ => " (look at --config, and whether --replication is at most the number of brokers)",
    }
}
