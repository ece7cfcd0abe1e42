//! Which settings the registry may make: an allow-list of librdkafka properties, and the SDK's own tuning keys.
//!
//! Registry data is untrusted. A property that is not listed here is dropped with a reason and never fatal: one bad
//! line must not stop a service that worked without it. A service's own configuration is not bound by this list.

pub mod value;

use std::{collections::BTreeMap, fmt, time::Duration};

/// Which node's settings are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `properties` of a cluster node: librdkafka properties that every client of the cluster shares.
    Cluster,
    /// `producer` of a topic node: tuning keys and librdkafka producer properties.
    Producer,
    /// `consumer` of a group node: tuning keys and librdkafka consumer properties.
    Consumer,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "the properties of a cluster",
            Self::Producer => "the producer settings of a topic",
            Self::Consumer => "the consumer settings of a group",
        })
    }
}

/// A setting that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its name.
    pub name: String,
    /// Why, in words; never shows the value.
    pub reason: String,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

/// Splits settings into those that the registry may make and those that it may not.
pub fn screen(scope: Scope, settings: &BTreeMap<String, String>) -> (BTreeMap<String, String>, Vec<Dropped>) {
    let mut accepted = BTreeMap::new();
    let mut dropped = Vec::new();
    for (name, value) in settings {
        match check(scope, name) {
            Ok(()) => {
                accepted.insert(name.clone(), value.clone());
            }
            Err(refused) => dropped.push(refused),
        }
    }
    (accepted, dropped)
}

/// Whether the registry may make a setting.
///
/// # Errors
/// [`Dropped`] with the reason when not.
pub fn check(scope: Scope, name: &str) -> Result<(), Dropped> {
    if allowed(scope, name) {
        return Ok(());
    }
    let excluded = EXCLUDED.iter().find(|(excluded, _)| *excluded == name);
    let elsewhere =
        [Scope::Cluster, Scope::Producer, Scope::Consumer].into_iter().find(|&other| allowed(other, name));
    let reason = match (excluded, elsewhere) {
        (Some((_, reason)), _) => (*reason).to_owned(),
        (None, Some(other)) => format!("has no effect in {scope}; set it in {other}"),
        (None, None) => unknown(scope, name),
    };
    Err(Dropped { name: name.to_owned(), reason })
}

/// Names what may have been meant, or else what there is.
fn unknown(scope: Scope, name: &str) -> String {
    let reason = format!("not one of {scope}");
    if let Some(known) = nearest(scope, name) {
        return format!("{reason}; did you mean {known}?");
    }
    let tuning = match scope {
        Scope::Cluster => return format!("{reason}, which say how to reach it, by librdkafka's names"),
        Scope::Producer => PRODUCER_TUNING,
        Scope::Consumer => CONSUMER_TUNING,
    };
    format!("{reason}, which are {} and some of librdkafka's", tuning.join(", "))
}

/// The known name that a misspelt one stands for.
fn nearest(scope: Scope, name: &str) -> Option<&'static str> {
    /// What is longer is no misspelling, and not worth the comparison.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let distance = |known: &str| distance(&name.to_lowercase(), &known.to_lowercase());
    let (distance, known) = names(scope).map(|known| (distance(known), known)).min()?;
    (distance <= 2.min(known.len() / 3)).then_some(known)
}

/// How many letters must be put in, left out or exchanged to make one text of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in other.chars().enumerate() {
            let exchanged = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.chars().count()]
}

/// Whether a property's value must not stand in the registry in plain text.
pub fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
}

/// Whether a value is a reference that each client resolves for itself: `${env:NAME}` or `${file:/path}`.
pub fn is_reference(value: &str) -> bool {
    let inner = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let target = inner.and_then(|inner| inner.strip_prefix("env:").or_else(|| inner.strip_prefix("file:")));
    target.is_some_and(|target| !target.is_empty() && !target.contains(['{', '}']))
}

/// Reads a duration as nodes write it: `20ms`, `5s`, `2m`, `1h`; a bare number is in milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

fn allowed(scope: Scope, name: &str) -> bool {
    names(scope).any(|known| known == name)
}

fn names(scope: Scope) -> impl Iterator<Item = &'static str> {
    let (tuning, properties): (&[&str], _) = match scope {
        Scope::Cluster => (&[], CLUSTER),
        Scope::Producer => (PRODUCER_TUNING, PRODUCER),
        Scope::Consumer => (CONSUMER_TUNING, CONSUMER),
    };
    tuning.iter().chain(properties).copied()
}

/// The SDK's own keys in `producer` of a topic node.
pub const PRODUCER_TUNING: &[&str] = &["profile", "linger", "batchSize", "compression", "deliveryTimeout"];

/// The SDK's own keys in `consumer` of a group node.
pub const CONSUMER_TUNING: &[&str] = &["maxPollInterval", "sessionTimeout"];

/// librdkafka properties that a cluster node may set: how to reach the brokers and who one is there.
const CLUSTER: &[&str] = &[
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.cipher.suites",
    "ssl.curves.list",
    "ssl.sigalgs.list",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.crl.location",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm",
    "https.ca.location",
    "https.ca.pem",
    "message.max.bytes",
    "receive.message.max.bytes",
    "message.copy.max.bytes",
    "client.dns.lookup",
    "broker.address.ttl",
    "broker.address.family",
    "socket.timeout.ms",
    "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    "socket.keepalive.enable",
    "socket.nagle.disable",
    "socket.max.fails",
    "socket.connection.setup.timeout.ms",
    "connections.max.idle.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "metadata.max.age.ms",
    "metadata.recovery.strategy",
    "metadata.recovery.rebootstrap.trigger.ms",
    "topic.metadata.refresh.interval.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.sparse",
    "topic.metadata.propagation.max.ms",
];

/// librdkafka properties that a topic node may set. `partitioner` is among them: which partition a key goes to is a
/// property of the topic that all its producers must agree on, so the registry is the right place to state it.
const PRODUCER: &[&str] = &[
    "linger.ms",
    "queue.buffering.max.ms",
    "batch.size",
    "batch.num.messages",
    "compression.type",
    "compression.codec",
    "compression.level",
    "delivery.timeout.ms",
    "message.timeout.ms",
    "request.timeout.ms",
    "sticky.partitioning.linger.ms",
    "partitioner",
];

/// librdkafka properties that a group node may set. The assignment strategy is among them: members of one group,
/// Java's too, must share it.
const CONSUMER: &[&str] = &[
    "fetch.min.bytes",
    "fetch.max.bytes",
    "fetch.wait.max.ms",
    "fetch.error.backoff.ms",
    "fetch.message.max.bytes",
    "max.partition.fetch.bytes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "group.protocol",
    "group.remote.assignor",
    "isolation.level",
    "check.crcs",
];

const SECRETS: &[&str] = &[
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
];

const CODE: &str = "makes the client load and run code of the registry's choice";
const IDENTITY: &str = "the SDK sets it from the registry's own names";
const POSITIONS: &str = "the SDK commits positions itself, only of what was handled";
const MEMORY: &str = "the SDK derives it from its own memory limits";
const TRANSACTIONS: &str = "transactions are no part of the SDK, and closing a topic would block them";
const DURABILITY: &str =
    "weakens what an acknowledgement means; a service chooses that by its producer profile";
const ORDER: &str = "can change the order of messages; a service chooses that by its producer profile";
const SECURITY: &str = "weakens authentication of brokers for every service at once";
const PER_CLIENT: &str = "differs from client to client; set it in the service's own configuration";
const FILES: &str = "would send local files or signatures to an address of the registry's choice";
const OBSERVED: &str = "the SDK reads the client's statistics and logs itself";

/// Properties that are left out for a reason worth saying. All others that are not listed above are left out because
/// nobody needed them yet.
const EXCLUDED: &[(&str, &str)] = &[
    ("plugin.library.paths", CODE),
    ("ssl.engine.location", CODE),
    ("ssl.engine.id", CODE),
    ("ssl.providers", CODE),
    ("sasl.kerberos.kinit.cmd", CODE),
    ("interceptors", CODE),
    ("opaque", CODE),
    ("client.id", IDENTITY),
    ("group.id", IDENTITY),
    ("bootstrap.servers", "the cluster node's bootstrap servers are the one place for it"),
    ("metadata.broker.list", "the cluster node's bootstrap servers are the one place for it"),
    ("group.instance.id", PER_CLIENT),
    ("client.rack", PER_CLIENT),
    ("enable.auto.commit", POSITIONS),
    ("auto.commit.enable", POSITIONS),
    ("auto.commit.interval.ms", POSITIONS),
    ("enable.auto.offset.store", POSITIONS),
    ("offset.store.method", POSITIONS),
    ("offset.store.path", POSITIONS),
    ("offset.store.sync.interval.ms", POSITIONS),
    ("enable.partition.eof", POSITIONS),
    ("auto.offset.reset", "the group node's consumeFrom is the one place for it"),
    ("allow.auto.create.topics", "a topic created by accident on the wrong cluster would split its messages"),
    ("transactional.id", TRANSACTIONS),
    ("transaction.timeout.ms", TRANSACTIONS),
    ("queue.buffering.max.messages", MEMORY),
    ("queue.buffering.max.kbytes", MEMORY),
    ("queue.buffering.backpressure.threshold", MEMORY),
    ("queued.min.messages", MEMORY),
    ("queued.max.messages.kbytes", MEMORY),
    ("fetch.queue.backoff.ms", MEMORY),
    ("acks", DURABILITY),
    ("request.required.acks", DURABILITY),
    ("retries", DURABILITY),
    ("message.send.max.retries", DURABILITY),
    ("enable.idempotence", ORDER),
    ("enable.gapless.guarantee", ORDER),
    ("max.in.flight", ORDER),
    ("max.in.flight.requests.per.connection", ORDER),
    ("queuing.strategy", ORDER),
    ("delivery.report.only.error", "the SDK needs every delivery report"),
    ("produce.offset.report", "the SDK needs every delivery report"),
    ("enable.ssl.certificate.verification", SECURITY),
    ("enable.sasl.oauthbearer.unsecure.jwt", SECURITY),
    ("sasl.oauthbearer.config", SECURITY),
    ("sasl.oauthbearer.assertion.file", FILES),
    ("sasl.oauthbearer.assertion.private.key.file", FILES),
    ("sasl.oauthbearer.assertion.jwt.template.file", FILES),
    ("debug", OBSERVED),
    ("log_level", OBSERVED),
    ("log.queue", OBSERVED),
    ("statistics.interval.ms", OBSERVED),
    ("enable.metrics.push", OBSERVED),
    ("test.mock.num.brokers", "would replace the cluster by one in the process"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPES: [Scope; 3] = [Scope::Cluster, Scope::Producer, Scope::Consumer];

    #[test]
    fn nothing_excluded_is_allowed_anywhere() {
        for (name, reason) in EXCLUDED {
            for scope in SCOPES {
                assert_eq!(
                    check(scope, name),
                    Err(Dropped { name: (*name).to_owned(), reason: (*reason).to_owned() })
                );
            }
        }
    }

    #[test]
    fn no_property_is_listed_twice() {
        let lists = [CLUSTER, PRODUCER, CONSUMER, PRODUCER_TUNING, CONSUMER_TUNING];
        let mut all: Vec<&str> = lists.concat();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_reference_is_no_plain_text() {
        for reference in ["${env:KAFKA_PW}", "${file:/run/secrets/kafka}"] {
            assert!(is_reference(reference), "{reference}");
        }
        for plain in ["hunter2", "${env:}", "${KAFKA_PW}", "x${env:A}", "${env:A}x", "${env:A}${env:B}", ""] {
            assert!(!is_reference(plain), "{plain}");
        }
        assert!(SECRETS.iter().all(|secret| CLUSTER.contains(secret)));
    }

    #[test]
    fn a_property_in_the_wrong_node_is_sent_to_the_right_one() {
        assert_eq!(check(Scope::Cluster, "security.protocol"), Ok(()));
        assert_eq!(check(Scope::Producer, "partitioner"), Ok(()));
        let refused = check(Scope::Cluster, "linger.ms").unwrap_err();
        assert!(refused.reason.ends_with("set it in the producer settings of a topic"), "{}", refused.reason);
        let refused = check(Scope::Consumer, "partitioner").unwrap_err();
        assert!(refused.reason.ends_with("set it in the producer settings of a topic"), "{}", refused.reason);
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_right_one_and_any_other_with_those_there_are() {
        let reason = |scope, name| check(scope, name).unwrap_err().to_string();
        for (scope, name, meant) in [
            (Scope::Producer, "lingr", "linger"),
            (Scope::Producer, "batchsize", "batchSize"),
            (Scope::Consumer, "sesionTimeout", "sessionTimeout"),
            (Scope::Consumer, "fetch.min.byte", "fetch.min.bytes"),
            (Scope::Cluster, "sasl.mechanim", "sasl.mechanism"),
        ] {
            let words = reason(scope, name);
            assert!(words.ends_with(&format!("; did you mean {meant}?")), "{words}");
        }
        assert_eq!(
            reason(Scope::Producer, "speed"),
            "speed: not one of the producer settings of a topic, which are profile, linger, batchSize, compression, \
             deliveryTimeout and some of librdkafka's"
        );
        let words = reason(Scope::Consumer, "x");
        assert!(words.contains("maxPollInterval, sessionTimeout"), "{words}");
        for far in ["no.such.thing", &"linger".repeat(20)] {
            assert!(!reason(Scope::Cluster, far).contains("did you mean"));
        }
    }

    #[test]
    fn the_distance_of_two_texts_counts_letters() {
        for (one, other, expected) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("linger", "lingr", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn an_unknown_property_is_dropped_and_the_rest_kept() {
        let settings = [("sasl.username", "svc"), ("no.such.thing", "hidden"), ("client.id", "x")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let (accepted, dropped) = screen(Scope::Cluster, &settings);
        assert_eq!(
            accepted.into_iter().collect::<Vec<_>>(),
            [("sasl.username".to_owned(), "svc".to_owned())]
        );
        assert_eq!(dropped.len(), 2);
        assert!(dropped.iter().all(|dropped| !dropped.to_string().contains("hidden")));
    }
}
