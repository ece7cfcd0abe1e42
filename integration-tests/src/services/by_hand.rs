//! Servers for people: started once, used from any terminal, stopped by command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::error::{Attempting, ServiceError};
use super::install;
use super::kafka::{Broker, KafkaCluster};
use super::port::PortLease;
use super::zookeeper::ZooKeeperServer;

const ZOOKEEPER_PORT: u16 = 2181;
/// Name and first port of each cluster, as in `docker-compose.yml`.
const CLUSTERS: [(&str, u16); 2] = [("a", 9092), ("b", 9192)];
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Servers that are up, as written down in `target/services/state.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// `ZooKeeper`'s connect string.
    pub zookeeper: String,
    /// Name and bootstrap addresses of each Kafka cluster.
    pub clusters: Vec<(String, String)>,
    /// The processes; empty when docker runs the servers.
    pub processes: Vec<Process>,
}

/// A server's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// What it is.
    pub name: String,
    /// Its process id.
    pub pid: u32,
}

impl Running {
    /// What was started last and not stopped since; its processes may have ended.
    pub fn recorded() -> Option<Self> {
        let state: Value = serde_json::from_slice(&fs::read(state_file()).ok()?).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let clusters = state["clusters"].as_object()?.iter();
        let processes = state["processes"].as_object()?.iter();
        Some(Self {
            zookeeper: text(&state["zookeeper"])?,
            clusters: clusters.map(|(name, at)| Some((name.clone(), text(at)?))).collect::<Option<_>>()?,
            processes: processes
                .map(|(name, pid)| {
                    Some(Process { name: name.clone(), pid: u32::try_from(pid.as_u64()?).ok()? })
                })
                .collect::<Option<_>>()?,
        })
    }

    /// What `docker-compose.yml` publishes.
    pub fn in_docker() -> Self {
        let clusters = CLUSTERS.map(|(name, port)| (name.to_owned(), format!("127.0.0.1:{port}")));
        Self {
            zookeeper: format!("127.0.0.1:{ZOOKEEPER_PORT}"),
            clusters: clusters.into(),
            processes: Vec::new(),
        }
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record(&self) -> Result<(), ServiceError> {
        let clusters: serde_json::Map<_, _> =
            self.clusters.iter().map(|(name, at)| (name.clone(), json!(at))).collect();
        let processes: serde_json::Map<_, _> =
            self.processes.iter().map(|process| (process.name.clone(), json!(process.pid))).collect();
        let state = json!({ "zookeeper": self.zookeeper, "clusters": clusters, "processes": processes });
        fs::create_dir_all(install::root()).attempting("create target/services")?;
        fs::write(state_file(), format!("{state:#}\n")).attempting("write target/services/state.json")
    }

    /// Lines for a shell that make the addresses known to programs.
    pub fn exports(&self) -> String {
        let mut lines = vec![format!("export ZMS_ZK={}", self.zookeeper)];
        let cluster =
            |(name, at): &(String, String)| format!("export ZMS_KAFKA_{}={at}", name.to_uppercase());
        lines.extend(self.clusters.iter().map(cluster));
        // What programs remember of this registry is to go with it.
        lines.push(format!("export ZMS_STATE_DIR='{}'", directory().join("state").display()));
        lines.join("\n")
    }
}

impl Process {
    /// Whether the process runs and is the one that was started: its command line names our directory.
    pub fn is_ours(&self) -> bool {
        command_line(self.pid).is_some_and(|line| line.contains(&directory().display().to_string()))
    }

    /// Starts it again where it ran, with its data, below `directory`.
    fn revive(&mut self, directory: &Path, zookeeper: &str) -> Result<(), ServiceError> {
        let unknown = || ServiceError::Request {
            name: self.name.clone(),
            problem: "nothing tells how it was started".to_owned(),
        };
        self.pid = if let Some((cluster, id)) = self.name.rsplit_once('-') {
            let id: i32 = id.parse().map_err(|_| unknown())?;
            Broker::revive(id, &directory.join(cluster).join(format!("broker-{id}")))?
        } else {
            let port = zookeeper.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            ZooKeeperServer::revive(&directory.join(&self.name), port.ok_or_else(unknown)?)?
        };
        Ok(())
    }

    /// SIGTERM, then SIGKILL; does nothing if the process is gone or its id has another owner.
    fn stop(&self) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        for signal in [Signal::TERM, Signal::KILL] {
            let limit = Instant::now() + STOP_LIMIT;
            if self.is_ours() {
                let _ = kill_process(pid, signal);
            }
            while self.is_ours() && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Starts `ZooKeeper` and the clusters `a` and `b` with empty data, to go on when this process ends. They take their
/// usual ports if those are free. If one does not come up, or this process is interrupted, none stays.
///
/// # Errors
/// When one does not start.
pub fn up(brokers: usize) -> Result<Running, ServiceError> {
    clear()?;
    let at = |name: &str| -> Result<PathBuf, ServiceError> {
        let path = directory().join(name);
        fs::create_dir_all(&path).attempting(format_args!("create {}", path.display()))?;
        Ok(path)
    };
    let zookeeper = ZooKeeperServer::launch(at("zookeeper")?, PortLease::preferring(ZOOKEEPER_PORT)?)?;
    let clusters = CLUSTERS
        .iter()
        .map(|(name, port)| {
            Ok((*name, KafkaCluster::builder().brokers(brokers).at(&at(name)?, *port).start()?))
        })
        .collect::<Result<Vec<_>, ServiceError>>()?;

    let mut running = Running {
        zookeeper: zookeeper.connect_string(),
        clusters: clusters.iter().map(|(name, cluster)| ((*name).to_owned(), cluster.bootstrap())).collect(),
        processes: Vec::new(),
    };
    let mut note =
        |name: String, pid: Option<u32>| running.processes.extend(pid.map(|pid| Process { name, pid }));
    note("zookeeper".into(), zookeeper.pid());
    for (name, cluster) in &clusters {
        cluster.brokers().iter().for_each(|broker| note(format!("{name}-{}", broker.id()), broker.pid()));
    }
    // Written down before they are let go: what runs on is always on record.
    running.record()?;
    zookeeper.detach();
    clusters.iter().flat_map(|(_, cluster)| cluster.brokers()).for_each(Broker::detach);
    Ok(running)
}

/// Starts the recorded processes that have ended again, on their ports and with their data, and records what runs now.
/// What runs already goes on. Those that do not come up stay ended, and no data is removed.
///
/// # Errors
/// When one does not start, for example because another program took its port; the others may have started.
pub fn revive(running: &mut Running) -> Result<(), ServiceError> {
    let zookeeper = running.zookeeper.clone();
    // All at once: brokers of a cluster wait for one another.
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let ended = running.processes.iter_mut().filter(|process| !process.is_ours());
        let zookeeper = &zookeeper;
        let revived: Vec<_> =
            ended.map(|process| scope.spawn(move || process.revive(&directory(), zookeeper))).collect();
        let joined = revived.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    running.record()?;
    outcomes.into_iter().collect()
}

/// Stops the recorded processes that are still ours, and removes their data.
///
/// # Errors
/// When the data cannot be removed.
pub fn down(running: &Running) -> Result<(), ServiceError> {
    std::thread::scope(|scope| {
        for process in &running.processes {
            scope.spawn(|| process.stop());
        }
    });
    clear()?;
    match fs::remove_file(state_file()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).attempting("remove state.json")
        }
        _ => Ok(()),
    }
}

fn clear() -> Result<(), ServiceError> {
    let directory = directory();
    if directory.exists() {
        fs::remove_dir_all(&directory).attempting(format_args!("remove {}", directory.display()))?;
    }
    Ok(())
}

/// Data and logs of the servers.
pub fn directory() -> PathBuf {
    install::root().join("up")
}

fn state_file() -> PathBuf {
    install::root().join("state.json")
}

/// The command line of a process, from `/proc` or, where there is none, from `ps`.
fn command_line(pid: u32) -> Option<String> {
    if Path::new("/proc/self/cmdline").exists() {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        return Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    let output = Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::require_services;

    /// Ends the server also when the test fails.
    struct Ended(Process);

    impl Drop for Ended {
        fn drop(&mut self) {
            if let Some(pid) = i32::try_from(self.0.pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    #[test]
    fn a_server_that_ended_goes_on_with_its_data_and_on_its_port_alone() {
        if !require_services() {
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let own = directory.path().join("zookeeper");
        fs::create_dir(&own).expect("a directory in it");
        let first = ZooKeeperServer::launch(own.clone(), PortLease::any().expect("a port")).expect("a start");
        let (zookeeper, data) = (first.connect_string(), own.join("data"));
        first.kill();
        first.detach();
        fs::write(data.join("marker"), "").expect("its data");

        let mut process = Process { name: "zookeeper".to_owned(), pid: 0 };
        process.revive(directory.path(), &zookeeper).expect("a start");
        let mut running = Ended(process);
        assert!(command_line(running.0.pid).expect("a process").contains(&own.display().to_string()));
        assert!(std::net::TcpStream::connect(&zookeeper).is_ok());

        let taken = running.0.clone().revive(directory.path(), &zookeeper).expect_err("its port is taken");
        assert!(taken.to_string().contains("another program listens"), "{taken}");
        running.0.name = "what-else".to_owned();
        let unknown = running.0.revive(directory.path(), &zookeeper).expect_err("nobody knows it");
        assert!(unknown.to_string().contains("how it was started"), "{unknown}");
        assert!(data.join("marker").exists(), "its data stay whatever fails");
    }
}
