//! `zmsctl group`.

mod lag;

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};
use zms_sdk::{
    ClusterName, GroupName, TopicName,
    admin::{Admin, ConsumeFrom, GroupMeta},
};

use crate::{
    argument::{ForceArgs, GateArgs, GateChangeArgs, NewArgs, apply, assignment, gate_json},
    failure::Failure,
    print::note,
    view::View,
};

const COLUMNS: &[&str] =
    &["name", "topic", "cluster", "consumeFrom", "broadcast", "suspend", "gate", "format"];

const ADD_EXAMPLES: &str = "\
Examples:
  zmsctl group add billing --topic orders
  zmsctl group add audit --topic orders --consume-from latest --consumer sessionTimeout=10s
";
const SET_EXAMPLES: &str = "\
Examples:
  zmsctl group set billing --suspend
  zmsctl group set billing --suspend false
  zmsctl group set billing --topic refunds
  zmsctl group set billing --consume-from 2024-05-01T12:00:00Z
";

const LAG_EXAMPLES: &str = "\
Examples:
  zmsctl group lag billing
  zmsctl group lag billing --cluster a --output json
";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Adds a group that reads a topic, on the topic's cluster.
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// Changes a group; running members follow.
    #[command(after_help = SET_EXAMPLES)]
    Set(SetArgs),
    /// Shows a group.
    Show {
        /// Its name.
        name: GroupName,
    },
    /// Lists all groups.
    List,
    /// Shows how far a group is behind, and who has which partition. Without a committed position all that is there
    /// counts.
    #[command(after_help = LAG_EXAMPLES)]
    Lag {
        /// Its name.
        name: GroupName,
        /// Another cluster than the group's, such as the one that it comes from.
        #[arg(long)]
        cluster: Option<ClusterName>,
    },
    /// Removes a group without members from the registry; its positions on the Kafka cluster stay.
    Remove {
        /// Its name.
        name: GroupName,
        #[command(flatten)]
        force: ForceArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its name.
    name: GroupName,
    /// The topic that it reads.
    #[arg(long)]
    topic: TopicName,
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    new: NewArgs,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args([
    "topic", "cluster", "gate_addresses", "gate_cluster", "no_gate", "consume_from", "broadcast", "suspend",
    "consumer", "unset_consumer",
])))]
pub(crate) struct SetArgs {
    /// Its name.
    name: GroupName,
    /// Another topic; without --cluster the group goes to that topic's cluster. Refused while members are connected.
    #[arg(long)]
    topic: Option<TopicName>,
    /// The cluster to which its topic was moved by hand. Refused unless the topic lives there.
    #[arg(long)]
    cluster: Option<ClusterName>,
    #[command(flatten)]
    gate: GateChangeArgs,
    #[command(flatten)]
    settings: SettingArgs,
    /// Removes a consumer setting.
    #[arg(long, value_name = "NAME")]
    unset_consumer: Vec<String>,
    #[command(flatten)]
    force: ForceArgs,
}

#[derive(Debug, Args)]
struct SettingArgs {
    /// Where the group begins without a committed position: earliest, latest, a time such as 2024-05-01T12:00:00Z, or
    /// timestamp:MILLISECONDS. Java services of ZMS know the first two only; to them all else is latest.
    #[arg(long, value_name = "earliest|latest|TIME")]
    consume_from: Option<ConsumeFrom>,
    /// Every member gets every message.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
    broadcast: Option<bool>,
    /// Nothing is handled until it is resumed.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "true|false")]
    suspend: Option<bool>,
    /// A setting for all members, such as sessionTimeout=30s or fetch.min.bytes=1024. Durations without a unit are in
    /// milliseconds.
    #[arg(long, value_parser = assignment, value_name = "NAME=VALUE")]
    consumer: Vec<(String, String)>,
}

impl Command {
    /// `limit` is for each answer of a cluster.
    pub(crate) async fn run(self, admin: &Admin, limit: Duration) -> Result<View, Failure> {
        match self {
            Self::Add(args) => args.run(admin).await,
            Self::Set(args) => args.run(admin).await,
            Self::Show { name } => {
                let group = admin.group(&name).await?;
                Ok(View::One(json(name.as_str(), &group)))
            }
            Self::List => Ok(View::entries(COLUMNS, &admin.groups().await?, json)),
            Self::Lag { name, cluster } => lag::run(admin, name, cluster, limit).await,
            Self::Remove { name, force } => {
                admin.remove_group(&name, force.safety()).await?;
                Ok(View::removed("group", name.as_str()))
            }
        }
    }
}

impl AddArgs {
    async fn run(self, admin: &Admin) -> Result<View, Failure> {
        let fill = |group: &mut GroupMeta| {
            self.gate.apply(&mut group.gate);
            self.settings.apply(group, &[]);
        };
        let group = admin.add_group(&self.name, self.new.format(), &self.topic, fill).await?;
        Ok(View::One(json(self.name.as_str(), &group)))
    }
}

impl SetArgs {
    async fn run(self, admin: &Admin) -> Result<View, Failure> {
        let cluster = match (&self.cluster, &self.topic) {
            (None, Some(topic)) => Some(admin.topic(topic).await?.cluster),
            (cluster, _) => cluster.clone(),
        };
        let change = |group: &mut GroupMeta| {
            if let Some(topic) = &self.topic {
                group.topic = topic.clone();
            }
            if let Some(cluster) = &cluster {
                group.cluster = cluster.clone();
            }
            self.gate.apply(&mut group.gate);
            self.settings.apply(group, &self.unset_consumer);
        };
        let group = admin.set_group(&self.name, self.force.safety(), change).await?;
        if cluster.is_some() {
            note(&format!(
                "members of {} finish what is left on their present cluster, then read from {}",
                self.name, group.cluster
            ));
        }
        Ok(View::One(json(self.name.as_str(), &group)))
    }
}

impl SettingArgs {
    fn apply(&self, group: &mut GroupMeta, unset: &[String]) {
        group.consume_from = self.consume_from.unwrap_or(group.consume_from);
        group.broadcast = self.broadcast.unwrap_or(group.broadcast);
        group.suspend = self.suspend.unwrap_or(group.suspend);
        apply(&mut group.consumer, &self.consumer, unset);
    }
}

fn json(name: &str, group: &GroupMeta) -> Value {
    json!({
        "name": name,
        "topic": group.topic.as_str(),
        "cluster": group.cluster.as_str(),
        "consumeFrom": group.consume_from.to_string(),
        "broadcast": group.broadcast,
        "suspend": group.suspend,
        "gate": gate_json(group.gate.as_ref()),
        "consumer": group.consumer,
        "format": group.format().to_string(),
    })
}
