//! `ZooKeeper` and two Kafka clusters for trying things out: `./dev services up|status|down`.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::{Parser, Subcommand};
use zms_integration_tests::services::by_hand::{self, Running};
use zms_integration_tests::services::{Availability, ServiceError, availability};

/// `ZooKeeper` and the Kafka clusters `a` and `b`, on this machine only.
///
/// They run as plain Java processes, or with docker compose where Java is missing, and stay until `down`.
#[derive(Parser)]
#[command(name = "./dev services")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Starts the servers, those that ended with their data. Standard output is for the shell: eval "$(./dev services up)"
    Up {
        /// Brokers per cluster: 1, or 3 to see what the loss of one does.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
        brokers: u8,
        /// Use docker compose although Java is there.
        #[arg(long)]
        docker: bool,
    },
    /// Stops the servers and removes their data.
    Down,
    /// Says what runs, and where. The exit code is 1 unless everything does.
    Status,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Task::Up { brokers, docker } => up(brokers, docker),
        Task::Down => down(),
        Task::Status => return status(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn up(brokers: u8, docker: bool) -> Result<(), String> {
    if let Some(mut running) = Running::recorded() {
        if is_up(&running) {
            eprintln!("already up; `./dev services down` stops it");
        } else {
            revive(&mut running)?;
            eprintln!("up again; `./dev services down` stops it and removes the data. For your shell:");
        }
        println!("{}", running.exports());
        return Ok(());
    }
    let running = if docker || availability() != Availability::Ready {
        docker_up(brokers)?
    } else {
        eprintln!("starting ZooKeeper and two Kafka clusters (the first time fetches them)…");
        by_hand::up(brokers.into()).map_err(told)?
    };
    eprintln!("up; `./dev services down` stops it and removes the data. For your shell:");
    println!("{}", running.exports());
    Ok(())
}

/// What was started before goes on with its data; only `down` erases them.
fn revive(running: &mut Running) -> Result<(), String> {
    if running.processes.is_empty() {
        eprintln!("starting again with docker compose what has ended…");
        return compose(&["up", "--detach", "--wait"]).map(drop);
    }
    let ended = running.processes.iter().filter(|process| !process.is_ours());
    let ended = ended.map(|process| process.name.as_str()).collect::<Vec<_>>().join(", ");
    eprintln!("has ended, and is started again with its data: {ended}…");
    by_hand::revive(running).map_err(|error| {
        format!(
            "{error}\nWhat has ended ({ended}) does not start again; all data is still there. To begin anew: \
             `./dev services down`, which erases it"
        )
    })
}

fn down() -> Result<(), String> {
    let Some(running) = Running::recorded() else {
        eprintln!("nothing was started");
        return Ok(());
    };
    stop(&running)?;
    eprintln!("down");
    Ok(())
}

fn status() -> ExitCode {
    let Some(running) = Running::recorded() else {
        eprintln!("down");
        return ExitCode::FAILURE;
    };
    for process in &running.processes {
        let state = if process.is_ours() { "up" } else { "ended" };
        println!("{:<12} {state:<6} pid {}", process.name, process.pid);
    }
    if running.processes.is_empty() {
        println!("in docker: `docker compose ps` tells more");
    } else {
        println!("logs and data: {}", by_hand::directory().display());
    }
    println!("{}", running.exports());
    if is_up(&running) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_up(running: &Running) -> bool {
    if running.processes.is_empty() {
        return compose(&["ps", "--status", "running", "-q"]).is_ok_and(|output| !output.trim().is_empty());
    }
    running.processes.iter().all(by_hand::Process::is_ours)
}

fn stop(running: &Running) -> Result<(), String> {
    if running.processes.is_empty() {
        compose(&["down", "--volumes"])?;
    }
    by_hand::down(running).map_err(told)
}

fn docker_up(brokers: u8) -> Result<Running, String> {
    if !docker_answers() {
        let missing = match availability() {
            Availability::Missing(tool) => format!("`{tool}` is not on the PATH, and "),
            Availability::Ready => String::new(),
        };
        return Err(format!(
            "{missing}docker does not answer (`docker info`): install Java 17 and Maven, or docker"
        ));
    }
    if brokers > 1 {
        return Err("with docker there is one broker per cluster: leave out --brokers".into());
    }
    eprintln!("starting ZooKeeper and two Kafka clusters with docker compose…");
    let running = Running::in_docker();
    running.record().map_err(told)?;
    compose(&["up", "--detach", "--wait"])?;
    Ok(running)
}

fn docker_answers() -> bool {
    let status = Command::new("docker")
        .arg("info")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn compose(arguments: &[&str]) -> Result<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docker-compose.yml");
    let output = Command::new("docker")
        .args(["compose", "--file"])
        .arg(file)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("docker compose: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("docker compose {} failed ({})", arguments.join(" "), output.status))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
fn told(error: ServiceError) -> String {
    error.to_string()
}
