//! What the clusters say. Each is asked by a thread of its own, with a limit on every question.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use zms_core::{resolve::cluster_spec, route::ChangeId};
use zms_sdk::{
    ClusterName, TopicName,
    admin::ClusterMeta,
    engine::port::{BrokerSettings, ClusterAdmin, EngineError, TopicInfo},
    producer,
};

use super::{
    estate::{Estate, uses},
    finding::Finding,
    limits, topic,
};
use crate::context::open_cluster;

/// How long the topics of one cluster may take together.
const ALL_TOPICS: Duration = Duration::from_secs(60);

/// What a cluster was found to be.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) cluster: String,
    /// Kafka's own id, if it told.
    pub(super) id: Option<String>,
    pub(super) findings: Vec<Finding>,
}

/// A topic as its cluster knows it.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) info: TopicInfo,
    pub(super) settings: BTreeMap<String, String>,
}

/// Asks the clusters in scope, all at the same time.
pub(super) async fn check(estate: &Estate, limit: Duration) -> Vec<Finding> {
    let asked =
        estate.scope.clusters.iter().filter_map(|name| Some(question(name, estate.cluster(name)?, estate)));
    let asked: Vec<_> =
        asked.map(|question| tokio::task::spawn_blocking(move || question.ask(limit))).collect();
    let mut checked = Vec::new();
    for answer in asked {
        checked.extend(answer.await.ok());
    }
    let mut findings = same_cluster(&checked);
    findings.extend(checked.into_iter().flat_map(|checked| checked.findings));
    findings
}

/// What one cluster is to be asked.
struct Question {
    name: String,
    meta: ClusterMeta,
    /// With the settings of their producers.
    topics: Vec<(TopicName, BTreeMap<String, String>)>,
}

fn question(name: &str, meta: &ClusterMeta, estate: &Estate) -> Question {
    let lives_here = |topic: &&String| estate.topic(topic).is_some_and(|meta| uses(meta, name));
    let topics = estate.scope.topics.iter().filter(lives_here);
    let topics = topics
        .filter_map(|topic| Some((TopicName::new(topic).ok()?, estate.topic(topic)?.producer.clone())))
        .collect();
    Question { name: name.to_owned(), meta: meta.clone(), topics }
}

impl Question {
    /// Blocking.
    fn ask(self, limit: Duration) -> Checked {
        let subject = format!("cluster {}", self.name);
        let mut checked = Checked { cluster: self.name.clone(), id: None, findings: Vec::new() };
        let Ok(name) = ClusterName::new(&self.name) else { return checked };
        // What no client can be made of was said when the entry was looked at.
        if cluster_spec(&name, &self.meta, ChangeId::default()).is_err() {
            return checked;
        }
        let client = match open_cluster(&name, &self.meta) {
            Ok(client) => client,
            Err(failure) => {
                checked.findings.push(
                    Finding::warning(&subject, failure.to_string())
                        .means("the cluster could not be checked from here; services elsewhere may be able to use it")
                        .todo("set what it refers to in this shell too, or correct the property"),
                );
                return checked;
            }
        };
        match client.cluster_id(limit) {
            Ok(id) => {
                let other = other_id(&subject, self.meta.kafka_id.as_deref(), &id);
                // What another cluster has, or lacks, says nothing about the one that is meant.
                let topics = if other.is_none() { self.contents(&client, limit) } else { Vec::new() };
                checked.findings.extend(other);
                checked.findings.extend(self.meta.kafka_id.is_none().then(|| no_id(&subject, &id)));
                checked.findings.extend(topics);
                checked.id = Some(id);
            }
            Err(error) => checked.findings.push(unreachable(&subject, &self, &error, limit)),
        }
        checked
    }

    fn contents(&self, client: &Arc<dyn ClusterAdmin>, limit: Duration) -> Vec<Finding> {
        let none = BTreeMap::new();
        // What no producer can be opened with was said when the entry was looked at.
        let message = producer::limits(&none, &self.meta.properties).map(|limits| limits.message);
        match (client.broker_settings(limit), message) {
            (Ok(brokers), Ok(message)) => {
                let mut findings = limits::cluster(&self.name, &brokers, message);
                findings.extend(self.topics(client, &brokers, limit));
                findings
            }
            (Ok(brokers), Err(_)) => self.topics(client, &brokers, limit),
            (Err(error), _) => {
                let mut findings = vec![untold(&self.name, &error)];
                findings.extend(self.topics(client, &[], limit));
                findings
            }
        }
    }

    /// Stops at the first question without an answer: a cluster that died meanwhile must not cost a limit for each.
    fn topics(
        &self,
        client: &Arc<dyn ClusterAdmin>,
        brokers: &[BrokerSettings],
        limit: Duration,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let until = Instant::now() + ALL_TOPICS;
        for (done, (name, overrides)) in self.topics.iter().enumerate() {
            let unasked = self.topics.len() - done;
            if Instant::now() > until {
                findings.push(unfinished(&self.name, unasked, &format!("not within {ALL_TOPICS:?}")));
                return findings;
            }
            let facts = match facts(client, name, limit) {
                Ok(facts) => facts,
                Err(error) => {
                    findings.push(unfinished(&self.name, unasked, &error.to_string()));
                    return findings;
                }
            };
            findings.extend(topic::judge(name, &self.name, &self.meta, facts.as_ref()));
            let limits = producer::limits(overrides, &self.meta.properties);
            if let (Some(facts), Ok(limits)) = (facts, limits) {
                findings.extend(limits::topic(&format!("topic {name}"), &facts.settings, brokers, &limits));
            }
        }
        findings
    }
}

fn facts(
    client: &Arc<dyn ClusterAdmin>,
    name: &TopicName,
    limit: Duration,
) -> Result<Option<Facts>, EngineError> {
    let Some(info) = client.topic(name, limit)? else { return Ok(None) };
    Ok(Some(Facts { info, settings: client.topic_settings(name, limit)? }))
}

fn unreachable(subject: &str, question: &Question, error: &EngineError, limit: Duration) -> Finding {
    let bootstrap = &question.meta.bootstrap;
    let topics = question.topics.len();
    let live = if topics == 1 { "1 topic lives".to_owned() } else { format!("{topics} topics live") };
    Finding::error(subject, format!("does not answer within {limit:?} at {bootstrap}: {error}"))
        .means(format!("from here nothing can be sent to it or read from it; {live} on it"))
        .todo("look whether it runs, whether its servers can be reached from here, and whether security.protocol and credentials fit")
}

fn other_id(subject: &str, stated: Option<&str>, found: &str) -> Option<Finding> {
    let stated = stated.filter(|stated| *stated != found)?;
    let name = subject.split_once(' ').map_or(subject, |(_, name)| name);
    Some(
        Finding::error(subject, format!("is Kafka cluster {found}, but the registry states clusterId {stated}"))
            .means("the bootstrap servers lead to another cluster than is meant; clients refuse it")
            .todo(format!("correct the bootstrap servers, or `zmsctl cluster set {name} --kafka-id {found}` if this is the right one")),
    )
}

fn no_id(subject: &str, found: &str) -> Finding {
    let name = subject.split_once(' ').map_or(subject, |(_, name)| name);
    Finding::note(subject, "the registry does not state its Kafka cluster id")
        .means("another cluster at its address, after a host was reused, would not be noticed")
        .todo(format!("`zmsctl cluster set {name} --kafka-id {found}`, if this is the right one"))
}

fn untold(cluster: &str, error: &EngineError) -> Finding {
    Finding::note(format!("cluster {cluster}"), format!("its brokers' own limits could not be read: {error}"))
        .means("nothing is known of whether they fit what clients send and replicas copy")
        .todo("let this identity describe the configuration of the cluster, and run this again")
}

fn unfinished(cluster: &str, unasked: usize, reason: &str) -> Finding {
    Finding::warning(
        format!("cluster {cluster}"),
        format!("{unasked} of its topics could not be checked: {reason}"),
    )
    .means("nothing is known of them")
    .todo("check that this identity may describe topics and their settings, and run this again")
}

/// Names that lead to the same Kafka cluster.
fn same_cluster(checked: &[Checked]) -> Vec<Finding> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in checked {
        if let Some(id) = &one.id {
            names.entry(id).or_default().insert(&one.cluster);
        }
    }
    let shared = names.into_iter().filter(|(_, names)| names.len() > 1);
    shared
        .map(|(id, names)| {
            let names = names.into_iter().collect::<Vec<_>>().join(" and ");
            Finding::warning(format!("clusters {names}"), format!("are the same Kafka cluster, {id}"))
                .means("a topic cannot be moved between them, and clients open their connections twice")
                .todo("keep one of the names, and point topics and groups to it")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_cluster_are_found_among_others() {
        let checked = |cluster: &str, id: Option<&str>| Checked {
            cluster: cluster.to_owned(),
            id: id.map(str::to_owned),
            findings: Vec::new(),
        };
        let all = [
            checked("a", Some("X")),
            checked("b", Some("Y")),
            checked("c", Some("X")),
            checked("d", None),
            checked("e", None),
        ];
        let found = same_cluster(&all);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].subject, "clusters a and c");
    }
}
