//! From nodes to routes: gray release, clusters, migration record, adopted together.
//!
//! The migration record counts before the nodes: while a move runs it decides where sends go and what groups handle,
//! and gray release is out of force.

use crate::{
    meta::{BrokerKind, ClusterMeta, Gate, GroupMeta, TopicMeta},
    migration::{MigrationRecord, Phase},
    name::ClusterName,
    property::{self, Dropped, Scope},
    route::{ChangeId, ClusterSpec, Traffic},
};

/// Where a topic's sends go, or which cluster a group handles, and whether it does so now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The cluster.
    pub cluster: ClusterName,
    /// Held: sends wait; of a group, nothing is handled.
    pub traffic: Traffic,
}

impl Target {
    fn open(cluster: &ClusterName) -> Self {
        Self { cluster: cluster.clone(), traffic: Traffic::Open }
    }

    fn held(cluster: &ClusterName, reason: String) -> Self {
        Self { cluster: cluster.clone(), traffic: Traffic::Held { reason } }
    }
}

/// Where a topic's sends go for a client with these addresses. `record` and `topic` must have been read in this order.
pub fn topic_target(record: Option<&MigrationRecord>, topic: &TopicMeta, own: &[String]) -> Target {
    let Some(record) = record.filter(|record| record.is_running()) else {
        return Target::open(gated(topic.gate.as_ref(), &topic.cluster, own));
    };
    match &record.phase {
        Phase::Idle | Phase::Init | Phase::Prepare => Target::open(&topic.cluster),
        Phase::Fence | Phase::Cut => Target::held(&topic.cluster, moving(record)),
        Phase::Settle | Phase::Drain => stated(record.to.as_ref(), record, &topic.cluster),
        Phase::Closing => stated(kept(record), record, &topic.cluster),
        Phase::Unknown(_) => Target::held(&topic.cluster, not_understood(record)),
    }
}

/// Which cluster a group handles for a client with these addresses. `record` is that of the group's topic, and must
/// have been read before `group`. Joining a second cluster without handling it, and the rest of one that is being
/// left, are matters of the move and no part of this.
pub fn group_target(record: Option<&MigrationRecord>, group: &GroupMeta, own: &[String]) -> Target {
    let Some(record) = record.filter(|record| record.is_running()) else {
        return Target::open(gated(group.gate.as_ref(), &group.cluster, own));
    };
    match &record.phase {
        Phase::Init | Phase::Prepare | Phase::Fence | Phase::Cut | Phase::Settle => {
            stated(record.from.as_ref(), record, &group.cluster)
        }
        Phase::Idle | Phase::Drain | Phase::Closing => Target::open(&group.cluster),
        Phase::Unknown(_) => Target::held(&group.cluster, not_understood(record)),
    }
}

fn gated<'a>(gate: Option<&'a Gate>, cluster: &'a ClusterName, own: &[String]) -> &'a ClusterName {
    gate.filter(|gate| gate.admits(own)).map_or(cluster, |gate| &gate.cluster)
}

/// The cluster that a move leaves open in its last phase.
fn kept(record: &MigrationRecord) -> Option<&ClusterName> {
    let (from, to, tail) = (record.from.as_ref()?, record.to.as_ref()?, record.tail.as_ref()?);
    if tail == from {
        Some(to)
    } else if tail == to {
        Some(from)
    } else {
        None
    }
}

/// The cluster that the record states; held if it does not, since any guess could be the wrong side of the move.
fn stated(cluster: Option<&ClusterName>, record: &MigrationRecord, node: &ClusterName) -> Target {
    match cluster {
        Some(cluster) => Target::open(cluster),
        None => Target::held(
            node,
            format!("{}, but its record does not say between which clusters", moving(record)),
        ),
    }
}

fn moving(record: &MigrationRecord) -> String {
    format!("move {} is in phase {}, round {}", record.id, record.phase, record.round)
}

fn not_understood(record: &MigrationRecord) -> String {
    format!("the topic's migration record has {}; a newer SDK may understand it", record.phase)
}

/// A cluster as its clients are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// What clients are opened with.
    pub spec: ClusterSpec,
    /// Properties of the node that were left out: to be logged once.
    pub dropped: Vec<Dropped>,
}

/// Why no client can be opened for a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterFault {
    /// The node names no bootstrap servers.
    #[error(
        "cluster {cluster} has no bootstrap servers; set them with `zmsctl cluster set {cluster} --bootstrap <host:port,…>`"
    )]
    NoBootstrap {
        /// The cluster.
        cluster: ClusterName,
    },
    /// The node names a kind of broker that this SDK has no engine for.
    #[error("cluster {cluster} is of type {kind}, which is not supported; only kafka is")]
    UnsupportedBroker {
        /// The cluster.
        cluster: ClusterName,
        /// The kind found.
        kind: BrokerKind,
    },
}

/// Turns a cluster's node into what clients are opened with. Properties that the registry may not set are left out
/// and named in the result.
///
/// # Errors
/// [`ClusterFault`] when no client can be opened for it.
pub fn cluster_spec(
    name: &ClusterName,
    meta: &ClusterMeta,
    changed: ChangeId,
) -> Result<ClusterDescription, ClusterFault> {
    if meta.broker != BrokerKind::Kafka {
        return Err(ClusterFault::UnsupportedBroker { cluster: name.clone(), kind: meta.broker.clone() });
    }
    let servers = meta.bootstrap.split(|char: char| char == ',' || char.is_whitespace());
    let servers: Vec<&str> = servers.filter(|server| !server.is_empty()).collect();
    if servers.is_empty() {
        return Err(ClusterFault::NoBootstrap { cluster: name.clone() });
    }
    let (properties, dropped) = property::screen(Scope::Cluster, &meta.properties);
    let spec = ClusterSpec {
        name: name.clone(),
        bootstrap: servers.join(","),
        kafka_id: meta.kafka_id.clone(),
        properties,
        changed,
    };
    Ok(ClusterDescription { spec, dropped })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{meta::Format, name::TopicName};

    fn name(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    fn topic(cluster: &str, gate: Option<Gate>) -> TopicMeta {
        let mut topic = TopicMeta::new("/zms/topic/t", Format::Json, name(cluster));
        topic.gate = gate;
        topic
    }

    fn group(cluster: &str, gate: Option<Gate>) -> GroupMeta {
        let topic = TopicName::new("t").unwrap();
        let mut group = GroupMeta::new("/zms/consumergroup/g", Format::Json, topic, name(cluster));
        group.gate = gate;
        group
    }

    fn gate_for(address: &str) -> Gate {
        Gate { addresses: vec![address.to_owned()], cluster: name("gray") }
    }

    fn record(phase: &str, tail: &str) -> MigrationRecord {
        let data = format!(
            r#"{{"schema":1,"id":"m1","phase":"{phase}","mode":"ordered","round":2,"from":"a","to":"b","tail":"{tail}"}}"#
        );
        MigrationRecord::parse("/zms/migration/t", data.as_bytes()).unwrap().unwrap()
    }

    /// The cluster, with a `!` in front if traffic is held.
    fn shown(target: &Target) -> String {
        let mark = if target.traffic == Traffic::Open { "" } else { "!" };
        format!("{mark}{}", target.cluster)
    }

    #[test]
    fn each_phase_sends_and_handles_where_the_protocol_says() {
        // The nodes say what they say in the middle of a phase: the group's may differ from what is handled.
        let phases = [
            ("idle", "", "n", "n"),
            ("init", "", "n", "a"),
            ("prepare", "", "n", "a"),
            ("fence", "", "!n", "a"),
            ("cut", "", "!n", "a"),
            ("settle", "", "b", "a"),
            ("drain", "", "b", "n"),
            ("closing", "a", "b", "n"),
            ("closing", "b", "a", "n"),
            ("closing", "c", "!n", "n"),
            ("closing", "", "!n", "n"),
            ("warp", "", "!n", "!n"),
        ];
        for (phase, tail, sent, handled) in phases {
            let record = record(phase, tail);
            assert_eq!(shown(&topic_target(Some(&record), &topic("n", None), &[])), sent, "{phase} {tail}");
            assert_eq!(
                shown(&group_target(Some(&record), &group("n", None), &[])),
                handled,
                "{phase} {tail}"
            );
        }
        assert_eq!(shown(&topic_target(None, &topic("n", None), &[])), "n");
        assert_eq!(shown(&group_target(None, &group("n", None), &[])), "n");
    }

    #[test]
    fn gray_release_holds_for_its_clients_and_only_while_nothing_moves() {
        let own = ["10.1.1.10".to_owned()];
        let gate = Some(gate_for("10.1.1.10"));
        let (topic, group) = (topic("n", gate.clone()), group("n", gate));
        assert_eq!(shown(&topic_target(None, &topic, &own)), "gray");
        assert_eq!(shown(&topic_target(Some(&record("idle", "")), &topic, &own)), "gray");
        assert_eq!(shown(&group_target(None, &group, &own)), "gray");
        assert_eq!(shown(&topic_target(None, &topic, &["10.1.1.1".to_owned()])), "n");
        assert_eq!(shown(&topic_target(Some(&record("prepare", "")), &topic, &own)), "n");
        assert_eq!(shown(&group_target(Some(&record("drain", "")), &group, &own)), "n");
    }

    #[test]
    fn a_held_topic_says_why() {
        let Traffic::Held { reason } =
            topic_target(Some(&record("fence", "")), &topic("a", None), &[]).traffic
        else {
            panic!("not held");
        };
        assert_eq!(reason, "move m1 is in phase fence, round 2");
    }

    #[test]
    fn a_cluster_becomes_a_spec_without_what_the_registry_may_not_set() {
        let data = "bootAddr= h1:9092 , h2:9092,\nbrokerType=KAFKA\nclusterId=X\nproperties.sasl.username=u\nproperties.client.id=x";
        let meta = ClusterMeta::parse("/zms/cluster/a", data.as_bytes()).unwrap().unwrap();
        let described = cluster_spec(&name("a"), &meta, ChangeId(7)).unwrap();
        let properties = [("sasl.username".to_owned(), "u".to_owned())].into();
        let expected = ClusterSpec {
            name: name("a"),
            bootstrap: "h1:9092,h2:9092".to_owned(),
            kafka_id: Some("X".to_owned()),
            properties,
            changed: ChangeId(7),
        };
        assert_eq!(described.spec, expected);
        assert_eq!(described.dropped.len(), 1);
        assert_eq!(described.dropped[0].name, "client.id");
    }

    #[test]
    fn a_cluster_without_servers_or_of_another_kind_is_a_fault() {
        let fault = |data: &str| {
            let meta = ClusterMeta::parse("/zms/cluster/a", data.as_bytes()).unwrap().unwrap();
            cluster_spec(&name("a"), &meta, ChangeId(1)).unwrap_err()
        };
        assert_eq!(fault("brokerType=kafka\nbootAddr= , "), ClusterFault::NoBootstrap { cluster: name("a") });
        let kind = BrokerKind::RocketMq;
        let expected = ClusterFault::UnsupportedBroker { cluster: name("a"), kind };
        assert_eq!(fault("brokerType=RocketMQ\nbootAddr=h"), expected);
    }
}
