//! A real, standalone `ZooKeeper` server.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::error::{Attempting, ServiceError};
use super::install;
use super::port::{PortLease, loopback};
use super::process::{Jvm, Launch};

const CONFIG: &str = "zoo.cfg";

/// A `ZooKeeper` server on a loopback port. Clones share it; the last one to be dropped kills it.
///
/// Ticks are 200 ms, so that sessions may be as short as 400 ms.
#[derive(Clone, Debug)]
pub struct ZooKeeperServer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    jvm: Jvm,
    port: PortLease,
}

impl ZooKeeperServer {
    /// Starts a server with an empty tree and waits until it serves.
    ///
    /// # Errors
    /// When Java or Maven is missing, or the server does not come up within two minutes: the error shows its log.
    pub fn start() -> Result<Self, ServiceError> {
        Self::launch(install::run_directory("zookeeper")?, PortLease::any()?)
    }

    pub(crate) fn launch(directory: PathBuf, port: PortLease) -> Result<Self, ServiceError> {
        fs::write(directory.join(CONFIG), configuration(&directory, port.port()))
            .attempting("write zoo.cfg")?;
        let jvm = jvm(directory, port.port());
        let server = Self { inner: Arc::new(Inner { jvm, port }) };
        server.restart()?;
        Ok(server)
    }

    /// Starts a server that ran in `directory` before and has ended, with its data, to outlive this process. Its process
    /// id.
    pub(crate) fn revive(directory: &Path, port: u16) -> Result<u32, ServiceError> {
        jvm(directory.to_owned(), port).revive(port, || serves(port))
    }

    /// `127.0.0.1:<port>`, for a client.
    pub fn connect_string(&self) -> String {
        self.inner.port.address().to_string()
    }

    /// The port it listens on, the same after each restart.
    pub fn port(&self) -> u16 {
        self.inner.port.port()
    }

    /// The process id, or `None` after [`kill`](Self::kill) or [`stop`](Self::stop).
    pub fn pid(&self) -> Option<u32> {
        self.inner.jvm.pid()
    }

    /// Ends the process at once (SIGKILL). What it had acknowledged is on disk.
    pub fn kill(&self) {
        self.inner.jvm.kill();
    }

    /// Ends the process in an orderly way (SIGTERM).
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn stop(&self) -> Result<(), ServiceError> {
        self.inner.jvm.stop()
    }

    /// Freezes the process (SIGSTOP) before it returns: connections stay open and nothing answers.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pause(&self) -> Result<(), ServiceError> {
        self.inner.jvm.pause()
    }

    /// Lets a frozen process go on (SIGCONT).
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> Result<(), ServiceError> {
        self.inner.jvm.resume()
    }

    /// Starts the process again on the same port with the same data, and waits until it serves. A running one goes on.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn restart(&self) -> Result<(), ServiceError> {
        let port = self.port();
        self.inner.jvm.start(|| serves(port))
    }

    pub(crate) fn detach(&self) {
        self.inner.jvm.detach();
    }
}

fn jvm(directory: PathBuf, port: u16) -> Jvm {
    let config = directory.join(CONFIG);
    Jvm::new(Launch {
        name: format!("ZooKeeper on port {port}"),
        directory,
        jvm_options: vec!["-Xmx256m".into(), "-Dzookeeper.jmx.log4j.disable=true".into()],
        main_class: "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        arguments: vec![config.display().to_string()],
    })
}

fn configuration(directory: &Path, port: u16) -> String {
    let mut text = format!("dataDir={}\nclientPort={port}\n", directory.join("data").display());
    for (name, value) in [
        ("clientPortAddress", "127.0.0.1"),
        ("tickTime", "200"),
        ("minSessionTimeout", "400"),
        ("maxSessionTimeout", "60000"),
        ("maxClientCnxns", "0"),
        ("admin.enableServer", "false"),
        ("4lw.commands.whitelist", "*"),
        ("forceSync", "no"),
    ] {
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

/// Whether the server answers requests, by its own word.
fn serves(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&loopback(port), Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"srvr")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("Mode:"))
}
