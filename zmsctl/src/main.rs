//! `zmsctl`: the operator's command line for ZMS registries and the clusters that they lead to.
//!
//! One module per noun or verb. A module has its arguments as a clap type and a `run` that answers with a
//! [`view::View`]; what prints it, and which exit code a failure has, is decided here and in [`failure`]. Commands that
//! print as they go (`produce`, `consume`) do so through [`print`]. Connections are opened in [`context`] alone.

#![allow(
    clippy::doc_markdown,
    reason = "doc comments of arguments are the help text, which would show the backticks"
)]

mod argument;
mod clients;
mod cluster;
mod command;
mod consume;
mod context;
mod doctor;
mod failure;
mod group;
mod print;
mod produce;
mod signal;
#[cfg(test)]
mod tests;
mod text;
mod topic;
mod verify;
mod view;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use command::{Cli, Command};
use context::Context;
use failure::Failure;
use view::View;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let output = cli.output;
    let result = match &cli.command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "zmsctl", &mut script);
            show(&script)
        }
        _ => execute(cli).and_then(|view| show(view.render(output).as_bytes()).and_then(|()| view.outcome())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "{}", failure.render(output));
            failure.exit_code()
        }
    }
}

fn show(answer: &[u8]) -> Result<(), Failure> {
    print::whole(answer).or_else(|gone| gone.outcome())
}

fn execute(cli: Cli) -> Result<View, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Other(format!("no runtime: {error}")))?;
    let result = runtime.block_on(async {
        let context = Context::new(cli.registry, cli.output);
        let result = cli.command.run(&context).await;
        context.close().await;
        result
    });
    // Questions to dead clusters may still be waiting for their limit.
    runtime.shutdown_timeout(Duration::ZERO);
    result
}
