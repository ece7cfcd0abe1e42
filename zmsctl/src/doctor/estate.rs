//! Everything that the registry says, read once.

use std::collections::{BTreeMap, BTreeSet};

use zms_core::{migration::MigrationRecord, path};
use zms_sdk::{
    ClusterName, TopicName,
    admin::{Admin, AdminError, ClusterMeta, Entry, GroupMeta, MetaError, TopicMeta},
    registry::port::RegistryError,
};

use super::{DoctorArgs, finding::Finding};
use crate::failure::Failure;

/// A kind of entries, by name. Without data while a node is empty.
pub(super) type Entries<M> = BTreeMap<String, Result<Option<M>, MetaError>>;

/// What the registry says.
#[derive(Debug, Default)]
pub(super) struct Estate {
    pub(super) clusters: Entries<ClusterMeta>,
    pub(super) topics: Entries<TopicMeta>,
    pub(super) groups: Entries<GroupMeta>,
    /// Moves that are under way.
    pub(super) moves: BTreeMap<String, MigrationRecord>,
    pub(super) scope: Scope,
}

/// What is looked at; everything unless something was asked for.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) clusters: BTreeSet<String>,
    pub(super) topics: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
}

impl Estate {
    /// Reads what can be read; what cannot is a finding. Only a registry that does not answer is a failure.
    pub(super) async fn read(admin: &Admin, args: &DoctorArgs) -> Result<(Self, Vec<Finding>), Failure> {
        let mut findings = Vec::new();
        let mut estate = Self {
            clusters: listed(path::CLUSTERS, admin.clusters().await, &mut findings)?,
            topics: listed(path::TOPICS, admin.topics().await, &mut findings)?,
            groups: listed(path::GROUPS, admin.groups().await, &mut findings)?,
            ..Self::default()
        };
        estate.scope = estate.narrow(args)?;
        estate.read_moves(admin, &mut findings).await?;
        Ok((estate, findings))
    }

    /// A cluster's entry, where it can be read.
    pub(super) fn cluster(&self, name: &str) -> Option<&ClusterMeta> {
        self.clusters.get(name)?.as_ref().ok()?.as_ref()
    }

    /// A topic's entry, where it can be read.
    pub(super) fn topic(&self, name: &str) -> Option<&TopicMeta> {
        self.topics.get(name)?.as_ref().ok()?.as_ref()
    }

    /// A group's entry, where it can be read.
    pub(super) fn group(&self, name: &str) -> Option<&GroupMeta> {
        self.groups.get(name)?.as_ref().ok()?.as_ref()
    }

    fn narrow(&self, args: &DoctorArgs) -> Result<Scope, Failure> {
        let (cluster, topic) =
            (args.cluster.as_ref().map(ClusterName::as_str), args.topic.as_ref().map(TopicName::as_str));
        for (what, name, is_known) in [
            ("cluster", cluster, cluster.is_none_or(|name| self.clusters.contains_key(name))),
            ("topic", topic, topic.is_none_or(|name| self.topics.contains_key(name))),
        ] {
            if !is_known {
                let name = name.unwrap_or_default();
                let reason =
                    format!("{what} {name} is not in the registry; `zmsctl {what} list` shows what is");
                return Err(Failure::Missing(reason));
            }
        }
        let on =
            |name: &str| self.topic(name).zip(cluster).is_some_and(|(meta, cluster)| uses(meta, cluster));
        let is_topic =
            |name: &str| topic.is_none_or(|topic| topic == name) && (cluster.is_none() || on(name));
        let topics: BTreeSet<String> = self.topics.keys().filter(|name| is_topic(name)).cloned().collect();

        let is_all = cluster.is_none() && topic.is_none();
        let is_group = |name: &str| {
            let Some(meta) = self.group(name) else { return is_all };
            let is_bound = topics.contains(meta.topic.as_str());
            is_all || is_bound || (topic.is_none() && cluster == Some(meta.cluster.as_str()))
        };
        let groups: BTreeSet<String> = self.groups.keys().filter(|name| is_group(name)).cloned().collect();

        let used = |name: &str| {
            topics.iter().filter_map(|topic| self.topic(topic)).any(|meta| uses(meta, name))
                || groups
                    .iter()
                    .filter_map(|group| self.group(group))
                    .any(|meta| meta.cluster.as_str() == name)
        };
        let is_cluster = |name: &str| match cluster {
            Some(cluster) => cluster == name,
            None => topic.is_none() || used(name),
        };
        let clusters = self.clusters.keys().filter(|name| is_cluster(name)).cloned().collect();
        Ok(Scope { clusters, topics, groups })
    }

    async fn read_moves(&mut self, admin: &Admin, findings: &mut Vec<Finding>) -> Result<(), Failure> {
        for name in self.scope.topics.clone() {
            let Ok(topic) = TopicName::new(&name) else { continue };
            let record = admin.migration(&topic).await;
            if let Some(record) = answered(&path::migration(&topic), record, findings)?.flatten()
                && record.is_running()
            {
                self.moves.insert(name, record);
            }
        }
        Ok(())
    }
}

/// Whether clients of a topic use a cluster: all of them, or those that its gate names.
pub(super) fn uses(topic: &TopicMeta, cluster: &str) -> bool {
    let gate = topic.gate.as_ref().map(|gate| gate.cluster.as_str());
    topic.cluster.as_str() == cluster || gate == Some(cluster)
}

fn listed<M>(
    path: &str,
    entries: Result<Vec<Entry<M>>, AdminError>,
    findings: &mut Vec<Finding>,
) -> Result<Entries<M>, Failure> {
    let entries = answered(path, entries, findings)?.unwrap_or_default();
    Ok(entries.into_iter().map(|entry| (entry.name, entry.meta)).collect())
}

/// An answer; a refusal becomes a finding.
fn answered<T>(
    path: &str,
    answer: Result<T, AdminError>,
    findings: &mut Vec<Finding>,
) -> Result<Option<T>, Failure> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        // Removed meanwhile.
        Err(AdminError::Missing { .. }) => Ok(None),
        Err(error @ AdminError::Registry(RegistryError::Unavailable { .. } | RegistryError::Closed)) => {
            Err(error.into())
        }
        Err(AdminError::Unreadable(error)) => {
            findings.push(
                Finding::error("registry", error.to_string())
                    .means("clients hold the topic's sends until the record can be read")
                    .todo("mend the node by hand; ask whoever wrote it"),
            );
            Ok(None)
        }
        Err(error) => {
            findings.push(
                Finding::error("registry", format!("{path} cannot be read: {error}"))
                    .means("what stands there could not be checked, and clients with this identity cannot read it either")
                    .todo("give the right identity with --zk-auth, or let the node's ACL allow reading"),
            );
            Ok(None)
        }
    }
}
