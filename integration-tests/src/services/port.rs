//! Loopback ports that stay ours while their server is down.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rustix::fs::FlockOperation;

use super::error::ServiceError;

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up).
///
/// A server that is killed and restarted must find its port free. From the usual range a client that keeps trying to
/// connect could be given exactly that port as its own, and even connect to itself.
const FIRST: u16 = 18_000;
const COUNT: u16 = 14_000;

/// A port that no other lease on this machine has, until dropped.
#[derive(Debug)]
pub(crate) struct PortLease {
    port: u16,
    _lock: Option<File>,
}

impl PortLease {
    /// Takes any free port.
    pub(crate) fn any() -> Result<Self, ServiceError> {
        let start =
            u16::try_from(RandomState::new().hash_one(std::process::id()) % u64::from(COUNT)).unwrap_or(0);
        let candidates = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
        candidates.into_iter().find_map(Self::try_take).ok_or_else(|| ServiceError::Request {
            name: "loopback".into(),
            problem: format!("no free port in {FIRST}..{}", FIRST + COUNT),
        })
    }

    /// Takes `port` if it is free, else any.
    pub(crate) fn preferring(port: u16) -> Result<Self, ServiceError> {
        Self::try_take(port).map_or_else(Self::any, Ok)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> SocketAddr {
        loopback(self.port)
    }

    fn try_take(port: u16) -> Option<Self> {
        let lock = lock_file(port).ok();
        if let Some(file) = &lock {
            rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).ok()?;
        }
        TcpListener::bind(loopback(port)).ok()?;
        Some(Self { port, _lock: lock })
    }
}

pub(crate) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Lock files live where all checkouts on this machine see them. Where that is not possible, the bind alone decides.
fn lock_file(port: u16) -> std::io::Result<File> {
    let directory = std::env::temp_dir().join("zms-test-ports");
    std::fs::create_dir_all(&directory)?;
    File::options().create(true).append(true).open(directory.join(port.to_string()))
}
