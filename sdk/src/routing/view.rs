//! One complete reading of a topic or group, in the order that a planned move rests on: the migration record first,
//! then the entry's node, then its cluster's. The same for the registry and for the snapshot.

use std::sync::Arc;

use zms_core::{
    meta::{ClusterMeta, GroupMeta, MetaError, TopicMeta},
    migration::MigrationRecord,
    name::{ClusterName, GroupName, TopicName},
    path,
    property::Dropped,
    resolve::{ClusterFault, Target, cluster_spec, group_target, topic_target},
    route::{ChangeId, ClusterSpec, GroupRoute, Source, TopicRoute, Traffic},
};

use super::{
    refusal::{Complaint, Refusal},
    route::Route,
    snapshot::Nodes,
    subject::Subject,
};
use crate::registry::port::{BoxFuture, Node, RegistryError};

/// Where nodes are read: the registry, with watches, or the snapshot.
pub(super) trait NodeSource: Sync {
    /// Reads a node; `None` when there is none.
    fn node<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>>;

    /// A cluster's node has properties that are not followed.
    fn dropped(&self, path: &str, changed: ChangeId, dropped: &[Dropped]);
}

/// What a reading came to.
#[derive(Debug)]
pub(super) enum Outcome {
    Route(Route),
    Refused(Complaint),
    /// A group's binding changed while it was read.
    Changing,
}

/// A reading: its outcome, and what it rests on.
#[derive(Debug)]
pub(super) struct View {
    pub(super) outcome: Outcome,
    /// All nodes read; `None` for one that does not exist.
    pub(super) nodes: Nodes,
    /// The migration record says that a move is running.
    pub(super) moving: bool,
}

/// Who reads, and from where.
#[derive(Clone, Copy)]
pub(super) struct Viewer<'a> {
    pub(super) source: &'a dyn NodeSource,
    /// Own addresses, for gray release.
    pub(super) addresses: &'a [String],
    /// What the route will say of where it was learnt.
    pub(super) origin: Source,
}

/// Reads `subject`. `bound` is the topic that a group was bound to when last read; a wrong guess costs reads, no more.
pub(super) async fn read(
    subject: &Subject,
    bound: Option<TopicName>,
    viewer: Viewer<'_>,
) -> Result<View, RegistryError> {
    let mut reading = Reading { viewer, nodes: Nodes::new(), moving: false };
    let read = match subject {
        Subject::Topic { topic, .. } | Subject::Reader { topic, .. } => {
            reading.topic(topic, &subject.path()).await
        }
        Subject::Group { group, .. } => reading.group(group, &subject.path(), bound).await,
    };
    let outcome = match read {
        Ok(Some(route)) => Outcome::Route(route),
        Ok(None) => Outcome::Changing,
        Err(Stop::Refused(complaint)) => Outcome::Refused(complaint),
        Err(Stop::Failed(error)) => return Err(error),
    };
    Ok(View { outcome, nodes: reading.nodes, moving: reading.moving })
}

struct Reading<'a> {
    viewer: Viewer<'a>,
    nodes: Nodes,
    moving: bool,
}

/// Why a reading ends early.
enum Stop {
    Refused(Complaint),
    Failed(RegistryError),
}

impl From<RegistryError> for Stop {
    fn from(error: RegistryError) -> Self {
        Self::Failed(error)
    }
}

impl Reading<'_> {
    async fn topic(&mut self, topic: &TopicName, path: &str) -> Result<Option<Route>, Stop> {
        let record = self.record(topic).await?;
        let meta = self.parsed(path, TopicMeta::parse).await?.ok_or_else(missing)?;
        let Target { cluster, traffic } = topic_target(record.as_ref(), &meta, self.viewer.addresses);
        let cluster = self.cluster(cluster).await?;
        Ok(Some(Route::Topic(Arc::new(TopicRoute {
            topic: topic.clone(),
            cluster,
            traffic,
            producer: meta.producer,
            changed: self.latest_change(),
            source: self.viewer.origin,
        }))))
    }

    /// The record belongs to the topic, and which that is the group's node says: read it to learn that, then again in
    /// its place behind the record.
    async fn group(
        &mut self,
        group: &GroupName,
        path: &str,
        bound: Option<TopicName>,
    ) -> Result<Option<Route>, Stop> {
        let bound = match bound {
            Some(topic) => topic,
            None => self.parsed(path, GroupMeta::parse).await?.ok_or_else(missing)?.topic,
        };
        let mut record = self.record(&bound).await?;
        let mut meta = self.parsed(path, GroupMeta::parse).await?.ok_or_else(missing)?;
        if meta.topic != bound {
            self.nodes.clear();
            let now_bound = meta.topic;
            record = self.record(&now_bound).await?;
            meta = self.parsed(path, GroupMeta::parse).await?.ok_or_else(missing)?;
            if meta.topic != now_bound {
                return Ok(None);
            }
        }
        let Target { cluster, traffic } = group_target(record.as_ref(), &meta, self.viewer.addresses);
        let cluster = self.cluster(cluster).await?;
        Ok(Some(Route::Group(Arc::new(GroupRoute {
            group: group.clone(),
            topic: meta.topic,
            cluster,
            consume_from: meta.consume_from,
            broadcast: meta.broadcast,
            suspended: meta.suspend || traffic != Traffic::Open,
            consumer: meta.consumer,
            changed: self.latest_change(),
            source: self.viewer.origin,
        }))))
    }

    async fn record(&mut self, topic: &TopicName) -> Result<Option<MigrationRecord>, Stop> {
        let record = self.parsed(&path::migration(topic), MigrationRecord::parse).await?;
        self.moving = record.as_ref().is_some_and(MigrationRecord::is_running);
        Ok(record)
    }

    async fn cluster(&mut self, cluster: ClusterName) -> Result<Arc<ClusterSpec>, Stop> {
        let path = path::cluster(&cluster);
        let Some(meta) = self.parsed(&path, ClusterMeta::parse).await? else {
            let refusal = Refusal::UnknownCluster { cluster: cluster.to_string() };
            return Err(Stop::Refused(Complaint { refusal, changed: None }));
        };
        let changed = self.changed(&path).unwrap_or_default();
        let described =
            cluster_spec(&cluster, &meta, changed).map_err(|fault| cluster_fault(&path, changed, fault))?;
        if !described.dropped.is_empty() {
            self.viewer.source.dropped(&path, changed, &described.dropped);
        }
        Ok(Arc::new(described.spec))
    }

    /// `None` for a node that is missing or has no data yet.
    async fn parsed<T>(
        &mut self,
        path: &str,
        parse: impl FnOnce(&str, &[u8]) -> Result<Option<T>, MetaError>,
    ) -> Result<Option<T>, Stop> {
        let node = self.viewer.source.node(path).await?;
        let parsed = node.as_ref().map_or(Ok(None), |node| parse(path, &node.data));
        let changed = node.as_ref().map(|node| node.changed);
        self.nodes.insert(path.to_owned(), node);
        parsed.map_err(|error| {
            let refusal = Refusal::Unreadable { path: path.to_owned(), reason: error.to_string() };
            Stop::Refused(Complaint { refusal, changed })
        })
    }

    fn changed(&self, path: &str) -> Option<ChangeId> {
        Some(self.nodes.get(path)?.as_ref()?.changed)
    }

    fn latest_change(&self) -> ChangeId {
        self.nodes.values().flatten().map(|node| node.changed).max().unwrap_or_default()
    }
}

fn missing() -> Stop {
    Stop::Refused(Complaint { refusal: Refusal::Missing, changed: None })
}

fn cluster_fault(path: &str, changed: ChangeId, fault: ClusterFault) -> Stop {
    let refusal = match fault {
        ClusterFault::UnsupportedBroker { cluster, kind } => {
            Refusal::Unsupported { cluster: cluster.to_string(), kind: kind.to_string() }
        }
        fault => Refusal::Unreadable { path: path.to_owned(), reason: fault.to_string() },
    };
    Stop::Refused(Complaint { refusal, changed: Some(changed) })
}
