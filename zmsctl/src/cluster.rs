//! `zmsctl cluster`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};
use zms_sdk::{
    ClusterName,
    admin::{Admin, ClusterMeta, shown_properties},
};

use crate::{
    argument::{ForceArgs, NewArgs, apply, assignment},
    context::{Context, ask, open_cluster},
    failure::Failure,
    print::note,
    view::View,
};

const COLUMNS: &[&str] = &["name", "broker", "bootstrap", "clusterId", "format"];

/// How long a new cluster is asked for its id.
const ID_LIMIT: Duration = Duration::from_secs(3);

const ADD_EXAMPLES: &str = "\
Examples:
  zmsctl cluster add a --bootstrap a1:9092,a2:9092
  zmsctl cluster add b --bootstrap b1:9093 --format properties \\
    --property security.protocol=SASL_SSL --property sasl.mechanism=SCRAM-SHA-512 \\
    --property sasl.username=svc --property 'sasl.password=${env:KAFKA_PW}'
";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Adds a cluster, with the id that it states of itself.
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// Changes a cluster; running clients follow.
    Set(SetArgs),
    /// Shows a cluster. Secrets in plain text are hidden.
    Show {
        /// Its name.
        name: ClusterName,
    },
    /// Lists all clusters.
    List,
    /// Removes a cluster that no topic and no group is on.
    Remove {
        /// Its name.
        name: ClusterName,
        #[command(flatten)]
        force: ForceArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its name.
    name: ClusterName,
    /// Bootstrap servers.
    #[arg(long, value_name = "HOST:PORT,…")]
    bootstrap: String,
    #[command(flatten)]
    settings: SettingArgs,
    /// Does not ask the cluster for its id: another one at the same address will not be noticed.
    #[arg(long, conflicts_with = "kafka_id")]
    no_kafka_id: bool,
    #[command(flatten)]
    new: NewArgs,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args([
    "bootstrap", "kafka_id", "property", "unset_property",
])))]
pub(crate) struct SetArgs {
    /// Its name.
    name: ClusterName,
    /// Bootstrap servers.
    #[arg(long, value_name = "HOST:PORT,…")]
    bootstrap: Option<String>,
    #[command(flatten)]
    settings: SettingArgs,
    /// Removes a property.
    #[arg(long, value_name = "NAME")]
    unset_property: Vec<String>,
}

#[derive(Debug, Args)]
struct SettingArgs {
    /// Kafka's own cluster id; clients that find another one refuse the cluster. Empty: no longer stated.
    #[arg(long, value_name = "ID")]
    kafka_id: Option<String>,
    /// A librdkafka property for all clients of the cluster. Secrets as ${env:NAME} or ${file:/path}.
    #[arg(long, value_parser = assignment, value_name = "NAME=VALUE")]
    property: Vec<(String, String)>,
}

impl Command {
    pub(crate) async fn run(self, context: &Context) -> Result<View, Failure> {
        let admin = &context.admin().await?;
        match self {
            Self::Add(args) => args.run(admin, context.wait()).await,
            Self::Set(args) => args.run(admin).await,
            Self::Show { name } => {
                let cluster = admin.cluster(&name).await?;
                Ok(View::One(json(name.as_str(), &cluster)))
            }
            Self::List => Ok(View::entries(COLUMNS, &admin.clusters().await?, json)),
            Self::Remove { name, force } => {
                admin.remove_cluster(&name, force.safety()).await?;
                Ok(View::removed("cluster", name.as_str()))
            }
        }
    }
}

impl AddArgs {
    async fn run(self, admin: &Admin, wait: Duration) -> Result<View, Failure> {
        let fill = |cluster: &mut ClusterMeta| {
            cluster.bootstrap.clone_from(&self.bootstrap);
            self.settings.apply(cluster, &[]);
        };
        let mut cluster = admin.add_cluster(&self.name, self.new.format(), fill).await?;
        if self.settings.kafka_id.is_none() && !self.no_kafka_id {
            match self.kafka_id(&cluster, wait.min(ID_LIMIT)).await {
                Ok(id) => {
                    cluster =
                        admin.set_cluster(&self.name, |cluster| cluster.kafka_id = Some(id.clone())).await?;
                }
                Err(failure) => note(&format!(
                    "added without a Kafka id ({failure}); another cluster at this address would not be noticed. When it \
                     answers: zmsctl doctor --cluster {}",
                    self.name
                )),
            }
        }
        Ok(View::One(json(self.name.as_str(), &cluster)))
    }

    async fn kafka_id(&self, cluster: &ClusterMeta, limit: Duration) -> Result<String, Failure> {
        let client = open_cluster(&self.name, cluster)?;
        ask(move || client.cluster_id(limit).map_err(|error| Failure::Other(error.to_string()))).await
    }
}

impl SetArgs {
    async fn run(self, admin: &Admin) -> Result<View, Failure> {
        let change = |cluster: &mut ClusterMeta| {
            if let Some(bootstrap) = &self.bootstrap {
                cluster.bootstrap.clone_from(bootstrap);
            }
            self.settings.apply(cluster, &self.unset_property);
        };
        let cluster = admin.set_cluster(&self.name, change).await?;
        Ok(View::One(json(self.name.as_str(), &cluster)))
    }
}

impl SettingArgs {
    fn apply(&self, cluster: &mut ClusterMeta, unset: &[String]) {
        if let Some(id) = &self.kafka_id {
            cluster.kafka_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        apply(&mut cluster.properties, &self.property, unset);
    }
}

fn json(name: &str, cluster: &ClusterMeta) -> Value {
    json!({
        "name": name,
        "bootstrap": cluster.bootstrap,
        "broker": cluster.broker.as_str(),
        "clusterId": cluster.kafka_id,
        "properties": shown_properties(cluster),
        "format": cluster.format().to_string(),
    })
}
