//! `zmsctl`: the operator's command line for ZMS registries.
//!
//! One module per noun. A module has its arguments as a clap type and a `run` that answers with a [`view::View`]; what
//! prints it, and which exit code a failure has, is decided here and in [`failure`].

#![allow(
    clippy::doc_markdown,
    reason = "doc comments of arguments are the help text, which would show the backticks"
)]

mod argument;
mod clients;
mod cluster;
mod command;
mod failure;
mod group;
#[cfg(test)]
mod tests;
mod topic;
mod view;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;
use zms_sdk::{
    admin::Admin,
    registry::{ZooKeeper, ZooKeeperOptions, port::Registry},
};

use command::{Cli, Command, RegistryArgs};
use failure::Failure;
use view::View;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let output = cli.output;
    let result = match &cli.command {
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "zmsctl", &mut io::stdout());
            return ExitCode::SUCCESS;
        }
        _ => execute(cli),
    };
    let printed = result.and_then(|view| {
        // A reader that went away, such as `head`, wants no more; that is no failure.
        let _ = io::stdout().write_all(view.render(output).as_bytes());
        view.outcome()
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.render(output));
            failure.exit_code()
        }
    }
}

fn execute(cli: Cli) -> Result<View, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Other(format!("no runtime: {error}")))?;
    runtime.block_on(async {
        let registry = connect(&cli.registry).await?;
        let registry = std::sync::Arc::new(registry);
        let result = cli.command.run(&Admin::new(registry.clone())).await;
        registry.close().await;
        result
    })
}

async fn connect(registry: &RegistryArgs) -> Result<ZooKeeper, Failure> {
    let Some(zk) = &registry.zk else {
        let reason = "no registry given; use --zk <host:port,…[/chroot]> or set ZMS_ZK".to_owned();
        return Err(Failure::Usage(reason));
    };
    let mut options =
        ZooKeeperOptions::new(zk).connect_timeout(registry.timeout()).request_timeout(registry.timeout());
    if let Some(digest) = &registry.zk_digest {
        let Some((user, password)) = digest.split_once(':') else {
            return Err(Failure::Usage("ZMS_ZK_DIGEST is not of the form user:password".to_owned()));
        };
        options = options.digest(user, password);
    }
    Ok(ZooKeeper::connect(options).await.map_err(zms_sdk::admin::AdminError::from)?)
}
