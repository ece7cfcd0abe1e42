//! `zmsctl topic`.

mod create;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use zms_sdk::{
    ClusterName, TopicName,
    admin::{Admin, AdminError, StatisticsLogger, TopicMeta},
};

use self::create::CreateArgs;
use crate::{
    argument::{ForceArgs, GateArgs, GateChangeArgs, NewArgs, apply, assignment, gate_json},
    context::Context,
    failure::Failure,
    print::note,
    view::View,
};

const COLUMNS: &[&str] = &["name", "cluster", "gate", "producer", "format"];

const ADD_EXAMPLES: &str = "\
Examples:
  zmsctl topic add orders --cluster a
  zmsctl topic add orders --cluster a --producer profile=throughput --producer linger=20ms
  zmsctl topic add orders --cluster a --gate-addresses 10.0.0.7,10.0.0.8 --gate-cluster b
";

const SET_EXAMPLES: &str = "\
Examples:
  zmsctl topic set orders --producer linger=20ms --unset-producer compression
  zmsctl topic set orders --gate-addresses 10.0.0.7 --gate-cluster b
  zmsctl topic set orders --no-gate
  zmsctl topic set orders --cluster b --force     # at once, moves no message; then each group: group set G --cluster b
";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Creates a topic on its Kafka cluster, and with --register in the registry too.
    #[command(after_help = create::EXAMPLES)]
    Create(CreateArgs),
    /// Adds a topic to the registry; on the Kafka cluster it must exist, or be created by `topic create`.
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// Changes a topic; running producers follow.
    #[command(after_help = SET_EXAMPLES)]
    Set(SetArgs),
    /// Shows a topic.
    Show {
        /// Its name.
        name: TopicName,
    },
    /// Lists all topics.
    List,
    /// Removes a topic that no group and no producer uses from the registry; on the Kafka cluster it stays.
    Remove {
        /// Its name.
        name: TopicName,
        #[command(flatten)]
        force: ForceArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its name.
    name: TopicName,
    /// The cluster that it lives on.
    #[arg(long)]
    cluster: ClusterName,
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    new: NewArgs,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args([
    "cluster", "gate_addresses", "gate_cluster", "no_gate", "statistics", "producer", "unset_producer",
])))]
pub(crate) struct SetArgs {
    /// Its name.
    name: TopicName,
    /// Another cluster, at once and without moving a message. Refused while groups are bound to the topic or producers
    /// are connected, unless forced.
    #[arg(long)]
    cluster: Option<ClusterName>,
    #[command(flatten)]
    gate: GateChangeArgs,
    #[command(flatten)]
    settings: SettingArgs,
    /// Removes a producer setting.
    #[arg(long, value_name = "NAME")]
    unset_producer: Vec<String>,
    #[command(flatten)]
    force: ForceArgs,
}

#[derive(Debug, Args)]
struct SettingArgs {
    /// Where clients send their statistics.
    #[arg(long, value_enum)]
    statistics: Option<Statistics>,
    /// A setting for all producers of the topic, such as linger=20ms or compression.type=lz4. Durations without a unit
    /// are in milliseconds.
    #[arg(long, value_parser = assignment, value_name = "NAME=VALUE")]
    producer: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Statistics {
    Message,
    Disk,
}

impl Command {
    pub(crate) async fn run(self, context: &Context) -> Result<View, Failure> {
        let admin = &context.admin().await?;
        match self {
            Self::Create(args) => args.run(context).await,
            Self::Add(args) => args.run(admin).await,
            Self::Set(args) => args.run(admin).await,
            Self::Show { name } => {
                let topic = admin.topic(&name).await?;
                Ok(View::One(json(name.as_str(), &topic)))
            }
            Self::List => Ok(View::entries(COLUMNS, &admin.topics().await?, json)),
            Self::Remove { name, force } => {
                admin.remove_topic(&name, force.safety()).await?;
                Ok(View::removed("topic", name.as_str()))
            }
        }
    }
}

impl AddArgs {
    async fn run(self, admin: &Admin) -> Result<View, Failure> {
        let fill = |topic: &mut TopicMeta| {
            self.gate.apply(&mut topic.gate);
            self.settings.apply(topic, &[]);
        };
        let topic = admin.add_topic(&self.name, self.new.format(), &self.cluster, fill).await?;
        Ok(View::One(json(self.name.as_str(), &topic)))
    }
}

impl SetArgs {
    async fn run(self, admin: &Admin) -> Result<View, Failure> {
        let change = |topic: &mut TopicMeta| {
            if let Some(cluster) = &self.cluster {
                topic.cluster = cluster.clone();
            }
            self.gate.apply(&mut topic.gate);
            self.settings.apply(topic, &self.unset_producer);
        };
        let topic = match (admin.set_topic(&self.name, self.force.safety(), change).await, &self.cluster) {
            (Err(AdminError::InUse { users, .. }), Some(cluster)) => {
                return Err(self.in_use(admin, &users, cluster).await);
            }
            (result, _) => result?,
        };
        if self.cluster.is_some() {
            self.say_what_is_next(admin, &topic).await;
        }
        Ok(View::One(json(self.name.as_str(), &topic)))
    }

    /// What uses the topic need not end: producers follow by themselves, and each group when it is told.
    async fn in_use(&self, admin: &Admin, users: &[String], cluster: &ClusterName) -> Failure {
        let commands: Vec<String> = match self.left_behind(admin, cluster).await {
            Ok(groups) => groups
                .iter()
                .map(|(name, _)| format!("`zmsctl group set {name} --cluster {cluster}`"))
                .collect(),
            Err(error) => return error.into(),
        };
        let then =
            if commands.is_empty() { String::new() } else { format!(", then {}", commands.join(", ")) };
        let (name, users) = (&self.name, users.join(", "));
        Failure::Refused(format!("topic {name} is in use by {users}; to move it live: add --force{then}"))
    }

    /// A topic moved by hand is half of the work: its groups still read where they read before.
    async fn say_what_is_next(&self, admin: &Admin, topic: &TopicMeta) {
        let (name, new) = (&self.name, &topic.cluster);
        note(&format!("producers of {name} send to {new} from now on"));
        match self.left_behind(admin, new).await {
            Ok(groups) => groups.iter().for_each(|(group, old)| {
                note(&format!(
                    "group {group} still reads from {old}; next: zmsctl group set {group} --cluster {new}"
                ));
            }),
            // The topic was changed, whatever can be said of its groups.
            Err(error) => note(&format!(
                "which of its groups still read elsewhere is not known ({error}); zmsctl doctor tells"
            )),
        }
    }

    /// The topic's groups that read elsewhere than on a cluster, and where.
    async fn left_behind(
        &self,
        admin: &Admin,
        cluster: &ClusterName,
    ) -> Result<Vec<(String, ClusterName)>, AdminError> {
        let groups =
            admin.groups().await?.into_iter().filter_map(|entry| Some((entry.name, entry.meta.ok()??)));
        let behind = groups.filter(|(_, group)| group.topic == self.name && group.cluster != *cluster);
        Ok(behind.map(|(name, group)| (name, group.cluster)).collect())
    }
}

impl SettingArgs {
    fn apply(&self, topic: &mut TopicMeta, unset: &[String]) {
        match self.statistics {
            Some(Statistics::Message) => topic.statistics = StatisticsLogger::Message,
            Some(Statistics::Disk) => topic.statistics = StatisticsLogger::Disk,
            None => {}
        }
        apply(&mut topic.producer, &self.producer, unset);
    }
}

fn json(name: &str, topic: &TopicMeta) -> Value {
    json!({
        "name": name,
        "cluster": topic.cluster.as_str(),
        "gate": gate_json(topic.gate.as_ref()),
        "statisticsLogger": topic.statistics.as_str(),
        "producer": topic.producer,
        "format": topic.format().to_string(),
    })
}
