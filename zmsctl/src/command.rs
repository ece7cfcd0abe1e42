//! The command line as a whole.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    clients, cluster, consume,
    context::{Context, Credential},
    doctor,
    failure::{EXIT_CODES, Failure},
    group, produce,
    text::duration,
    topic, verify,
    view::{Output, View},
};

const ENVIRONMENT: &str = "\
Environment:
  ZMS_ZK       the same as --zk
  ZMS_ZK_AUTH  the same as --zk-auth
  ZMS_FORMAT   the same as --format of the add commands
  ZMS_IP       own addresses, which gray release looks at; found by itself unless set
  RUST_LOG     what to log to stderr; error unless set

Examples:
  export ZMS_ZK=zk1:2181,zk2:2181/prod
  zmsctl cluster add a --bootstrap kafka-a1:9092,kafka-a2:9092
  zmsctl topic create orders --cluster a --partitions 12 --replication 3 --register
  zmsctl group add billing --topic orders
  zmsctl produce orders --key 42 'hello'
  zmsctl clients --topic orders
  zmsctl doctor
  zmsctl topic list --output json
";

fn after_help() -> String {
    format!("{EXIT_CODES}\n\n{ENVIRONMENT}")
}

/// Steers and checks what a ZMS registry describes: which Kafka cluster a topic lives on, and which groups read it.
#[derive(Debug, Parser)]
#[command(name = "zmsctl", version, after_help = after_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,

    /// Tables for people, JSON for programs.
    #[arg(long, short, global = true, value_enum, default_value_t, help_heading = "Global options")]
    pub(crate) output: Output,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct RegistryArgs {
    /// ZooKeeper servers, with a chroot behind them if there is one.
    #[arg(long, global = true, env = "ZMS_ZK", value_name = "HOST:PORT,…[/CHROOT]")]
    pub(crate) zk: Option<String>,

    /// User and password for ZooKeeper's digest scheme. Prefer the environment: arguments are seen by others.
    #[arg(long, global = true, env = "ZMS_ZK_AUTH", hide_env_values = true, value_name = "USER:PASSWORD")]
    pub(crate) zk_auth: Option<Credential>,

    /// How long to wait for one answer of the registry or of a cluster.
    #[arg(long, global = true, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    pub(crate) wait: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Kafka clusters.
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Topics: which cluster each lives on.
    #[command(subcommand)]
    Topic(topic::Command),
    /// Consumer groups: which topic each reads.
    #[command(subcommand)]
    Group(group::Command),
    /// Who is connected.
    Clients(clients::ClientsArgs),
    /// Sends messages to a topic, as a service does.
    Produce(produce::ProduceArgs),
    /// Joins a group and prints its messages; they are then handled for the whole group.
    Consume(consume::ConsumeArgs),
    /// Sends numbered messages, handles them by a group, and reports loss, duplicates and reordering.
    Verify(verify::VerifyArgs),
    /// Checks registry, clusters, topics and groups, and says what to do.
    Doctor(doctor::DoctorArgs),
    /// Prints completions for a shell; try: source <(zmsctl completions bash)
    Completions {
        /// The shell.
        shell: Shell,
    },
}

impl Command {
    pub(crate) async fn run(self, context: &Context) -> Result<View, Failure> {
        match self {
            Self::Cluster(command) => command.run(context).await,
            Self::Topic(command) => command.run(context).await,
            Self::Group(command) => command.run(&context.admin().await?, context.wait()).await,
            Self::Clients(args) => args.run(&context.admin().await?).await,
            Self::Produce(args) => args.run(context).await,
            Self::Consume(args) => args.run(context).await,
            Self::Verify(args) => args.run(context).await,
            Self::Doctor(args) => args.run(context).await,
            Self::Completions { .. } => Err(Failure::Usage("completions need no registry".to_owned())),
        }
    }
}
