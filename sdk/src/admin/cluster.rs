//! Clusters: `/zms/cluster/<cluster>`.

use std::collections::BTreeMap;

use zms_core::{
    meta::{ClusterMeta, Format, Gate, GroupMeta, TopicMeta},
    name::ClusterName,
    property::{self, Scope},
};

use super::{
    Admin, AdminError, Entry, Safety,
    store::{ATTEMPTS, Kind, contended},
};

impl Admin {
    /// Adds a cluster, as `fill` completes it: at least its `bootstrap`.
    ///
    /// # Errors
    /// [`AdminError::Exists`]; [`AdminError::Invalid`] and [`AdminError::Secret`] for what no client could or should
    /// use.
    pub async fn add_cluster(
        &self,
        name: &ClusterName,
        format: Format,
        fill: impl FnOnce(&mut ClusterMeta),
    ) -> Result<ClusterMeta, AdminError> {
        let empty = ClusterMeta::new(&ClusterMeta::path(name.as_str()), format, "");
        let mut meta = empty.clone();
        fill(&mut meta);
        check(&empty, &meta)?;
        for _ in 0..ATTEMPTS {
            if self.store.add(name.as_str(), &meta, &[]).await? {
                return Ok(meta);
            }
        }
        Err(contended::<ClusterMeta>(name.as_str(), ATTEMPTS))
    }

    /// A cluster.
    ///
    /// # Errors
    /// [`AdminError::Missing`], [`AdminError::Unreadable`].
    pub async fn cluster(&self, name: &ClusterName) -> Result<ClusterMeta, AdminError> {
        Ok(self.store.find::<ClusterMeta>(name.as_str()).await?.meta)
    }

    /// All clusters, by name.
    ///
    /// # Errors
    /// [`AdminError::Registry`].
    pub async fn clusters(&self) -> Result<Vec<Entry<ClusterMeta>>, AdminError> {
        self.store.list().await
    }

    /// Changes a cluster; its clients are opened anew. `change` is called again if somebody else wrote meanwhile.
    ///
    /// # Errors
    /// [`AdminError::Missing`]; [`AdminError::Invalid`] and [`AdminError::Secret`] for changes that no client could or
    /// should use.
    pub async fn set_cluster(
        &self,
        name: &ClusterName,
        mut change: impl FnMut(&mut ClusterMeta),
    ) -> Result<ClusterMeta, AdminError> {
        for _ in 0..ATTEMPTS {
            let found = self.store.find::<ClusterMeta>(name.as_str()).await?;
            let mut meta = found.meta.clone();
            change(&mut meta);
            check(&found.meta, &meta)?;
            if self.store.replace(name.as_str(), &found, &meta, &[]).await? {
                return Ok(meta);
            }
        }
        Err(contended::<ClusterMeta>(name.as_str(), ATTEMPTS))
    }

    /// Removes a cluster. A topic that is put on it in this very moment can be missed.
    ///
    /// # Errors
    /// [`AdminError::Missing`]; [`AdminError::InUse`] with the topics and groups on it, unless forced.
    pub async fn remove_cluster(&self, name: &ClusterName, safety: Safety) -> Result<(), AdminError> {
        for _ in 0..ATTEMPTS {
            if safety == Safety::Checked {
                self.refuse_if_used(name).await?;
            }
            if self.store.remove::<ClusterMeta>(name.as_str(), Vec::new()).await? {
                return Ok(());
            }
        }
        Err(contended::<ClusterMeta>(name.as_str(), ATTEMPTS))
    }

    async fn refuse_if_used(&self, name: &ClusterName) -> Result<(), AdminError> {
        let topics = self.store.list::<TopicMeta>().await?;
        let groups = self.store.list::<GroupMeta>().await?;
        let topics =
            topics.iter().filter(|entry| may_use(entry, name, |topic| (&topic.cluster, topic.gate.as_ref())));
        let groups =
            groups.iter().filter(|entry| may_use(entry, name, |group| (&group.cluster, group.gate.as_ref())));
        let topics = topics.map(|entry| format!("topic {}", entry.name));
        refuse_used::<ClusterMeta>(
            name.as_str(),
            topics.chain(groups.map(|entry| format!("group {}", entry.name))),
        )
    }
}

/// A cluster's properties as they may be shown: a secret that stands there in plain text is hidden.
pub fn shown_properties(cluster: &ClusterMeta) -> BTreeMap<String, String> {
    let shown = |(name, value): (&String, &String)| {
        let is_plain_secret = property::is_secret(name) && !property::is_reference(value);
        (name.clone(), if is_plain_secret { "(hidden)".to_owned() } else { value.clone() })
    };
    cluster.properties.iter().map(shown).collect()
}

/// Refuses to touch what somebody uses, naming the first few.
pub(super) fn refuse_used<K: Kind>(
    name: &str,
    users: impl Iterator<Item = String>,
) -> Result<(), AdminError> {
    const SHOWN: usize = 10;
    let mut users: Vec<String> = users.collect();
    if users.is_empty() {
        return Ok(());
    }
    let more = users.len().saturating_sub(SHOWN);
    users.truncate(SHOWN);
    if more > 0 {
        users.push(format!("{more} more"));
    }
    Err(AdminError::InUse { what: K::WHAT, name: name.to_owned(), users })
}

/// Refuses a gate that would read back as another one, or as none.
pub(super) fn check_gate(gate: Option<&Gate>) -> Result<(), AdminError> {
    let is_address =
        |entry: &String| !entry.is_empty() && !entry.contains(|c: char| c == ',' || c.is_whitespace());
    let Some(gate) = gate.filter(|gate| gate.addresses.is_empty() || !gate.addresses.iter().all(is_address))
    else {
        return Ok(());
    };
    let reason = format!("{:?} are not addresses; expected at least one, each a single word", gate.addresses);
    Err(AdminError::Invalid { field: "gate".to_owned(), reason })
}

/// Whether an entry is on a cluster; one that cannot be read may be.
fn may_use<M>(
    entry: &Entry<M>,
    name: &ClusterName,
    on: impl Fn(&M) -> (&ClusterName, Option<&Gate>),
) -> bool {
    match &entry.meta {
        Ok(None) => false,
        Err(_) => true,
        Ok(Some(meta)) => {
            let (cluster, gate) = on(meta);
            cluster == name || gate.is_some_and(|gate| &gate.cluster == name)
        }
    }
}

/// Refuses what no client could use, as far as it is new: what was wrong before must not stand in the way of mending.
fn check(before: &ClusterMeta, after: &ClusterMeta) -> Result<(), AdminError> {
    if after.bootstrap.trim_matches([',', ' ']).is_empty() {
        let reason = "names no server; expected host:port, separated by commas".to_owned();
        return Err(AdminError::Invalid { field: "bootstrap".to_owned(), reason });
    }
    let servers = after.bootstrap.split([',', ' ']).filter(|server| !server.is_empty());
    for server in servers {
        let has_port = server
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if !has_port && before.bootstrap != after.bootstrap {
            let reason = format!("{server} is not host:port; expected such servers, separated by commas");
            return Err(AdminError::Invalid { field: "bootstrap".to_owned(), reason });
        }
    }
    for (name, value) in
        after.properties.iter().filter(|(name, value)| before.properties.get(*name) != Some(value))
    {
        property::check(Scope::Cluster, name)?;
        if property::is_secret(name) && !property::is_reference(value) {
            return Err(AdminError::Secret { property: name.clone() });
        }
    }
    Ok(())
}
