//! One broker of a cluster.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::error::{Attempting, ServiceError};
use super::super::install;
use super::super::port::{PortLease, loopback};
use super::super::process::{Jvm, Launch, accepts};
use super::admin;
use crate::proxy::Proxy;

const CONFIG: &str = "server.properties";

/// One combined broker and controller of a [`KafkaCluster`](super::KafkaCluster).
#[derive(Debug)]
pub struct Broker {
    id: i32,
    jvm: Jvm,
    ports: Ports,
}

/// Where a broker listens: for clients, for its peers and for those who look past the proxy, as a controller.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) client: PortLease,
    pub(super) direct: PortLease,
    pub(super) controller: PortLease,
    pub(super) proxy: Option<Proxy>,
}

impl Ports {
    /// What clients are told to connect to.
    pub(super) fn advertised(&self) -> u16 {
        self.proxy.as_ref().map_or(self.client.port(), Proxy::port)
    }
}

impl Broker {
    /// Writes the configuration and formats the storage; does not start the broker.
    pub(super) fn prepare(
        id: i32,
        ports: Ports,
        directory: &Path,
        storage: &Storage<'_>,
    ) -> Result<Self, ServiceError> {
        let config = directory.join(CONFIG);
        fs::write(&config, storage.properties).attempting("write server.properties")?;
        format_storage(&config, storage.cluster_id)?;
        let jvm = jvm(id, ports.client.port(), directory);
        Ok(Self { id, jvm, ports })
    }

    /// Starts a broker that ran in `directory` before and has ended, with its data, to outlive this process. Its process
    /// id.
    pub(in super::super) fn revive(id: i32, directory: &Path) -> Result<u32, ServiceError> {
        let config = fs::read_to_string(directory.join(CONFIG)).attempting("read server.properties")?;
        let port = |listener: &str| {
            port_of(&config, listener).ok_or_else(|| ServiceError::Request {
                name: format!("Kafka broker {id}"),
                problem: format!("no listener {listener} in {}", directory.join(CONFIG).display()),
            })
        };
        let (client, direct) = (port("CLIENT")?, port("DIRECT")?);
        jvm(id, client, directory)
            .revive(client, || accepts(client) && admin::knows(&loopback(direct).to_string(), id))
    }

    /// Kafka's node id.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// `127.0.0.1:<port>` for clients: the proxy's, if there is one.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.advertised())
    }

    /// `127.0.0.1:<port>` of the listener that no proxy stands before.
    pub fn direct_address(&self) -> String {
        self.ports.direct.address().to_string()
    }

    /// The proxy in front of this broker, if the cluster was built with [`proxied`](super::KafkaBuilder::proxied).
    pub fn proxy(&self) -> Option<&Proxy> {
        self.ports.proxy.as_ref()
    }

    /// The process id, or `None` after [`kill`](Self::kill) or [`stop`](Self::stop).
    pub fn pid(&self) -> Option<u32> {
        self.jvm.pid()
    }

    /// Ends the process at once (SIGKILL).
    pub fn kill(&self) {
        self.jvm.kill();
    }

    /// Ends the process in an orderly way (SIGTERM): leadership moves first where it can.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn stop(&self) -> Result<(), ServiceError> {
        self.jvm.stop()
    }

    /// Freezes the process (SIGSTOP) before it returns: connections stay open and nothing answers.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pause(&self) -> Result<(), ServiceError> {
        self.jvm.pause()
    }

    /// Lets a frozen process go on (SIGCONT).
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> Result<(), ServiceError> {
        self.jvm.resume()
    }

    /// Starts the process again on the same ports with the same data, and waits until it serves. A running one goes
    /// on.
    ///
    /// # Errors
    /// When the broker does not come up within two minutes, which includes a cluster without a majority.
    pub fn restart(&self) -> Result<(), ServiceError> {
        self.jvm.start(|| accepts(self.ports.client.port()) && admin::knows(&self.direct_address(), self.id))
    }

    pub(crate) fn detach(&self) {
        self.jvm.detach();
    }
}

fn jvm(id: i32, port: u16, directory: &Path) -> Jvm {
    Jvm::new(Launch {
        name: format!("Kafka broker {id} on port {port}"),
        directory: directory.to_owned(),
        jvm_options: vec!["-Xmx400m".into()],
        main_class: "kafka.Kafka",
        arguments: vec![directory.join(CONFIG).display().to_string()],
    })
}

/// The port of a listener in a broker's configuration.
fn port_of(config: &str, listener: &str) -> Option<u16> {
    let listeners = config.lines().find_map(|line| line.strip_prefix("listeners="))?;
    let address = listeners.split(',').find_map(|one| one.strip_prefix(listener)?.strip_prefix("://"))?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// What a broker's storage is formatted with.
pub(super) struct Storage<'a> {
    pub(super) cluster_id: &'a str,
    pub(super) properties: &'a str,
}

fn format_storage(config: &Path, cluster_id: &str) -> Result<(), ServiceError> {
    let output = Command::new("java")
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
        .arg(install::java_class_path()?)
        .args(["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .output()
        .attempting("run java")?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(ServiceError::Request {
        name: "Kafka's storage tool".into(),
        problem: String::from_utf8_lossy(&text).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_back_from_the_configuration() {
        let config = "node.id=1\nlisteners=CLIENT://127.0.0.1:9092,DIRECT://127.0.0.1:18001,CONTROLLER://127.0.0.1:18002\n\
                      advertised.listeners=CLIENT://127.0.0.1:7\n";
        assert_eq!((port_of(config, "CLIENT"), port_of(config, "DIRECT")), (Some(9092), Some(18001)));
        assert_eq!((port_of(config, "OTHER"), port_of("listeners=CLIENT", "CLIENT")), (None, None));
    }
}
