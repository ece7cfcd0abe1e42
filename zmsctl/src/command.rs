//! The command line as a whole.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use zms_sdk::admin::Admin;

use crate::{
    clients, cluster,
    failure::Failure,
    group, topic,
    view::{Output, View},
};

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  anything not named below
  2  the command line is wrong
  3  something named does not exist
  4  it exists already, or was changed by others meanwhile
  5  refused: in use, on the wrong cluster, or being moved (see --force)
  6  the registry could not be reached; a write may have taken effect
  7  a node in the registry cannot be understood

Environment:
  ZMS_ZK         the same as --zk
  ZMS_ZK_DIGEST  user:password for ZooKeeper's digest scheme
  ZMS_FORMAT     the same as --format
  RUST_LOG       what to log to stderr; error unless set

Examples:
  export ZMS_ZK=zk1:2181,zk2:2181/prod
  zmsctl cluster add a --bootstrap kafka-a1:9092,kafka-a2:9092
  zmsctl topic add orders --cluster a
  zmsctl group add billing --topic orders
  zmsctl clients --topic orders
  zmsctl topic list --output json
";

/// Edits ZMS registries: which Kafka cluster a topic lives on, and which groups read it.
#[derive(Debug, Parser)]
#[command(name = "zmsctl", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,

    /// Tables for people, JSON for programs.
    #[arg(long, short, global = true, value_enum, default_value_t)]
    pub(crate) output: Output,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// ZooKeeper servers, with a chroot behind them if there is one.
    #[arg(long, global = true, env = "ZMS_ZK", value_name = "HOST:PORT,…[/CHROOT]")]
    pub(crate) zk: Option<String>,

    /// User and password for ZooKeeper's digest scheme. From the environment alone: arguments are seen by others.
    #[arg(skip = std::env::var("ZMS_ZK_DIGEST").ok())]
    pub(crate) zk_digest: Option<String>,

    /// How long to wait for the registry, in seconds.
    #[arg(long, global = true, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

impl RegistryArgs {
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
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
    /// Prints completions for a shell; try: source <(zmsctl completions bash)
    Completions {
        /// The shell.
        shell: Shell,
    },
}

impl Command {
    pub(crate) async fn run(self, admin: &Admin) -> Result<View, Failure> {
        match self {
            Self::Cluster(command) => command.run(admin).await,
            Self::Topic(command) => command.run(admin).await,
            Self::Group(command) => command.run(admin).await,
            Self::Clients(args) => args.run(admin).await,
            Self::Completions { .. } => Err(Failure::Usage("completions need no registry".to_owned())),
        }
    }
}
