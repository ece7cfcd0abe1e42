//! Side-by-side measurements against what a service would use without this SDK.
//!
//! Each work runs interleaved with its incumbents on the same cluster: ours, one incumbent, the other, ours again. Each
//! measurement runs in a fresh process of its own, so that its CPU time is that of one client and nothing else.

mod allocations;
mod child;
mod cluster;
mod frame;
mod job;
mod registry;
mod report;
mod settings;
mod statistics;
mod stopwatch;
mod works;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

use crate::{
    job::Job,
    works::{Stage, Work},
};

/// Why a benchmark could not be carried out, in words for the person who runs it.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures the SDK side by side with raw rdkafka and with its peers, on a cluster started for it.
#[derive(Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bench: BenchArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the works, their incumbents and goals.
    List,
    /// One measurement; prints one line of JSON.
    #[command(hide = true)]
    Measure { job: String },
    /// Sends at an even pace, for a measurement.
    #[command(hide = true)]
    Feed { job: String },
    /// A mock cluster that lives until its standard input ends; prints its address.
    #[command(hide = true)]
    MockCluster,
}

/// What to measure, and how often.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// A work of `list`, or `all`; without one, `list`.
    name: Option<String>,
    /// Counted runs of each side; one more comes first and is not counted.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Messages of one measurement [default: as `list` shows].
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..))]
    messages: Option<u64>,
    /// Only this incumbent.
    #[arg(long)]
    incumbent: Option<String>,
    /// Seconds for which a partition's handler is stuck, in the work about that.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=200))]
    stuck: u64,
    /// Measures each incumbent against itself: the noise of this machine.
    #[arg(long)]
    aa: bool,
    /// Uses librdkafka's mock cluster in place of a real Kafka.
    #[arg(long)]
    mock: bool,
    /// Also writes everything measured to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        None if cli.bench.name.is_some() => frame::run(&cli.bench),
        None | Some(Command::List) => {
            print!("{}", report::list(works::ALL));
            Ok(())
        }
        Some(Command::Measure { job }) => {
            let job = Job::from_json(&job)?;
            let measure = Work::named(&job.work)?.measure(&job.side)?;
            println!("{}", measure(&job)?.to_json());
            Ok(())
        }
        Some(Command::Feed { job }) => {
            let job = Job::from_json(&job)?;
            match Work::named(&job.work)?.stage {
                Stage::Fresh { partitions } => works::feed(&job, partitions),
                _ => Err("only a work with a fresh topic is fed".into()),
            }
        }
        Some(Command::MockCluster) => cluster::serve_mock(),
    }
}
