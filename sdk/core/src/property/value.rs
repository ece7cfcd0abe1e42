//! Which values librdkafka takes for the properties that a topic's or a group's node may set.

/// What librdkafka expects of a property, if it would not take this value; `None` also for properties whose values are
/// not known here, and for references, which each client resolves for itself.
pub fn refused(name: &str, value: &str) -> Option<&'static str> {
    if super::is_reference(value) {
        return None;
    }
    let (_, accepted, expected) = VALUES.iter().find(|(known, ..)| *known == name)?;
    let is_taken = match accepted {
        Within(least, most) => value.parse().is_ok_and(|number: i64| (*least..=*most).contains(&number)),
        Fraction(most) => value.parse().is_ok_and(|number: f64| (0.0..=*most).contains(&number)),
        OneOf(words) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
        SomeOf(words) => value.split(',').all(|part| words.contains(&part.trim())),
    };
    (!is_taken).then_some(expected)
}

enum Accepted {
    Within(i64, i64),
    Fraction(f64),
    OneOf(&'static [&'static str]),
    SomeOf(&'static [&'static str]),
}

use Accepted::{Fraction, OneOf, SomeOf, Within};

const CODECS: (Accepted, &str) =
    (OneOf(&["none", "gzip", "snappy", "lz4", "zstd"]), "none, gzip, snappy, lz4 or zstd");
const LINGER: (Accepted, &str) = (Fraction(900_000.0), "a number from 0 to 900000");
const DELIVERY: (Accepted, &str) = (Within(0, 2_147_483_647), "a number from 0 to 2147483647");
const FETCH: (Accepted, &str) = (Within(1, 1_000_000_000), "a number from 1 to 1000000000");
const PAUSE: (Accepted, &str) = (Within(0, 300_000), "a number from 0 to 300000");
const SESSION: (Accepted, &str) = (Within(1, 3_600_000), "a number from 1 to 3600000");

const VALUES: &[(&str, Accepted, &str)] = &[
    ("linger.ms", LINGER.0, LINGER.1),
    ("queue.buffering.max.ms", LINGER.0, LINGER.1),
    ("batch.size", Within(1, 2_147_483_647), "a number from 1 to 2147483647"),
    ("batch.num.messages", Within(1, 1_000_000), "a number from 1 to 1000000"),
    ("compression.type", CODECS.0, CODECS.1),
    ("compression.codec", CODECS.0, CODECS.1),
    ("compression.level", Within(-1, 12), "a number from -1 to 12"),
    ("delivery.timeout.ms", DELIVERY.0, DELIVERY.1),
    ("message.timeout.ms", DELIVERY.0, DELIVERY.1),
    ("request.timeout.ms", Within(1, 900_000), "a number from 1 to 900000"),
    ("sticky.partitioning.linger.ms", Within(0, 900_000), "a number from 0 to 900000"),
    (
        "partitioner",
        OneOf(&[
            "random",
            "consistent",
            "consistent_random",
            "murmur2",
            "murmur2_random",
            "fnv1a",
            "fnv1a_random",
        ]),
        "random, consistent, consistent_random, murmur2, murmur2_random, fnv1a or fnv1a_random",
    ),
    ("fetch.min.bytes", Within(1, 100_000_000), "a number from 1 to 100000000"),
    ("fetch.max.bytes", Within(0, 2_147_483_135), "a number from 0 to 2147483135"),
    ("fetch.wait.max.ms", PAUSE.0, PAUSE.1),
    ("fetch.error.backoff.ms", PAUSE.0, PAUSE.1),
    ("fetch.message.max.bytes", FETCH.0, FETCH.1),
    ("max.partition.fetch.bytes", FETCH.0, FETCH.1),
    ("session.timeout.ms", SESSION.0, SESSION.1),
    ("heartbeat.interval.ms", SESSION.0, SESSION.1),
    ("max.poll.interval.ms", Within(1, 86_400_000), "a number from 1 to 86400000"),
    (
        "partition.assignment.strategy",
        SomeOf(&["range", "roundrobin", "cooperative-sticky"]),
        "range, roundrobin or cooperative-sticky",
    ),
    ("group.protocol", OneOf(&["classic", "consumer"]), "classic or consumer"),
    ("isolation.level", OneOf(&["read_uncommitted", "read_committed"]), "read_uncommitted or read_committed"),
    ("check.crcs", OneOf(&["true", "t", "1", "false", "f", "0"]), "true or false"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_known_properties_are_judged_and_all_others_left_alone() {
        for (name, value) in [
            ("linger.ms", "0.5"),
            ("compression.type", "LZ4"),
            ("compression.level", "-1"),
            ("partition.assignment.strategy", "range, roundrobin"),
            ("fetch.min.bytes", "${env:BYTES}"),
            ("group.remote.assignor", "anything"),
        ] {
            assert_eq!(refused(name, value), None, "{name}={value}");
        }
        for (name, value) in [
            ("linger.ms", "NaN"),
            ("batch.num.messages", "0"),
            ("batch.num.messages", "1.5"),
            ("compression.type", "gzipp"),
            ("partition.assignment.strategy", "sticky"),
            ("session.timeout.ms", "3600001"),
            ("check.crcs", "yes"),
            ("check.crcs", ""),
        ] {
            assert!(refused(name, value).is_some(), "{name}={value}");
        }
    }

    #[test]
    fn every_property_that_a_topic_or_a_group_may_set_is_known_here() {
        let settable = crate::property::PRODUCER.iter().chain(crate::property::CONSUMER);
        for name in settable.filter(|name| **name != "group.remote.assignor") {
            assert!(VALUES.iter().any(|(known, ..)| known == name), "{name}");
        }
    }
}
