//! What is wrong in the registry by itself.

use std::collections::BTreeMap;

use zms_core::{
    migration::MigrationRecord,
    property::{self, Scope as Settings},
    resolve::cluster_spec,
    route::ChangeId,
};
use zms_sdk::{
    ClusterName, GroupName, NameError, TopicName,
    admin::{ClusterMeta, Gate, GroupMeta, MetaError, TopicMeta},
    consumer, producer,
};

use super::{
    estate::{Entries, Estate},
    finding::Finding,
};

pub(super) fn check(estate: &Estate) -> Vec<Finding> {
    let mut findings = Vec::new();
    if estate.clusters.is_empty() && estate.topics.is_empty() && estate.groups.is_empty() {
        findings.push(
            Finding::warning("registry", "holds no cluster, no topic and no group")
                .means("either nothing was added yet, or this is not the registry that is meant")
                .todo("check the chroot of --zk; add the first cluster with `zmsctl cluster add`"),
        );
    }
    for name in &estate.scope.clusters {
        findings.extend(node("cluster", name, &estate.clusters, |name| ClusterName::new(name).err()));
        findings.extend(estate.cluster(name).map(|meta| cluster(name, meta)).unwrap_or_default());
    }
    for name in &estate.scope.topics {
        findings.extend(node("topic", name, &estate.topics, |name| TopicName::new(name).err()));
        findings.extend(estate.topic(name).map(|meta| topic(name, meta, estate)).unwrap_or_default());
    }
    for name in &estate.scope.groups {
        findings.extend(node("group", name, &estate.groups, |name| GroupName::new(name).err()));
        findings.extend(estate.group(name).map(|meta| group(name, meta, estate)).unwrap_or_default());
    }
    findings.extend(estate.moves.iter().map(|(topic, record)| moving(topic, record)));
    findings
}

/// A node whose name or data is not understood.
fn node<M>(
    what: &str,
    name: &str,
    entries: &Entries<M>,
    misnamed: impl Fn(&str) -> Option<NameError>,
) -> Option<Finding> {
    let subject = format!("{what} {name}");
    if let Some(error) = misnamed(name) {
        return Some(
            Finding::warning(subject, error.to_string())
                .means("no client can use an entry of this name")
                .todo("remove the node by hand and add the entry under another name"),
        );
    }
    match entries.get(name)? {
        Ok(Some(_)) => None,
        Ok(None) => Some(
            Finding::warning(&subject, "the node is empty")
                .means("whoever created it has not filled it; until then clients take it for missing")
                .todo(format!("look again; if it stays empty, add it with `zmsctl {what} add {name} …`")),
        ),
        Err(error) => Some(unreadable(&subject, what, name, error)),
    }
}

fn unreadable(subject: &str, what: &str, name: &str, error: &MetaError) -> Finding {
    Finding::error(subject, error.to_string())
        .means("running clients stay with the last value that they could read; new ones fail")
        .todo(format!("mend the node by hand, or `zmsctl {what} remove {name} --force` and add it again"))
}

fn cluster(name: &str, meta: &ClusterMeta) -> Vec<Finding> {
    let subject = format!("cluster {name}");
    let mut findings = dropped(&subject, "cluster", Settings::Cluster, &meta.properties);
    let name = ClusterName::new(name);
    if let Some(Err(fault)) = name.ok().map(|name| cluster_spec(&name, meta, ChangeId::default())) {
        findings.push(
            Finding::error(&subject, fault.to_string())
                .means("no client of this SDK can use the cluster, and so none of its topics and groups")
                .todo("state bootstrap servers of a Kafka cluster; topics of other brokers stay with their own clients"),
        );
    }
    findings.extend(large_messages(&subject, meta));
    let plain = meta
        .properties
        .iter()
        .filter(|(name, value)| property::is_secret(name) && !property::is_reference(value));
    findings.extend(plain.map(|(property, _)| {
        Finding::warning(&subject, format!("{property} stands in the registry in plain text"))
            .means("everybody who can read the registry can read the secret")
            .todo(format!(
                "change the secret, and set {property} to ${{env:NAME}} or ${{file:/path}} with `zmsctl cluster set --property`"
            ))
    }));
    findings
}

/// Messages that a service admits only with a larger send buffer than the default one.
fn large_messages(subject: &str, meta: &ClusterMeta) -> Option<Finding> {
    /// A topic's share of the send buffer, unless a service has another buffer.
    const DEFAULT_SHARE: u64 = 16 << 20;
    let largest: u64 = meta.properties.get("message.max.bytes")?.trim().parse().ok()?;
    (largest > DEFAULT_SHARE).then(|| {
        Finding::warning(subject, format!("message.max.bytes is {largest}, above what a topic may have in the send buffer"))
            .means(format!("services with the default buffer, {DEFAULT_SHARE} bytes for a topic, cannot open a producer on it"))
            .todo("lower it, or see that every service that sends there sets a buffer of at least twice as much")
    })
}

fn topic(name: &str, meta: &TopicMeta, estate: &Estate) -> Vec<Finding> {
    let subject = format!("topic {name}");
    let mut findings = dropped(&subject, "topic", Settings::Producer, &meta.producer);
    findings.extend(missing_cluster(&subject, "lives", &meta.cluster, estate));
    findings.extend(unfit(name, meta, estate));
    findings.extend(missing_gate(&subject, "topic", meta.gate.as_ref(), estate));
    findings
}

fn group(name: &str, meta: &GroupMeta, estate: &Estate) -> Vec<Finding> {
    let subject = format!("group {name}");
    let mut findings = dropped(&subject, "group", Settings::Consumer, &meta.consumer);
    if let Err(error) = consumer::check_overrides(&meta.consumer) {
        findings.push(
            Finding::error(&subject, format!("no member can be opened for it: {error}"))
                .means("services that start now cannot read from it; running ones keep the settings that they have")
                .todo(format!(
                    "correct the settings: `zmsctl group set {name} --consumer NAME=VALUE` or `--unset-consumer NAME`"
                )),
        );
    }
    findings.extend(missing_cluster(&subject, "reads", &meta.cluster, estate));
    findings.extend(missing_gate(&subject, "group", meta.gate.as_ref(), estate));
    let bound = &meta.topic;
    match (estate.topic(bound.as_str()), estate.topics.contains_key(bound.as_str())) {
        (None, false) => findings.push(
            Finding::error(&subject, format!("reads topic {bound}, which is not in the registry"))
                .means(
                    "nobody can be told where the topic lives; members read it where the group's entry says",
                )
                .todo(format!("`zmsctl topic add {bound} --cluster {}`, or remove the group", meta.cluster)),
        ),
        (Some(topic), _) if topic.cluster != meta.cluster && !estate.moves.contains_key(bound.as_str()) => {
            let (here, there) = (&meta.cluster, &topic.cluster);
            findings.push(
                Finding::error(
                    &subject,
                    format!("reads topic {bound} on cluster {here}, but the topic lives on {there}"),
                )
                .means("new messages of the topic do not reach the group")
                .todo(format!(
                    "`zmsctl group set {name} --cluster {there}`, once it has read what is left on {here}"
                )),
            );
        }
        _ => {}
    }
    if meta.broadcast {
        findings.push(
            Finding::note(&subject, "is a broadcast group")
                .means("each member handles every message; on Kafka, Java services of ZMS share them all the same")
                .todo("nothing, if that is wanted"),
        );
    }
    if meta.suspend {
        findings.push(
            Finding::note(&subject, "is suspended")
                .means("its members handle nothing")
                .todo(format!("`zmsctl group set {name} --suspend false`, if that is not wanted any more")),
        );
    }
    findings
}

/// Settings with which no producer can be opened, on the topic's cluster or on that of its gate.
fn unfit(name: &str, meta: &TopicMeta, estate: &Estate) -> Option<Finding> {
    let none = BTreeMap::new();
    let gated = meta.gate.as_ref().map(|gate| &gate.cluster);
    let (cluster, error) = [Some(&meta.cluster), gated].into_iter().flatten().find_map(|cluster| {
        let properties = estate.cluster(cluster.as_str()).map_or(&none, |cluster| &cluster.properties);
        producer::check_overrides(&meta.producer, properties).err().map(|error| (cluster, error))
    })?;
    Some(
        Finding::error(
            format!("topic {name}"),
            format!("no producer can be opened for it on cluster {cluster}: {error}"),
        )
        .means("services that start now cannot send to it; running ones keep the settings that they have")
        .todo(format!(
            "correct the settings: `zmsctl topic set {name} --producer NAME=VALUE` or `--unset-producer NAME`"
        )),
    )
}

fn missing_cluster(subject: &str, does: &str, cluster: &ClusterName, estate: &Estate) -> Option<Finding> {
    if estate.clusters.contains_key(cluster.as_str()) {
        return None;
    }
    Some(
        Finding::error(subject, format!("{does} on cluster {cluster}, which is not in the registry"))
            .means("no client can be opened: sends and subscriptions fail")
            .todo(format!("`zmsctl cluster add {cluster} --bootstrap <host:port,…>`")),
    )
}

fn missing_gate(subject: &str, what: &str, gate: Option<&Gate>, estate: &Estate) -> Option<Finding> {
    let cluster = &gate?.cluster;
    if estate.clusters.contains_key(cluster.as_str()) {
        return None;
    }
    let name = subject.split_once(' ').map_or(subject, |(_, name)| name);
    Some(
        Finding::error(subject, format!("its gate leads to cluster {cluster}, which is not in the registry"))
            .means("the clients at the gate's addresses fail, all others work")
            .todo(format!("`zmsctl cluster add {cluster} --bootstrap <host:port,…>`, or `zmsctl {what} set {name} --no-gate`")),
    )
}

fn dropped(subject: &str, what: &str, scope: Settings, settings: &BTreeMap<String, String>) -> Vec<Finding> {
    let flag = match scope {
        Settings::Cluster => "--unset-property",
        Settings::Producer => "--unset-producer",
        Settings::Consumer => "--unset-consumer",
    };
    let name = subject.split_once(' ').map_or(subject, |(_, name)| name);
    let (_, dropped) = property::screen(scope, settings);
    let finding = |dropped: property::Dropped| {
        Finding::warning(subject, format!("the setting {} is not used: {}", dropped.name, dropped.reason))
            .means("clients leave it out and go on with their own value")
            .todo(format!("`zmsctl {what} set {name} {flag} {}`", dropped.name))
    };
    dropped.into_iter().map(finding).collect()
}

fn moving(topic: &str, record: &MigrationRecord) -> Finding {
    Finding::note(format!("topic {topic}"), format!("is being moved: phase {}", record.phase))
        .means("its groups may be on another cluster than the topic until the end of the move")
        .todo("nothing, if the move makes progress")
}
