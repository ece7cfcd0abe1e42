//! Topics: `/zms/topic/<topic>`.

use std::collections::BTreeMap;

use zms_core::{
    meta::{ClusterMeta, Format, GroupMeta, TopicMeta},
    migration::MigrationRecord,
    name::{ClusterName, TopicName},
    property::{self, Scope},
};

use super::{
    Admin, AdminError, Entry, LiveClient, Safety,
    cluster::{check_gate, refuse_used},
    store::{ATTEMPTS, Kind, contended},
};
use crate::{
    producer::{ProducerConfigError, check_overrides},
    registry::port::Op,
};

impl Admin {
    /// Adds a topic on a cluster, as `fill` completes it. The topic on the Kafka cluster is not created.
    ///
    /// # Errors
    /// [`AdminError::Exists`]; [`AdminError::Missing`] without the cluster; [`AdminError::Invalid`], also for producer
    /// settings with which no producer could be opened on the cluster.
    pub async fn add_topic(
        &self,
        name: &TopicName,
        format: Format,
        cluster: &ClusterName,
        fill: impl FnOnce(&mut TopicMeta),
    ) -> Result<TopicMeta, AdminError> {
        let empty = TopicMeta::new(&TopicMeta::path(name.as_str()), format, cluster.clone());
        let mut meta = empty.clone();
        fill(&mut meta);
        check(&empty, &meta)?;
        for _ in 0..ATTEMPTS {
            let guards = self.clusters_stand(&meta).await?;
            self.refuse_unfit(None, &meta).await?;
            if self.store.add(name.as_str(), &meta, &guards).await? {
                return Ok(meta);
            }
        }
        Err(contended::<TopicMeta>(name.as_str(), ATTEMPTS))
    }

    /// A topic.
    ///
    /// # Errors
    /// [`AdminError::Missing`], [`AdminError::Unreadable`].
    pub async fn topic(&self, name: &TopicName) -> Result<TopicMeta, AdminError> {
        Ok(self.store.find::<TopicMeta>(name.as_str()).await?.meta)
    }

    /// All topics, by name.
    ///
    /// # Errors
    /// [`AdminError::Registry`].
    pub async fn topics(&self) -> Result<Vec<Entry<TopicMeta>>, AdminError> {
        self.store.list().await
    }

    /// Changes a topic. `change` is called again if somebody else wrote meanwhile. Another cluster takes effect at
    /// once and moves no message: it is refused while the topic is in use.
    ///
    /// # Errors
    /// [`AdminError::Missing`] without the topic or its new cluster; [`AdminError::Moving`] if it would change the
    /// cluster or the gate during a move; [`AdminError::InUse`] if it would change the cluster of a topic with groups
    /// or producers, unless forced; [`AdminError::Invalid`], also for producer settings with which no producer could be
    /// opened on the cluster.
    pub async fn set_topic(
        &self,
        name: &TopicName,
        safety: Safety,
        mut change: impl FnMut(&mut TopicMeta),
    ) -> Result<TopicMeta, AdminError> {
        for _ in 0..ATTEMPTS {
            let found = self.store.find::<TopicMeta>(name.as_str()).await?;
            let mut meta = found.meta.clone();
            change(&mut meta);
            check(&found.meta, &meta)?;
            if safety == Safety::Checked && meta.cluster != found.meta.cluster {
                self.refuse_if_topic_used(name).await?;
            }
            let guards = self.route_guards(name, &found.meta, &meta).await?;
            self.refuse_unfit(Some(&found.meta), &meta).await?;
            if self.store.replace(name.as_str(), &found, &meta, &guards).await? {
                return Ok(meta);
            }
        }
        Err(contended::<TopicMeta>(name.as_str(), ATTEMPTS))
    }

    /// Removes a topic from the registry. The topic on the Kafka cluster stays, and so does the record of its moves.
    ///
    /// # Errors
    /// [`AdminError::Missing`]; [`AdminError::Moving`]; [`AdminError::InUse`] with its groups and producers, unless
    /// forced.
    pub async fn remove_topic(&self, name: &TopicName, safety: Safety) -> Result<(), AdminError> {
        for _ in 0..ATTEMPTS {
            if safety == Safety::Checked {
                self.refuse_if_topic_used(name).await?;
            }
            let guards = vec![self.store.not_moving(name).await?];
            if self.store.remove::<TopicMeta>(name.as_str(), guards).await? {
                return Ok(());
            }
        }
        Err(contended::<TopicMeta>(name.as_str(), ATTEMPTS))
    }

    /// The producers of a topic that are connected now.
    ///
    /// # Errors
    /// [`AdminError::Missing`].
    pub async fn producers(&self, name: &TopicName) -> Result<Vec<LiveClient>, AdminError> {
        self.store.clients::<TopicMeta>(name.as_str()).await
    }

    /// The record of a topic's present or last move; `None` if it was never moved.
    ///
    /// # Errors
    /// [`AdminError::Unreadable`].
    pub async fn migration(&self, name: &TopicName) -> Result<Option<MigrationRecord>, AdminError> {
        self.store.record(name).await
    }

    /// What must hold when a change of route takes effect; nothing if the route stays.
    async fn route_guards(
        &self,
        name: &TopicName,
        before: &TopicMeta,
        after: &TopicMeta,
    ) -> Result<Vec<Op>, AdminError> {
        if (&before.cluster, &before.gate) == (&after.cluster, &after.gate) {
            return Ok(Vec::new());
        }
        let mut guards = self.clusters_stand(after).await?;
        guards.push(self.store.not_moving(name).await?);
        Ok(guards)
    }

    async fn clusters_stand(&self, topic: &TopicMeta) -> Result<Vec<Op>, AdminError> {
        self.store.clusters_stand(&topic.cluster, topic.gate.as_ref()).await
    }

    /// Refuses settings with which no producer could be opened, unless they could not work in the same way before: that
    /// must not stand in the way of mending something else.
    async fn refuse_unfit(&self, before: Option<&TopicMeta>, after: &TopicMeta) -> Result<(), AdminError> {
        let now = self.unfit(after).await?;
        let known = match before {
            Some(before) if now.is_some() => self.unfit(before).await?,
            _ => None,
        };
        match now.filter(|now| known.as_ref() != Some(now)) {
            None => Ok(()),
            Some(error) => Err(AdminError::Invalid {
                field: "producer".to_owned(),
                reason: format!("no producer could be opened: {error}"),
            }),
        }
    }

    /// Why a topic's settings cannot work on its cluster, or on that of its gate.
    async fn unfit(&self, topic: &TopicMeta) -> Result<Option<ProducerConfigError>, AdminError> {
        let gated = topic.gate.as_ref().map(|gate| &gate.cluster);
        for cluster in [Some(&topic.cluster), gated].into_iter().flatten() {
            let properties = match self.store.find::<ClusterMeta>(cluster.as_str()).await {
                Ok(found) => found.meta.properties,
                // Whether it must be there is judged elsewhere.
                Err(AdminError::Missing { .. } | AdminError::Unreadable(_)) => BTreeMap::new(),
                Err(error) => return Err(error),
            };
            if let Err(error) = check_overrides(&topic.producer, &properties) {
                return Ok(Some(error));
            }
        }
        Ok(None)
    }

    async fn refuse_if_topic_used(&self, name: &TopicName) -> Result<(), AdminError> {
        let groups = self.store.list::<GroupMeta>().await?;
        let bound = groups.iter().filter(|entry| match &entry.meta {
            Ok(None) => false,
            Ok(Some(group)) => &group.topic == name,
            Err(_) => true,
        });
        let producers = self.store.registered::<TopicMeta>(name.as_str()).await?;
        let bound = bound.map(|entry| format!("group {}", entry.name));
        let users = bound.chain(producers.into_iter().map(|node| format!("producer {node}")));
        refuse_used::<TopicMeta>(name.as_str(), users)
    }
}

fn check(before: &TopicMeta, after: &TopicMeta) -> Result<(), AdminError> {
    check_gate(after.gate.as_ref())?;
    for (name, _) in after.producer.iter().filter(|(name, value)| before.producer.get(*name) != Some(value)) {
        property::check(Scope::Producer, name)?;
    }
    Ok(())
}
