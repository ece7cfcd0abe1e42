//! Nodes of the three kinds, read and written by compare-and-set.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use zms_core::{
    meta::{ClusterMeta, Gate, GroupMeta, MetaError, TopicMeta},
    migration::MigrationRecord,
    name::{ClusterName, TopicName},
    path,
};

use super::{AdminError, Entry, LiveClient};
use crate::registry::port::{Op, RegistryError, SharedRegistry};

/// How often an edit is tried when others change the node in between.
pub(super) const ATTEMPTS: usize = 8;
/// Requests under way at a time in a listing.
const PIPELINED: usize = 64;
/// The record of a topic that was never moved: something to compare-and-set against.
const IDLE_RECORD: &str = r#"{"schema":1,"phase":"idle"}"#;

/// A kind of node.
pub(super) trait Kind: Clone + PartialEq {
    /// `cluster`, `topic` or `group`.
    const WHAT: &'static str;
    /// The parent of all nodes of the kind.
    const ROOT: &'static str;
    fn parse(path: &str, data: &[u8]) -> Result<Option<Self>, MetaError>;
    fn encode(&self) -> Bytes;

    fn path(name: &str) -> String {
        format!("{}/{name}", Self::ROOT)
    }
}

macro_rules! kind {
    ($meta:ty, $what:literal, $root:expr) => {
        impl Kind for $meta {
            const WHAT: &'static str = $what;
            const ROOT: &'static str = $root;
            fn parse(path: &str, data: &[u8]) -> Result<Option<Self>, MetaError> {
                <$meta>::parse(path, data)
            }
            fn encode(&self) -> Bytes {
                <$meta>::encode(self)
            }
        }
    };
}

kind!(ClusterMeta, "cluster", path::CLUSTERS);
kind!(TopicMeta, "topic", path::TOPICS);
kind!(GroupMeta, "group", path::GROUPS);

/// A node as it was read.
pub(super) struct Found<K> {
    pub(super) meta: K,
    pub(super) version: i32,
}

#[derive(Debug)]
pub(super) struct Store {
    registry: SharedRegistry,
}

impl Store {
    pub(super) fn new(registry: SharedRegistry) -> Self {
        Self { registry }
    }

    /// Reads a node; a node without data counts as missing.
    pub(super) async fn find<K: Kind>(&self, name: &str) -> Result<Found<K>, AdminError> {
        let path = K::path(name);
        let missing = || AdminError::Missing { what: K::WHAT, name: name.to_owned() };
        let node = self.registry.read(&path).await?.ok_or_else(missing)?;
        let meta = K::parse(&path, &node.data)?.ok_or_else(missing)?;
        Ok(Found { meta, version: node.version })
    }

    /// All nodes of a kind, by name.
    pub(super) async fn list<K: Kind>(&self) -> Result<Vec<Entry<K>>, AdminError> {
        let names = self.registry.children(K::ROOT).await?.unwrap_or_default();
        let entries = stream::iter(names).map(|name| async move {
            let path = K::path(&name);
            let node = self.registry.read(&path).await?;
            Ok::<_, RegistryError>(node.map(|node| Entry { meta: K::parse(&path, &node.data), name }))
        });
        let entries: Vec<Option<Entry<K>>> = entries.buffered(PIPELINED).try_collect().await?;
        Ok(entries.into_iter().flatten().collect())
    }

    /// Creates a node, or fills one that its creator left empty, together with `guards`; `false` if any of it was
    /// changed meanwhile.
    pub(super) async fn add<K: Kind>(&self, name: &str, meta: &K, guards: &[Op]) -> Result<bool, AdminError> {
        let path = K::path(name);
        let data = encode(&path, meta)?;
        let write = match self.registry.read(&path).await? {
            None => {
                self.make(K::ROOT).await?;
                Op::Create { path, data }
            }
            Some(node) if node.data.trim_ascii().is_empty() => Op::Set { path, data, version: node.version },
            Some(_) => return Err(AdminError::Exists { what: K::WHAT, name: name.to_owned() }),
        };
        settled(self.commit(guards, write).await)
    }

    /// Replaces a node as it was read, together with `guards`; `false` if any of it was changed meanwhile.
    pub(super) async fn replace<K: Kind>(
        &self,
        name: &str,
        found: &Found<K>,
        meta: &K,
        guards: &[Op],
    ) -> Result<bool, AdminError> {
        let path = K::path(name);
        let data = encode(&path, meta)?;
        if data == found.meta.encode() {
            return Ok(true);
        }
        settled(self.commit(guards, Op::Set { path, data, version: found.version }).await)
    }

    /// Removes a node as it stands, with what is registered below it, together with `guards`; `false` if any of it
    /// was changed meanwhile.
    pub(super) async fn remove<K: Kind>(&self, name: &str, guards: Vec<Op>) -> Result<bool, AdminError> {
        let path = K::path(name);
        let Some(node) = self.registry.read(&path).await? else {
            return Err(AdminError::Missing { what: K::WHAT, name: name.to_owned() });
        };
        let mut guards = guards;
        for child in self.registry.children(&path).await?.unwrap_or_default() {
            let path = format!("{path}/{child}");
            if let Some(node) = self.registry.read(&path).await? {
                guards.push(Op::Delete { path, version: node.version });
            }
        }
        settled(self.commit(&guards, Op::Delete { path, version: node.version }).await)
    }

    /// Names of what is registered below a node.
    pub(super) async fn registered<K: Kind>(&self, name: &str) -> Result<Vec<String>, AdminError> {
        Ok(self.registry.children(&K::path(name)).await?.unwrap_or_default())
    }

    /// What is registered below a node, with its data.
    pub(super) async fn clients<K: Kind>(&self, name: &str) -> Result<Vec<LiveClient>, AdminError> {
        let path = K::path(name);
        let missing = || AdminError::Missing { what: K::WHAT, name: name.to_owned() };
        let names = self.registry.children(&path).await?.ok_or_else(missing)?;
        let path = &path;
        let clients = stream::iter(names).map(|name| async move {
            let node = self.registry.read(&format!("{path}/{name}")).await?;
            Ok::<_, RegistryError>(node.map(|node| LiveClient::new(name, &node.data)))
        });
        let clients: Vec<Option<LiveClient>> = clients.buffered(PIPELINED).try_collect().await?;
        Ok(clients.into_iter().flatten().collect())
    }

    /// Checks that the clusters of an entry are still there when a write takes effect.
    pub(super) async fn clusters_stand(
        &self,
        cluster: &ClusterName,
        gate: Option<&Gate>,
    ) -> Result<Vec<Op>, AdminError> {
        let mut checks = Vec::new();
        let gated = gate.map(|gate| &gate.cluster).filter(|gated| *gated != cluster);
        for cluster in [Some(cluster), gated].into_iter().flatten() {
            let found = self.find::<ClusterMeta>(cluster.as_str()).await?;
            checks.push(Op::Check { path: ClusterMeta::path(cluster.as_str()), version: found.version });
        }
        Ok(checks)
    }

    /// The record of a topic's present or last move.
    pub(super) async fn record(&self, topic: &TopicName) -> Result<Option<MigrationRecord>, AdminError> {
        let path = path::migration(topic);
        let Some(node) = self.registry.read(&path).await? else { return Ok(None) };
        Ok(MigrationRecord::parse(&path, &node.data)?)
    }

    /// A check that no migration of the topic has begun when a write takes effect; for a topic that was never moved
    /// it creates the idle record, because the absence of a node cannot be checked together with a write.
    pub(super) async fn not_moving(&self, topic: &TopicName) -> Result<Op, AdminError> {
        let path = path::migration(topic);
        let Some(node) = self.registry.read(&path).await? else {
            self.make(path::MIGRATIONS).await?;
            return Ok(Op::Create { path, data: IDLE_RECORD.into() });
        };
        match MigrationRecord::parse(&path, &node.data)? {
            Some(record) if record.is_running() => Err(AdminError::Moving {
                topic: topic.to_string(),
                state: format!("move {}, phase {}", record.id, record.phase),
            }),
            _ => Ok(Op::Check { path, version: node.version }),
        }
    }

    async fn commit(&self, guards: &[Op], write: Op) -> Result<(), RegistryError> {
        let mut ops = guards.to_vec();
        ops.push(write);
        self.registry.commit(ops).await
    }

    async fn make(&self, path: &str) -> Result<(), AdminError> {
        match self.registry.create(path, Bytes::new()).await {
            Ok(()) | Err(RegistryError::Exists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn contended<K: Kind>(name: &str, attempts: usize) -> AdminError {
    AdminError::Contended { what: K::WHAT, name: name.to_owned(), attempts }
}

/// The data to write, which must read back as what is meant: what cannot be read must not be written.
fn encode<K: Kind>(path: &str, meta: &K) -> Result<Bytes, AdminError> {
    let data = meta.encode();
    K::parse(path, &data)?;
    Ok(data)
}

/// Whether a commit took effect, `false` if others were faster.
fn settled(result: Result<(), RegistryError>) -> Result<bool, AdminError> {
    match result {
        Ok(()) => Ok(true),
        Err(
            RegistryError::Conflict { .. }
            | RegistryError::Missing { .. }
            | RegistryError::Exists { .. }
            | RegistryError::NotEmpty { .. },
        ) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
