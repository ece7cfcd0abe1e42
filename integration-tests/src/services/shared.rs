//! Servers that all tests of one test binary share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::error::ServiceError;
use super::kafka::KafkaCluster;
use super::zookeeper::ZooKeeperServer;

/// One `ZooKeeper` and the Kafka clusters `a` and `b`, one broker each, started on first use and ended with the
/// process.
///
/// For tests that leave the servers alone. They are told apart by names of their own: [`Shared::unique`].
#[derive(Debug)]
pub struct Shared {
    zookeeper: ZooKeeperServer,
    a: KafkaCluster,
    b: KafkaCluster,
}

impl Shared {
    /// The servers; the first call starts them, in parallel, and later ones return at once.
    ///
    /// # Panics
    /// When they do not start. Ask [`require_services`](super::require_services) first.
    pub fn get() -> &'static Self {
        static SHARED: OnceLock<Shared> = OnceLock::new();
        SHARED.get_or_init(|| {
            Self::start().unwrap_or_else(|error| panic!("the shared servers do not start: {error}"))
        })
    }

    /// A name that no other test of this process uses: `<prefix>-<number>`.
    pub fn unique(prefix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The registry's server.
    pub fn zookeeper(&self) -> &ZooKeeperServer {
        &self.zookeeper
    }

    /// The first cluster.
    pub fn a(&self) -> &KafkaCluster {
        &self.a
    }

    /// The second cluster.
    pub fn b(&self) -> &KafkaCluster {
        &self.b
    }

    fn start() -> Result<Self, ServiceError> {
        thread::scope(|scope| {
            let a = scope.spawn(|| KafkaCluster::start(1));
            let b = scope.spawn(|| KafkaCluster::start(1));
            let zookeeper = ZooKeeperServer::start()?;
            let join = |cluster: thread::ScopedJoinHandle<'_, _>| {
                cluster.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            Ok(Self { zookeeper, a: join(a)?, b: join(b)? })
        })
    }
}
