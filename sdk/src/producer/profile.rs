//! Profiles: what a producer is tuned for, as librdkafka properties that fit one another.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use zms_core::property::{Scope, check, parse_duration, screen, value};

use super::fit::{Numbers, check_idempotence};

/// What sending is tuned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// Nothing acknowledged is lost, order survives retries: `acks=all`, idempotent, linger 5 ms, 30 s to deliver.
    #[default]
    Durable,
    /// Large batches, lz4, linger 50 ms, 120 s to deliver; as safe as [`Durable`](Self::Durable).
    Throughput,
    /// No linger, 10 s to deliver; as safe as [`Durable`](Self::Durable).
    Latency,
    /// librdkafka's own defaults and what you set; nothing is promised about order or loss.
    Custom,
}

/// Settings that cannot work, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProducerConfigError {
    /// A value is not of its kind.
    #[error("{name}={value}: expected {expected}")]
    Invalid {
        /// The setting.
        name: String,
        /// The value found.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A property that the SDK sets itself, or that does not fit how it works.
    #[error("{name} cannot be set: {reason}")]
    Reserved {
        /// The property.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// Two settings contradict each other.
    #[error("{rule}: {left} is {left_value}, {right} is {right_value}")]
    Conflict {
        /// What must hold.
        rule: &'static str,
        /// One setting.
        left: &'static str,
        /// Its value, with its unit.
        left_value: String,
        /// The other.
        right: &'static str,
        /// Its value, with its unit.
        right_value: String,
    },
}

/// Properties of a producer client, checked. Equal settings on one cluster share a client.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) properties: Vec<(String, String)>,
    pub(super) linger: Duration,
    pub(super) delivery_timeout: Duration,
    /// `message.max.bytes`.
    pub(super) max_message: usize,
}

/// The settings as asked for: a profile, and properties by librdkafka's names that win over it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) profile: Profile,
    pub(super) properties: BTreeMap<String, String>,
}

impl fmt::Debug for Settings {
    /// Values of properties are left out: an application may have set a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("properties", &self.properties.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("linger", &self.linger)
            .field("delivery_timeout", &self.delivery_timeout)
            .field("max_message", &self.max_message)
            .finish()
    }
}

impl fmt::Debug for Wish {
    /// Values of properties are left out: an application may have set a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wish")
            .field("profile", &self.profile)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl FromStr for Profile {
    type Err = ProducerConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "durable" => Ok(Self::Durable),
            "throughput" => Ok(Self::Throughput),
            "latency" => Ok(Self::Latency),
            "custom" => Ok(Self::Custom),
            _ => Err(invalid("profile", text, "durable, throughput, latency or custom")),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "durable",
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Custom => "custom",
        })
    }
}

impl Profile {
    fn properties(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Durable => &[
                ("acks", "all"),
                ("enable.idempotence", "true"),
                ("linger.ms", "5"),
                ("message.timeout.ms", "30000"),
                ("request.timeout.ms", "10000"),
            ],
            Self::Throughput => &[
                ("acks", "all"),
                ("batch.num.messages", "100000"),
                ("compression.type", "lz4"),
                ("enable.idempotence", "true"),
                ("linger.ms", "50"),
                ("message.timeout.ms", "120000"),
                ("request.timeout.ms", "30000"),
            ],
            Self::Latency => &[
                ("acks", "all"),
                ("enable.idempotence", "true"),
                ("linger.ms", "0"),
                ("message.timeout.ms", "10000"),
                ("request.timeout.ms", "5000"),
            ],
            Self::Custom => &[],
        }
    }
}

impl Wish {
    /// Sets a librdkafka property.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), ProducerConfigError> {
        let name = canonical(name);
        if let Some((_, reason)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
            return Err(ProducerConfigError::Reserved { name: name.to_owned(), reason });
        }
        self.properties.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// This wish with a topic's overrides from the registry; names that the registry may not set are handed to `unknown`.
    ///
    /// A profile named there replaces the application's profile *and* its properties: they were chosen for another.
    pub(super) fn with_overrides(
        &self,
        overrides: &BTreeMap<String, String>,
        mut unknown: impl FnMut(&str),
    ) -> Result<Self, ProducerConfigError> {
        let mut wish = match overrides.get("profile") {
            Some(profile) => Self { profile: profile.parse()?, properties: BTreeMap::new() },
            None => self.clone(),
        };
        for (name, value) in overrides.iter().filter(|(name, _)| *name != "profile") {
            match OVERRIDES.iter().find(|(known, ..)| known == name) {
                Some((_, property, Kind::Text)) => wish.set(property, value)?,
                Some((_, property, Kind::Duration)) => {
                    let duration = parse_duration(value)
                        .ok_or_else(|| invalid(name, value, "a duration such as 20ms or 5s"))?;
                    wish.set(property, &duration.as_millis().to_string())?;
                }
                // librdkafka's own names.
                None if check(Scope::Producer, name).is_ok() => wish.set(name, value)?,
                None => unknown(name),
            }
        }
        Ok(wish)
    }

    /// Settles what this comes to over the properties of a cluster, with `share`, the bytes that one topic may have in
    /// the send buffer.
    pub(super) fn settle(
        &self,
        cluster: &BTreeMap<String, String>,
        share: usize,
    ) -> Result<Settings, ProducerConfigError> {
        let mut all: BTreeMap<String, String> =
            self.profile.properties().iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        all.extend(self.properties.clone());
        let numbers = Numbers::read(|name| all.get(name).or_else(|| cluster.get(name)))?;
        numbers.check(share)?;
        if self.profile != Profile::Custom {
            check_idempotence(&all)?;
        }
        // The send buffer is the only valve: librdkafka's own limits lie beyond anything that passes it.
        all.insert("queue.buffering.max.messages".to_owned(), "0".to_owned());
        all.insert("queue.buffering.max.kbytes".to_owned(), i32::MAX.to_string());
        Ok(Settings {
            properties: all.into_iter().collect(),
            linger: Duration::from_millis(numbers.linger),
            delivery_timeout: Duration::from_millis(numbers.delivery),
            max_message: usize::try_from(numbers.max_message).unwrap_or(usize::MAX),
        })
    }
}

/// Checks what a topic's registry entry sets for its producers, over the properties of its cluster: what it refuses, no
/// service with default options can open a producer with, while running ones keep the client that they have. Names that
/// the registry may not set are passed over, as producers do.
///
/// How large messages may be beside a service's send buffer is not looked at: each service has its own.
///
/// # Errors
/// [`ProducerConfigError`] names the settings that cannot work, with their values.
pub fn check_overrides(
    overrides: &BTreeMap<String, String>,
    cluster: &BTreeMap<String, String>,
) -> Result<(), ProducerConfigError> {
    let (cluster, _) = screen(Scope::Cluster, cluster);
    let wish = Wish::default().with_overrides(overrides, |_| ())?;
    for (name, value) in &wish.properties {
        if let Some(expected) = value::refused(name, value) {
            return Err(invalid(name, value, expected));
        }
    }
    wish.settle(&cluster, usize::MAX).map(|_| ())
}

/// How large what a topic's producers send may be, by its registry entry and that of its cluster, in a service with
/// default options.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// `message.max.bytes`: the largest message.
    pub message: u64,
    /// `batch.size`: the largest batch of several messages, in bytes.
    pub batch: u64,
    /// `compression.type`.
    pub compression: String,
}

/// The [`Limits`] that a topic's registry entry comes to, over the properties of its cluster.
///
/// # Errors
/// [`ProducerConfigError`] as [`check_overrides`].
pub fn limits(
    overrides: &BTreeMap<String, String>,
    cluster: &BTreeMap<String, String>,
) -> Result<Limits, ProducerConfigError> {
    check_overrides(overrides, cluster)?;
    let (cluster, _) = screen(Scope::Cluster, cluster);
    let settings = Wish::default().with_overrides(overrides, |_| ())?.settle(&cluster, usize::MAX)?;
    let properties: BTreeMap<String, String> = cluster.into_iter().chain(settings.properties).collect();
    let Numbers { batch, max_message: message, .. } = Numbers::read(|name| properties.get(name))?;
    let compression = properties.get("compression.type").map_or_else(|| "none".to_owned(), Clone::clone);
    Ok(Limits { message, batch, compression })
}

enum Kind {
    Text,
    Duration,
}

/// Names of a topic's overrides in the registry, and the properties that they stand for.
const OVERRIDES: &[(&str, &str, Kind)] = &[
    ("batchSize", "batch.size", Kind::Text),
    ("compression", "compression.type", Kind::Text),
    ("deliveryTimeout", "message.timeout.ms", Kind::Duration),
    ("linger", "linger.ms", Kind::Duration),
];

const RESERVED: &[(&str, &str)] = &[
    ("allow.auto.create.topics", "topics are created by operators, never by a send"),
    ("bootstrap.servers", "the registry says where the cluster is"),
    ("client.id", "the SDK names its clients"),
    ("delivery.report.only.error", "every send waits for its report"),
    ("enable.gapless.guarantee", "it makes ordinary failures fatal"),
    ("plugin.library.paths", "it loads code"),
    ("queue.buffering.max.kbytes", "the send buffer is the only limit; set `buffer`"),
    ("queue.buffering.max.messages", "the send buffer is the only limit; set `buffer`"),
    ("transaction.timeout.ms", TRANSACTIONS),
    ("transactional.id", TRANSACTIONS),
];

/// Beside what it says: a topic that is moved counts as read when its log was read to the end, and the markers of
/// transactions would make that unreadable.
const TRANSACTIONS: &str =
    "transactions do not span clusters, and closing a topic that moves would block their markers";

/// librdkafka knows some properties by two names; one of them is used here.
fn canonical(name: &str) -> &str {
    match name {
        "queue.buffering.max.ms" => "linger.ms",
        "delivery.timeout.ms" => "message.timeout.ms",
        "request.required.acks" => "acks",
        "compression.codec" => "compression.type",
        "metadata.broker.list" => "bootstrap.servers",
        "max.in.flight" => "max.in.flight.requests.per.connection",
        other => other,
    }
}

pub(super) fn invalid(name: &str, value: &str, expected: &'static str) -> ProducerConfigError {
    ProducerConfigError::Invalid { name: name.to_owned(), value: value.to_owned(), expected }
}

pub(super) fn conflict(
    rule: &'static str,
    (left, left_value): (&'static str, String),
    (right, right_value): (&'static str, String),
) -> ProducerConfigError {
    ProducerConfigError::Conflict { rule, left, left_value, right, right_value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: usize = 16 << 20;

    fn overrides(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn settle(entries: &[(&str, &str)]) -> Result<Settings, ProducerConfigError> {
        Wish::default()
            .with_overrides(&overrides(entries), |name| panic!("unknown {name}"))?
            .settle(&BTreeMap::new(), SHARE)
    }

    fn property<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
        settings.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn the_default_is_durable() {
        let settings = settle(&[]).unwrap();
        assert_eq!(property(&settings, "acks"), Some("all"));
        assert_eq!(property(&settings, "enable.idempotence"), Some("true"));
        assert_eq!(settings.delivery_timeout, Duration::from_secs(30));
    }

    #[test]
    fn every_profile_is_free_of_contradictions() {
        for profile in ["durable", "throughput", "latency", "custom"] {
            let settings = settle(&[("profile", profile)]).unwrap();
            assert_eq!(profile.parse::<Profile>().unwrap().to_string(), profile);
            assert!(settings.linger < settings.delivery_timeout);
        }
    }

    #[test]
    fn equal_results_are_equal_whatever_way_they_were_asked_for() {
        assert_eq!(settle(&[("linger", "5ms")]).unwrap(), settle(&[]).unwrap());
        let mut wish = Wish::default();
        wish.set("queue.buffering.max.ms", "20").unwrap();
        assert_eq!(wish.settle(&BTreeMap::new(), SHARE).unwrap(), settle(&[("linger", "20ms")]).unwrap());
    }

    #[test]
    fn contradictions_are_refused_with_their_numbers() {
        let error = |entries: &[(&str, &str)]| settle(entries).unwrap_err().to_string();
        let text = error(&[("linger", "40s")]);
        assert!(text.contains("40000 ms") && text.contains("30000 ms"), "{text}");
        let text = error(&[("request.timeout.ms", "30000")]);
        assert!(text.contains("30005 ms") && text.contains("30000 ms"), "{text}");
        let text = error(&[("batchSize", "2000000")]);
        assert!(text.contains("2000000 bytes") && text.contains("1000000 bytes"), "{text}");
        let own = |profile: Profile, name: &str, value: &str| {
            let mut wish = Wish { profile, ..Wish::default() };
            wish.set(name, value).unwrap();
            wish.settle(&BTreeMap::new(), SHARE)
        };
        let text = own(Profile::Durable, "message.max.bytes", "99000000").unwrap_err().to_string();
        assert!(text.contains("99000000 bytes") && text.contains("16777216 bytes"), "{text}");
        let text = own(Profile::Durable, "max.in.flight", "10").unwrap_err().to_string();
        assert!(text.contains("is 10") && text.contains("1 to 5"), "{text}");
        assert!(own(Profile::Custom, "max.in.flight", "10").is_ok());
        let mut wish = Wish::default();
        wish.set("acks", "1").unwrap();
        assert!(matches!(
            wish.settle(&BTreeMap::new(), SHARE),
            Err(ProducerConfigError::Conflict { left: "acks", .. })
        ));
    }

    #[test]
    fn values_that_are_none_and_names_that_are_reserved_are_refused() {
        assert!(matches!(settle(&[("linger", "soon")]), Err(ProducerConfigError::Invalid { .. })));
        assert!(matches!(settle(&[("profile", "fast")]), Err(ProducerConfigError::Invalid { .. })));
        assert!(matches!(settle(&[("deliveryTimeout", "0s")]), Err(ProducerConfigError::Invalid { .. })));
        let reserved = Wish::default().set("metadata.broker.list", "x:1").unwrap_err();
        assert!(matches!(reserved, ProducerConfigError::Reserved { .. }));
    }

    #[test]
    fn producers_are_idempotent_unless_they_are_custom_and_nothing_weakens_that_unnoticed() {
        for profile in ["durable", "throughput", "latency"] {
            let settings = settle(&[("profile", profile)]).unwrap();
            assert_eq!(property(&settings, "enable.idempotence"), Some("true"), "{profile}");
            assert_eq!(property(&settings, "acks"), Some("all"), "{profile}");
        }
        assert_eq!(property(&settle(&[("profile", "custom")]).unwrap(), "enable.idempotence"), None);
        for (name, value) in [("acks", "1"), ("max.in.flight", "6")] {
            let mut wish = Wish::default();
            wish.set(name, value).unwrap();
            assert!(wish.settle(&BTreeMap::new(), SHARE).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn transactions_cannot_be_had_from_the_registry_either() {
        let mut named = Vec::new();
        let found = overrides(&[("transactional.id", "t"), ("transaction.timeout.ms", "1000")]);
        let wish = Wish::default().with_overrides(&found, |name| named.push(name.to_owned())).unwrap();
        assert_eq!(named, ["transaction.timeout.ms", "transactional.id"]);
        let settings = wish.settle(&BTreeMap::new(), SHARE).unwrap();
        assert_eq!(property(&settings, "transactional.id"), None);
        for scope in [Scope::Cluster, Scope::Producer] {
            let refused = check(scope, "transactional.id").unwrap_err();
            assert!(refused.reason.contains("no part of the SDK"), "{refused}");
        }
    }

    #[test]
    fn limits_of_the_cluster_are_taken_into_account() {
        let cluster = overrides(&[("message.max.bytes", "3000000")]);
        let settings = Wish::default().settle(&cluster, SHARE).unwrap();
        assert_eq!(settings.max_message, 3_000_000);
        assert_eq!(property(&settings, "message.max.bytes"), None, "the cluster's own property says it");
        assert!(Wish::default().settle(&cluster, 2_000_000).is_err());
    }

    #[test]
    fn overrides_that_the_registry_may_not_set_are_named_and_passed_over() {
        let mut named = Vec::new();
        let found = overrides(&[
            ("acks", "0"),
            ("lingr", "5ms"),
            ("linger", "7ms"),
            ("plugin.library.paths", "evil.so"),
        ]);
        let wish = Wish::default().with_overrides(&found, |name| named.push(name.to_owned())).unwrap();
        assert_eq!(named, ["acks", "lingr", "plugin.library.paths"]);
        let settings = wish.settle(&BTreeMap::new(), SHARE).unwrap();
        assert_eq!(settings.linger, Duration::from_millis(7));
        assert_eq!(property(&settings, "acks"), Some("all"));
        assert_eq!(property(&settings, "plugin.library.paths"), None);
    }

    #[test]
    fn overrides_are_checked_over_the_properties_of_their_cluster() {
        let none = BTreeMap::new();
        let small = overrides(&[("message.max.bytes", "200000")]);
        let batch = overrides(&[("batchSize", "500000")]);
        assert_eq!(check_overrides(&batch, &none), Ok(()));
        let text = check_overrides(&batch, &small).unwrap_err().to_string();
        assert!(text.contains("500000 bytes") && text.contains("200000 bytes"), "{text}");
        assert!(check_overrides(&overrides(&[("linger", "40s")]), &none).is_err());
        assert_eq!(
            check_overrides(&overrides(&[("linger", "40s"), ("deliveryTimeout", "60s")]), &none),
            Ok(())
        );
        let text = check_overrides(&overrides(&[("compression", "gzipp")]), &none).unwrap_err().to_string();
        assert_eq!(text, "compression.type=gzipp: expected none, gzip, snappy, lz4 or zstd");
        let large = overrides(&[("message.max.bytes", "99000000")]);
        assert_eq!(check_overrides(&none, &large), Ok(()), "a service may have a larger buffer");
        let unused = overrides(&[("linger.ms", "40000")]);
        assert_eq!(check_overrides(&none, &unused), Ok(()), "a cluster may not set it");
    }

    #[test]
    fn values_that_are_refused_are_those_that_no_producer_can_be_created_with() {
        for (name, value, works) in [
            ("compression", "snappy", true),
            ("compression", "gzipp", false),
            ("compression.level", "-1", true),
            ("compression.level", "13", false),
            ("partitioner", "fnv1a_random", true),
            ("partitioner", "java", false),
            ("batch.num.messages", "1000000", true),
            ("batch.num.messages", "0", false),
            ("sticky.partitioning.linger.ms", "900001", false),
            ("linger.ms", "0.5", true),
        ] {
            let found = overrides(&[(name, value)]);
            assert_eq!(check_overrides(&found, &BTreeMap::new()).is_ok(), works, "{name}={value}");
            let mut config = rdkafka::ClientConfig::new();
            config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
            config.extend(settle(&[(name, value)]).unwrap().properties);
            let created: Result<rdkafka::producer::BaseProducer, _> = config.create();
            assert_eq!(created.is_ok(), works, "{name}={value}: {:?}", created.err());
        }
    }

    #[test]
    fn limits_are_those_of_the_entries() {
        let none = BTreeMap::new();
        let Limits { message, batch, compression } = limits(&none, &none).unwrap();
        assert_eq!((message, batch, compression.as_str()), (1_000_000, 1_000_000, "none"));
        let cluster = overrides(&[("message.max.bytes", "400000")]);
        let topic = overrides(&[("profile", "throughput"), ("batchSize", "100000")]);
        let Limits { message, batch, compression } = limits(&topic, &cluster).unwrap();
        assert_eq!((message, batch, compression.as_str()), (400_000, 100_000, "lz4"));
        assert_eq!(limits(&none, &cluster).unwrap().batch, 400_000);
        assert!(limits(&overrides(&[("batchSize", "500000")]), &cluster).is_err());
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!(parse_duration("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(parse_duration("2 m"), Some(Duration::from_secs(120)));
        assert_eq!(parse_duration("7"), Some(Duration::from_millis(7)));
        assert_eq!(parse_duration("99999999999999999999s"), None);
        assert_eq!(parse_duration("18446744073709551615h"), None);
        assert_eq!(parse_duration("-1s"), None);
    }
}
