//! Consumer groups: `/zms/consumergroup/<group>`.

use zms_core::{
    meta::{Format, GroupMeta, TopicMeta},
    name::{GroupName, TopicName},
    property::{self, Scope},
};

use super::{
    Admin, AdminError, Entry, LiveClient, Safety,
    cluster::{check_gate, refuse_used},
    store::{ATTEMPTS, Kind, contended},
};
use crate::{consumer::check_overrides, registry::port::Op};

impl Admin {
    /// Adds a group bound to a topic, on the topic's cluster, as `fill` completes it. `fill` is called
    /// again if somebody else wrote meanwhile.
    ///
    /// # Errors
    /// [`AdminError::Exists`]; [`AdminError::Missing`] without the topic; [`AdminError::Moving`]; [`AdminError::Invalid`];
    /// [`AdminError::Misplaced`] if `fill` put it on another cluster.
    pub async fn add_group(
        &self,
        name: &GroupName,
        format: Format,
        topic: &TopicName,
        mut fill: impl FnMut(&mut GroupMeta),
    ) -> Result<GroupMeta, AdminError> {
        for _ in 0..ATTEMPTS {
            let cluster = self.store.find::<TopicMeta>(topic.as_str()).await?.meta.cluster;
            let empty = GroupMeta::new(&GroupMeta::path(name.as_str()), format, topic.clone(), cluster);
            let mut meta = empty.clone();
            fill(&mut meta);
            check(&empty, &meta)?;
            let guards = self.placement_guards(name, &meta, Safety::Checked).await?;
            if self.store.add(name.as_str(), &meta, &guards).await? {
                return Ok(meta);
            }
        }
        Err(contended::<GroupMeta>(name.as_str(), ATTEMPTS))
    }

    /// A group.
    ///
    /// # Errors
    /// [`AdminError::Missing`], [`AdminError::Unreadable`].
    pub async fn group(&self, name: &GroupName) -> Result<GroupMeta, AdminError> {
        Ok(self.store.find::<GroupMeta>(name.as_str()).await?.meta)
    }

    /// All groups, by name.
    ///
    /// # Errors
    /// [`AdminError::Registry`].
    pub async fn groups(&self) -> Result<Vec<Entry<GroupMeta>>, AdminError> {
        self.store.list().await
    }

    /// Changes a group. `change` is called again if somebody else wrote meanwhile. Running members follow: after a
    /// change by hand of the topic's cluster, this is how its groups are sent after it.
    ///
    /// # Errors
    /// [`AdminError::Missing`] without the group, its topic or its cluster; [`AdminError::Moving`] if it would change
    /// topic, cluster or gate during a move of the topic; [`AdminError::InUse`] if it would change the topic while
    /// members are connected, and [`AdminError::Misplaced`] if the cluster is not the topic's, unless forced;
    /// [`AdminError::Invalid`].
    pub async fn set_group(
        &self,
        name: &GroupName,
        safety: Safety,
        mut change: impl FnMut(&mut GroupMeta),
    ) -> Result<GroupMeta, AdminError> {
        for _ in 0..ATTEMPTS {
            let found = self.store.find::<GroupMeta>(name.as_str()).await?;
            let mut meta = found.meta.clone();
            change(&mut meta);
            check(&found.meta, &meta)?;
            let guards = self.change_guards(name, &found.meta, &meta, safety).await?;
            if self.store.replace(name.as_str(), &found, &meta, &guards).await? {
                return Ok(meta);
            }
        }
        Err(contended::<GroupMeta>(name.as_str(), ATTEMPTS))
    }

    /// Removes a group from the registry. Its positions on the Kafka cluster stay.
    ///
    /// # Errors
    /// [`AdminError::Missing`]; [`AdminError::Moving`]; [`AdminError::InUse`] with its members, unless forced.
    pub async fn remove_group(&self, name: &GroupName, safety: Safety) -> Result<(), AdminError> {
        for _ in 0..ATTEMPTS {
            if safety == Safety::Checked {
                self.refuse_if_group_used(name).await?;
            }
            let guards = match self.store.find::<GroupMeta>(name.as_str()).await {
                Ok(found) => vec![self.store.not_moving(&found.meta.topic).await?],
                // Nobody can tell its topic; force is the way to get rid of it.
                Err(AdminError::Unreadable(_)) if safety == Safety::Forced => Vec::new(),
                Err(error) => return Err(error),
            };
            if self.store.remove::<GroupMeta>(name.as_str(), guards).await? {
                return Ok(());
            }
        }
        Err(contended::<GroupMeta>(name.as_str(), ATTEMPTS))
    }

    /// The members of a group that are connected now.
    ///
    /// # Errors
    /// [`AdminError::Missing`].
    pub async fn members(&self, name: &GroupName) -> Result<Vec<LiveClient>, AdminError> {
        self.store.clients::<GroupMeta>(name.as_str()).await
    }

    /// What must hold when a change takes effect; nothing if topic, cluster and gate stay.
    async fn change_guards(
        &self,
        name: &GroupName,
        before: &GroupMeta,
        after: &GroupMeta,
        safety: Safety,
    ) -> Result<Vec<Op>, AdminError> {
        let rebound = before.topic != after.topic;
        if !rebound && before.cluster == after.cluster && before.gate == after.gate {
            return Ok(Vec::new());
        }
        // Members follow their topic to another cluster; what they handle for another topic is not theirs to know.
        if safety == Safety::Checked && rebound {
            self.refuse_if_group_used(name).await?;
        }
        let mut guards = self.placement_guards(name, after, safety).await?;
        if rebound {
            guards.push(self.store.not_moving(&before.topic).await?);
        }
        Ok(guards)
    }

    /// That the topic stays where it is and is not being moved, and that the group's clusters exist.
    async fn placement_guards(
        &self,
        name: &GroupName,
        group: &GroupMeta,
        safety: Safety,
    ) -> Result<Vec<Op>, AdminError> {
        let topic = self.store.find::<TopicMeta>(group.topic.as_str()).await?;
        if safety == Safety::Checked && topic.meta.cluster != group.cluster {
            return Err(AdminError::Misplaced {
                group: name.to_string(),
                topic: group.topic.to_string(),
                cluster: group.cluster.to_string(),
                lives_on: topic.meta.cluster.to_string(),
            });
        }
        let path = TopicMeta::path(group.topic.as_str());
        let mut guards = self.store.clusters_stand(&group.cluster, group.gate.as_ref()).await?;
        guards.push(Op::Check { path, version: topic.version });
        guards.push(self.store.not_moving(&group.topic).await?);
        Ok(guards)
    }

    async fn refuse_if_group_used(&self, name: &GroupName) -> Result<(), AdminError> {
        let members = self.store.registered::<GroupMeta>(name.as_str()).await?;
        refuse_used::<GroupMeta>(name.as_str(), members.into_iter().map(|node| format!("member {node}")))
    }
}

fn check(before: &GroupMeta, after: &GroupMeta) -> Result<(), AdminError> {
    check_gate(after.gate.as_ref())?;
    for (name, _) in after.consumer.iter().filter(|(name, value)| before.consumer.get(*name) != Some(value)) {
        property::check(Scope::Consumer, name)?;
    }
    // What could not work before must not stand in the way of mending something else.
    let known = check_overrides(&before.consumer).err();
    match check_overrides(&after.consumer).err().filter(|reason| known.as_ref() != Some(reason)) {
        None => Ok(()),
        Some(reason) => Err(AdminError::Invalid { field: "consumer".to_owned(), reason }),
    }
}
