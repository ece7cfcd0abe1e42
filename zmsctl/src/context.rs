//! What commands reach: the registry, and through it the clusters. The one place where handles are opened.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::OnceCell;
use zms_core::{resolve::cluster_spec, route::ChangeId};
use zms_sdk::{
    ClusterName, Zms, ZmsBuilder,
    admin::{Admin, AdminError, ClusterMeta},
    engine::port::{ClusterAdmin, Engine},
    kafka::KafkaEngine,
    registry::{ZooKeeper, ZooKeeperOptions, port::SharedRegistry},
};

use crate::{command::RegistryArgs, failure::Failure, view::Output};

/// What `zmsctl clients` and the brokers' logs show of a command.
const INSTANCE: &str = "zmsctl";

/// The global options, and the connection that they lead to: opened when first needed.
pub(crate) struct Context {
    source: Source,
    wait: Duration,
    output: Output,
    registry: OnceCell<SharedRegistry>,
}

/// Where the registry is.
enum Source {
    ZooKeeper(RegistryArgs),
    #[cfg(test)]
    Memory(zms_sdk::registry::MemoryRegistry),
}

impl Context {
    pub(crate) fn new(registry: RegistryArgs, output: Output) -> Self {
        let wait = registry.wait;
        Self { source: Source::ZooKeeper(registry), wait, output, registry: OnceCell::new() }
    }

    #[cfg(test)]
    pub(crate) fn memory(registry: &zms_sdk::registry::MemoryRegistry, output: Output) -> Self {
        let source = Source::Memory(registry.clone());
        Self { source, wait: Duration::from_secs(5), output, registry: OnceCell::new() }
    }

    /// How long one answer is waited for.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// For commands that print as they go.
    pub(crate) fn output(&self) -> Output {
        self.output
    }

    /// The registry's editor.
    pub(crate) async fn admin(&self) -> Result<Admin, Failure> {
        let registry = self.registry.get_or_try_init(|| self.connect()).await?;
        Ok(Admin::new(Arc::clone(registry)))
    }

    /// A handle as a service has it, with a session of its own. No snapshot: an operator wants to see the registry as
    /// it is. Whoever opens it closes it.
    pub(crate) async fn zms(&self) -> Result<Zms, Failure> {
        let builder = self.builder()?.instance(INSTANCE).without_snapshot().resolve_timeout(self.wait);
        Ok(builder.connect().await?)
    }

    /// Ends the registry's session.
    pub(crate) async fn close(&self) {
        if let Some(registry) = self.registry.get() {
            // A registry that does not answer must not hold the end; its session ends by itself.
            let _late = tokio::time::timeout(self.wait, registry.close()).await;
        }
    }

    async fn connect(&self) -> Result<SharedRegistry, Failure> {
        match &self.source {
            Source::ZooKeeper(args) => {
                let registry = ZooKeeper::connect(options(args)?).await.map_err(AdminError::from)?;
                Ok(Arc::new(registry))
            }
            #[cfg(test)]
            Source::Memory(registry) => Ok(registry.shared()),
        }
    }

    fn builder(&self) -> Result<ZmsBuilder, Failure> {
        match &self.source {
            Source::ZooKeeper(args) => Ok(Zms::builder().zookeeper_with(options(args)?)),
            #[cfg(test)]
            Source::Memory(registry) => Ok(Zms::builder().registry(registry.connect().shared())),
        }
    }
}

fn options(args: &RegistryArgs) -> Result<ZooKeeperOptions, Failure> {
    let Some(zk) = &args.zk else {
        let reason = "no registry given; use --zk <host:port,…[/chroot]> or set ZMS_ZK".to_owned();
        return Err(Failure::Usage(reason));
    };
    let options = ZooKeeperOptions::new(zk).connect_timeout(args.wait).request_timeout(args.wait);
    let Some(Credential(auth)) = &args.zk_auth else { return Ok(options) };
    match auth.split_once(':') {
        Some((user, password)) if !user.is_empty() => Ok(options.digest(user, password)),
        _ => Err(Failure::Usage("--zk-auth (or ZMS_ZK_AUTH) is not of the form user:password".to_owned())),
    }
}

/// User and password; never shown.
#[derive(Clone)]
pub(crate) struct Credential(String);

impl From<String> for Credential {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")
    }
}

/// A cluster to ask, as its entry describes it.
pub(crate) fn open_cluster(name: &ClusterName, meta: &ClusterMeta) -> Result<Arc<dyn ClusterAdmin>, Failure> {
    let described = cluster_spec(name, meta, ChangeId::default());
    let described = described.map_err(|fault| Failure::Refused(fault.to_string()))?;
    KafkaEngine::new().open_admin(&described.spec).map_err(|error| Failure::Refused(error.to_string()))
}

/// Asks a cluster, which blocks, away from the tasks.
pub(crate) async fn ask<T: Send + 'static>(
    question: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let answer = tokio::task::spawn_blocking(question).await;
    answer.unwrap_or_else(|error| Err(Failure::Other(format!("a question to a cluster broke off: {error}"))))
}
