//! An operator at a shell, with a registry and topics of their own.

use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
    sync::mpsc::sync_channel,
    time::Duration,
};

use serde_json::Value;
use zms_core::route::{ChangeId, ClusterSpec};
use zms_integration_tests::services::Shared;
use zms_sdk::{
    ClusterName, TopicName,
    engine::port::{ClusterAdmin, Engine},
    kafka::KafkaEngine,
};

/// Longer than any command here may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Operator {
    /// Its own corner of the shared server.
    pub(crate) registry: String,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Operator {
    /// An operator of an empty registry.
    pub(crate) fn new() -> Self {
        let chroot = Shared::unique("zmsctl");
        Self { registry: format!("{}/{chroot}", Shared::get().zookeeper().connect_string()) }
    }

    /// One whose registry has the clusters a and b.
    pub(crate) fn with_clusters() -> Self {
        let operator = Self::new();
        for (name, cluster) in [("a", Shared::get().a()), ("b", Shared::get().b())] {
            operator.done(&["cluster", "add", name, "--bootstrap", &cluster.bootstrap()]);
        }
        operator
    }

    /// A topic on cluster a, and a group of the same name.
    pub(crate) fn topic_and_group(&self, partitions: &str) -> String {
        let name = Shared::unique("orders");
        self.done(&["topic", "create", &name, "--cluster", "a", "--partitions", partitions, "--register"]);
        self.done(&["group", "add", &name, "--topic", &name]);
        name
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zmsctl"));
        command.args(arguments).env("ZMS_ZK", &self.registry);
        for name in ["ZMS_ZK_AUTH", "ZMS_FORMAT", "ZMS_IP", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        end(self.spawn(arguments))
    }

    /// Runs a command that reads `input`.
    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Ended {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        end(child)
    }

    /// Runs a command that succeeds; what it printed.
    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
        ended.stdout
    }

    /// The object that a command prints that succeeds.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.run(arguments).expect(0).json(arguments)
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// What it printed, as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self, of: &[&str]) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{of:?}: {error}: {self:?}"))
    }

    /// What it printed, as a JSON value in each line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Waits for the end, and fails the test when there is none.
#[track_caller]
pub(crate) fn end(child: Child) -> Ended {
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, answer) = sync_channel(1);
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    let Ok(output) = answer.recv_timeout(LIMIT) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        panic!("the command did not end within {LIMIT:?}");
    };
    let Output { status, stdout, stderr } = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = status.code().unwrap_or_else(|| panic!("ended by {status}"));
    let ended = Ended { code, stdout: text(stdout), stderr: text(stderr) };
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    ended
}

/// Asks a process to end, as Ctrl-C does.
pub(crate) fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Cluster a, to look at from outside.
pub(crate) fn cluster_a() -> std::sync::Arc<dyn ClusterAdmin> {
    let spec = ClusterSpec {
        name: ClusterName::new("a").unwrap(),
        bootstrap: Shared::get().a().bootstrap(),
        kafka_id: None,
        properties: std::collections::BTreeMap::new(),
        changed: ChangeId::default(),
    };
    KafkaEngine::new().open_admin(&spec).unwrap()
}

/// Messages that a topic on cluster a holds.
pub(crate) fn messages_of(topic: &str) -> i64 {
    let ranges = cluster_a().log_ranges(&TopicName::new(topic).unwrap(), LIMIT).unwrap();
    ranges.iter().map(|range| range.high - range.low).sum()
}
