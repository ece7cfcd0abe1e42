//! What is wrong with a topic as its cluster knows it.

use std::collections::BTreeMap;

use zms_sdk::{TopicName, admin::ClusterMeta};

use super::{finding::Finding, kafka::Facts};

/// librdkafka's default of `message.max.bytes`, which the SDK does not change.
const CLIENT_LIMIT: u64 = 1_000_000;
/// Kafka's default of `max.message.bytes`: it lies a little above the client's, and nobody chose it.
const TOPIC_LIMIT: u64 = 1_048_588;

/// Judges a topic that the registry has on `cluster`; without facts it does not exist there.
pub(super) fn judge(
    name: &TopicName,
    cluster: &str,
    meta: &ClusterMeta,
    facts: Option<&Facts>,
) -> Vec<Finding> {
    let subject = format!("topic {name}");
    let Some(Facts { info, settings }) = facts else {
        return vec![
            Finding::error(subject, format!("does not exist on cluster {cluster}, which its entry names"))
                .means("sends fail and members read nothing; no client creates topics by itself")
                .todo(format!("`zmsctl topic create {name} --cluster {cluster} --partitions <N>`")),
        ];
    };
    let mut findings = Vec::new();
    if !info.leaderless.is_empty() {
        findings.push(
            Finding::error(&subject, format!("partitions without a leader: {}", numbers(&info.leaderless)))
                .means("nothing can be sent to these partitions or read from them; the others work")
                .todo(format!("bring back the brokers of cluster {cluster} that hold their replicas")),
        );
    }
    findings.extend(replicas(&subject, info.replication, number(settings, "min.insync.replicas")));
    let client = number(&meta.properties, "message.max.bytes").unwrap_or(CLIENT_LIMIT);
    findings.extend(sizes(&subject, cluster, client, number(settings, "max.message.bytes")));
    if settings.get("unclean.leader.election.enable").is_some_and(|value| value == "true") {
        findings.push(
            Finding::warning(&subject, "unclean.leader.election.enable is true")
                .means("acknowledged messages are lost when a replica that lags becomes the leader")
                .todo("set it to false, unless losing messages is better than waiting"),
        );
    }
    findings
}

fn replicas(subject: &str, replicas: i32, in_sync: Option<u64>) -> Option<Finding> {
    let replicas = u64::try_from(replicas).unwrap_or_default();
    let in_sync = in_sync.unwrap_or(1);
    let of = if replicas == 1 { "1 replica".to_owned() } else { format!("{replicas} replicas") };
    if in_sync > replicas {
        return Some(
            Finding::error(subject, format!("min.insync.replicas is {in_sync}, with {of}"))
                .means("every send with acks=all, the default, is refused")
                .todo(format!("lower min.insync.replicas to {replicas} at most, or add replicas")),
        );
    }
    if replicas == 1 {
        return Some(
            Finding::note(subject, "has a single replica")
                .means("while its broker is down it cannot be used, and with its disk its messages are lost")
                .todo("give it three replicas and min.insync.replicas=2 in production"),
        );
    }
    if in_sync == replicas {
        return Some(
            Finding::warning(subject, format!("min.insync.replicas is {in_sync}, with {of}"))
                .means("every send is refused as soon as one broker is down")
                .todo("lower min.insync.replicas by one, or add a replica"),
        );
    }
    if in_sync == 1 {
        return Some(
            Finding::note(subject, format!("min.insync.replicas is 1, with {of}"))
                .means("a message may be acknowledged by one broker alone, and lost with it")
                .todo("set min.insync.replicas=2"),
        );
    }
    None
}

fn sizes(subject: &str, cluster: &str, client: u64, topic: Option<u64>) -> Option<Finding> {
    match topic? {
        0 => Some(
            Finding::error(subject, format!("is closed on cluster {cluster}: max.message.bytes is 0"))
                .means("every send is refused; a topic is closed on the cluster that it was moved away from")
                .todo("look whether the topic should live elsewhere; if not, give max.message.bytes its old value"),
        ),
        topic if topic < client => Some(
            Finding::warning(subject, format!("max.message.bytes is {topic}, below the clients' message.max.bytes of {client}"))
                .means("messages between the two are taken by the client and refused by the broker, and so are full batches of smaller ones unless `batchSize` is set below")
                .todo(format!("raise the topic's limit, or `zmsctl cluster set {cluster} --property message.max.bytes={topic}`")),
        ),
        topic if topic > client && topic != TOPIC_LIMIT => Some(
            Finding::note(subject, format!("max.message.bytes is {topic}, above the clients' message.max.bytes of {client}"))
                .means("messages that the topic would take are refused by the client")
                .todo(format!("`zmsctl cluster set {cluster} --property message.max.bytes={topic}`, if such messages are wanted")),
        ),
        _ => None,
    }
}

fn number(settings: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    settings.get(name)?.trim().parse().ok()
}

fn numbers(partitions: &[i32]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = partitions.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if partitions.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use zms_sdk::{admin::Format, engine::port::TopicInfo};

    use super::{super::finding::Severity, *};

    fn judged(replication: i32, settings: &[(&str, &str)]) -> Vec<Finding> {
        let info = TopicInfo { partitions: 3, leaderless: Vec::new(), replication };
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let meta = ClusterMeta::new("/zms/cluster/a", Format::Json, "h:1");
        judge(&TopicName::new("t").unwrap(), "a", &meta, Some(&Facts { info, settings }))
    }

    fn severity(replication: i32, settings: &[(&str, &str)]) -> Option<Severity> {
        let found = judged(replication, settings);
        assert!(found.len() < 2, "{found:?}");
        found.first().map(|finding| finding.severity)
    }

    #[test]
    fn a_sound_topic_has_no_finding() {
        assert_eq!(severity(3, &[("min.insync.replicas", "2"), ("max.message.bytes", "1048588")]), None);
    }

    #[test]
    fn replicas_and_their_minimum_must_fit() {
        assert_eq!(severity(1, &[]), Some(Severity::Note));
        assert_eq!(severity(3, &[("min.insync.replicas", "1")]), Some(Severity::Note));
        assert_eq!(severity(3, &[("min.insync.replicas", "3")]), Some(Severity::Warning));
        assert_eq!(severity(1, &[("min.insync.replicas", "2")]), Some(Severity::Error));
    }

    #[test]
    fn size_limits_must_fit_and_zero_means_closed() {
        let sound = ("min.insync.replicas", "2");
        assert_eq!(severity(3, &[sound, ("max.message.bytes", "0")]), Some(Severity::Error));
        assert_eq!(severity(3, &[sound, ("max.message.bytes", "500000")]), Some(Severity::Warning));
        assert_eq!(severity(3, &[sound, ("max.message.bytes", "9000000")]), Some(Severity::Note));
        assert_eq!(severity(3, &[sound, ("max.message.bytes", "1000000")]), None);
        assert_eq!(
            severity(3, &[sound, ("unclean.leader.election.enable", "true")]),
            Some(Severity::Warning)
        );
    }

    #[test]
    fn a_topic_that_is_not_there_or_has_no_leader_is_an_error() {
        let meta = ClusterMeta::new("/zms/cluster/a", Format::Json, "h:1");
        let name = TopicName::new("t").unwrap();
        assert_eq!(judge(&name, "a", &meta, None)[0].severity, Severity::Error);
        let info = TopicInfo { partitions: 20, leaderless: (0..12).collect(), replication: 3 };
        let settings = BTreeMap::from([("min.insync.replicas".to_owned(), "2".to_owned())]);
        let found = judge(&name, "a", &meta, Some(&Facts { info, settings }));
        assert_eq!(found.len(), 1);
        assert!(found[0].found.ends_with("0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"), "{}", found[0].found);
    }
}
