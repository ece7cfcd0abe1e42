//! Whether what producers send fits what brokers take: sizes on their way from a batch to its replicas.

use std::collections::BTreeMap;

use zms_sdk::{engine::port::BrokerSettings, producer::Limits};

use super::finding::Finding;

/// What a record costs around its payload and key: by Kafka's defaults `replica.fetch.max.bytes` lies so much below the
/// largest message, and nobody chose that.
const OVERHEAD: u64 = 12;

/// Judges the brokers of a cluster against the messages that its producers may send by the cluster's entry.
pub(super) fn cluster(name: &str, brokers: &[BrokerSettings], client: u64) -> Vec<Finding> {
    let subject = format!("cluster {name}");
    let mut findings = Vec::new();
    if let Some((low, high)) = range(brokers, "message.max.bytes").filter(|(low, high)| low < high) {
        findings.push(
            Finding::warning(
                &subject,
                format!("message.max.bytes is {low} on one broker and {high} on another"),
            )
            .means("which messages a topic takes depends on the broker that leads its partition")
            .todo("give all brokers the same, or the topics a max.message.bytes of their own"),
        );
    }
    if let Some((broker, limit)) = least(brokers, "message.max.bytes").filter(|(_, limit)| *limit < client) {
        findings.push(
            Finding::warning(
                &subject,
                format!("message.max.bytes of broker {broker} is {limit}, below the clients' of {client}"),
            )
            .means("topics without a limit of their own refuse messages that clients take, and full batches of smaller ones")
            .todo(format!(
                "raise the brokers' limit, or `zmsctl cluster set {name} --property message.max.bytes={limit}`"
            )),
        );
    }
    if let Some((broker, limit)) = least(brokers, "socket.request.max.bytes")
        .filter(|(_, limit)| *limit < client.saturating_add(OVERHEAD))
    {
        findings.push(
            Finding::error(
                &subject,
                format!("socket.request.max.bytes of broker {broker} is {limit}, below the clients' message.max.bytes of {client}"),
            )
            .means("the broker cuts the connection of whoever sends such a message; its sends fail as timed out, and others with them")
            .todo(format!("`zmsctl cluster set {name} --property message.max.bytes={}`, or raise the brokers' limit", limit / 2)),
        );
    }
    findings
}

/// Judges a topic's limits against the brokers that it lives on and the settings that the registry makes for its
/// producers.
pub(super) fn topic(
    subject: &str,
    settings: &BTreeMap<String, String>,
    brokers: &[BrokerSettings],
    limits: &Limits,
) -> Vec<Finding> {
    let largest = number(settings, "max.message.bytes");
    let replica = largest.and_then(|largest| {
        let (broker, limit) = least(brokers, "replica.fetch.max.bytes")?;
        (largest > limit.saturating_add(OVERHEAD)).then(|| {
            Finding::note(
                subject,
                format!("max.message.bytes is {largest}, above replica.fetch.max.bytes of broker {broker}, {limit}"),
            )
            .means("replicas copy a larger message by itself, one for each request, and fall behind if there are many; before Kafka 0.10.1 they stop")
            .todo("raise replica.fetch.max.bytes of the brokers to the largest message of any topic")
        })
    });
    let own =
        settings.get("compression.type").filter(|own| !matches!(own.as_str(), "producer" | "uncompressed"));
    let compression = own.filter(|own| **own != limits.compression).map(|own| {
        Finding::note(subject, format!("compression.type is {own}, the producers' is {}", limits.compression))
            .means("the broker compresses every batch anew, at its own cost")
            .todo("set compression.type=producer on the topic, or the same `compression` for its producers")
    });
    replica.into_iter().chain(compression).collect()
}

fn least(brokers: &[BrokerSettings], name: &str) -> Option<(i32, u64)> {
    let told = brokers.iter().filter_map(|it| Some((it.broker, number(&it.settings, name)?)));
    told.min_by_key(|(_, value)| *value)
}

fn range(brokers: &[BrokerSettings], name: &str) -> Option<(u64, u64)> {
    let values = || brokers.iter().filter_map(|it| number(&it.settings, name));
    Some((values().min()?, values().max()?))
}

fn number(settings: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    settings.get(name)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use zms_sdk::producer;

    use super::{super::finding::Severity, *};

    fn settings(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// As Kafka is by default.
    fn broker(broker: i32, changed: &[(&str, &str)]) -> BrokerSettings {
        let mut all = settings(&[
            ("message.max.bytes", "1048588"),
            ("replica.fetch.max.bytes", "1048576"),
            ("socket.request.max.bytes", "104857600"),
        ]);
        all.extend(settings(changed));
        BrokerSettings { broker, settings: all }
    }

    fn limits(overrides: &[(&str, &str)]) -> Limits {
        producer::limits(&settings(overrides), &BTreeMap::new()).unwrap()
    }

    #[test]
    fn the_defaults_of_broker_topic_and_producer_fit() {
        let brokers = [broker(1, &[]), broker(2, &[])];
        assert_eq!(cluster("a", &brokers, 1_000_000), []);
        let defaults = settings(&[("max.message.bytes", "1048588"), ("compression.type", "producer")]);
        assert_eq!(topic("topic t", &defaults, &brokers, &limits(&[])), []);
        assert_eq!(cluster("a", &[], 1_000_000), []);
        assert_eq!(topic("topic t", &BTreeMap::new(), &[], &limits(&[])), []);
    }

    #[test]
    fn brokers_that_take_less_than_clients_send_or_differ_are_warned_of() {
        let brokers = [broker(1, &[]), broker(2, &[("message.max.bytes", "500000")])];
        let found = cluster("a", &brokers, 1_000_000);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].found.contains("500000 on one broker and 1048588 on another"));
        assert!(found[1].found.contains("broker 2 is 500000, below the clients' of 1000000"));
        assert!(found[1].action.contains("--property message.max.bytes=500000"));
        let narrow =
            [broker(1, &[("message.max.bytes", "9000000"), ("socket.request.max.bytes", "4000000")])];
        let found = cluster("a", &narrow, 5_000_000);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert!(found[0].found.contains("socket.request.max.bytes of broker 1 is 4000000"));
    }

    #[test]
    fn a_topic_that_replicas_or_batches_do_not_fit_is_noted() {
        let large = settings(&[("max.message.bytes", "9000000")]);
        let found = topic("topic t", &large, &[broker(3, &[])], &limits(&[]));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Note));
        assert!(found[0].found.contains("replica.fetch.max.bytes of broker 3, 1048576"));
        let zstd = settings(&[("compression.type", "zstd")]);
        let found = topic("topic t", &zstd, &[], &limits(&[("profile", "throughput")]));
        assert!(found[0].found.contains("compression.type is zstd, the producers' is lz4"), "{found:?}");
        assert_eq!(topic("topic t", &zstd, &[], &limits(&[("compression", "zstd")])), []);
    }
}
