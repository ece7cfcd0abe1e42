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
    findings.extend(estate.clients.iter().filter_map(|(subject, clients)| {
        let apart: Vec<&str> = clients
            .iter()
            .filter(|client| client.proto.is_none())
            .map(|client| client.instance.as_deref().unwrap_or(&client.node))
            .collect();
        takes_no_part(subject, &apart, clients.len())
    }));
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

fn topic(name: &str, meta: &TopicMeta, estate: &Estate) -> Vec<Finding> {
    let subject = format!("topic {name}");
    let mut findings = dropped(&subject, "topic", Settings::Producer, &meta.producer);
    findings.extend(missing_cluster(&subject, "lives", &meta.cluster, estate));
    let cluster = estate.cluster(meta.cluster.as_str()).map(|cluster| &cluster.properties);
    let (producer, _) = property::screen(Settings::Producer, &meta.producer);
    if let Err(error) = producer::check_overrides(&producer, cluster.unwrap_or(&BTreeMap::new())) {
        findings.push(
            Finding::error(&subject, format!("its producer settings cannot work: {error}"))
                .means("no service that starts now can send to it; running ones keep their earlier settings")
                .todo(format!(
                    "correct them with `zmsctl topic set {name} --producer …` or `--unset-producer …`"
                )),
        );
    }
    findings.extend(missing_gate(&subject, "topic", meta.gate.as_ref(), estate));
    findings
}

fn group(name: &str, meta: &GroupMeta, estate: &Estate) -> Vec<Finding> {
    let subject = format!("group {name}");
    let mut findings = dropped(&subject, "group", Settings::Consumer, &meta.consumer);
    if let Err(error) = consumer::check_overrides(&meta.consumer) {
        findings.push(
            Finding::error(&subject, format!("its consumer settings cannot work: {error}"))
                .means("no member that starts now can join")
                .todo(format!(
                    "correct them with `zmsctl group set {name} --consumer …` or `--unset-consumer …`"
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

fn takes_no_part(subject: &str, apart: &[&str], all: usize) -> Option<Finding> {
    const NAMED: usize = 5;
    if apart.is_empty() {
        return None;
    }
    let mut named = apart.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if apart.len() > NAMED {
        named = format!("{named} and {} more", apart.len() - NAMED);
    }
    let are = if apart.len() == 1 { "client takes" } else { "clients take" };
    Some(
        Finding::note(subject, format!("{} of {all} connected {are} no part in moves: {named}", apart.len()))
            .means("clients of ZMS in Java tear their connections down when a topic changes cluster, and do not say when they have left the old one")
            .todo("expect errors in them when the topic is moved, and look for what they sent late"),
    )
}
