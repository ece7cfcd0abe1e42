//! What the registry sets for a group's consumers.

use std::collections::BTreeMap;

use zms_core::property::{Scope, check, parse_duration, value};

/// The SDK's own names of durations in a group's node, and the properties that they stand for.
const DURATIONS: [(&str, &str); 2] =
    [("maxPollInterval", "max.poll.interval.ms"), ("sessionTimeout", "session.timeout.ms")];

/// Checks what a group's registry entry sets for its consumers, as far as that can be told without a client: with what it
/// refuses, no member can be opened, while running ones keep the client that they have. Names that the registry may not
/// set are passed over, as members do.
///
/// # Errors
/// Which setting cannot be read, and what is accepted.
pub fn check_overrides(group: &BTreeMap<String, String>) -> Result<(), String> {
    let properties = properties(group, &[])?;
    for (name, value) in &properties {
        if let Some(expected) = value::refused(name, value) {
            return Err(format!("{name}={value}: expected {expected}"));
        }
    }
    check_session(&properties)
}

/// librdkafka opens no consumer whose session outlasts the longest time between two polls. With the group protocol
/// `consumer`, where sessions and assignment are the broker's, it takes no word about them.
fn check_session(properties: &[(String, String)]) -> Result<(), String> {
    let set =
        |name: &str| properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let millis = |name: &str, default: u64| set(name).map_or(Some(default), |value| value.parse().ok());
    if set("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer")) {
        let brokers = ["heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"];
        return match brokers.into_iter().find(|name| set(name).is_some()) {
            None => Ok(()),
            Some(name) => {
                Err(format!("{name} cannot be set beside group.protocol=consumer: the broker decides on it"))
            }
        };
    }
    match (millis("session.timeout.ms", 45_000), millis("max.poll.interval.ms", 300_000)) {
        (Some(session), Some(poll)) if session > poll => Err(format!(
            "the session must not outlast the longest time between polls: session.timeout.ms is {session} ms, \
             max.poll.interval.ms is {poll} ms"
        )),
        _ => Ok(()),
    }
}

/// Properties to open a client with: those of the group's that the registry may set, then the subscription's own, which
/// win.
///
/// A session shorter than librdkafka's default heartbeat (3 s) needs a shorter heartbeat too: Kafka's advice is a
/// third of it.
pub(super) fn properties(
    group: &BTreeMap<String, String>,
    own: &[(String, String)],
) -> Result<Vec<(String, String)>, String> {
    let mut properties = Vec::new();
    for (name, value) in group {
        if let Err(dropped) = check(Scope::Consumer, name) {
            tracing::warn!(%dropped, "the registry has a consumer setting that is not used");
            continue;
        }
        let Some((_, property)) = DURATIONS.iter().find(|(known, _)| known == name) else {
            properties.push((name.clone(), value.clone()));
            continue;
        };
        let duration = parse_duration(value)
            .ok_or_else(|| format!("{name}={value} in the group's node: expected a duration such as 30s"))?;
        properties.push(((*property).to_owned(), duration.as_millis().to_string()));
        if *property == "session.timeout.ms" && !group.contains_key("heartbeat.interval.ms") {
            properties
                .push(("heartbeat.interval.ms".to_owned(), (duration.as_millis() / 3).max(1).to_string()));
        }
    }
    properties.extend_from_slice(own);
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn shown(properties: &[(String, String)]) -> String {
        properties.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn durations_become_librdkafkas_milliseconds() {
        let group = map(&[("maxPollInterval", "2m"), ("sessionTimeout", "6s"), ("fetch.min.bytes", "7")]);
        assert_eq!(
            shown(&properties(&group, &[]).unwrap()),
            "fetch.min.bytes=7 max.poll.interval.ms=120000 session.timeout.ms=6000 heartbeat.interval.ms=2000"
        );
        assert!(
            properties(&map(&[("sessionTimeout", "soon")]), &[]).unwrap_err().contains("sessionTimeout=soon")
        );
    }

    #[test]
    fn what_the_registry_may_not_set_is_passed_over() {
        let group = map(&[
            ("plugin.library.paths", "evil.so"),
            ("fetch.min.bytes", "7"),
            ("auto.offset.reset", "error"),
        ]);
        assert_eq!(shown(&properties(&group, &[]).unwrap()), "fetch.min.bytes=7");
        assert_eq!(check_overrides(&group), Ok(()));
    }

    #[test]
    fn what_is_refused_is_what_no_consumer_can_be_created_with() {
        let cases = [
            ("sessionTimeout=6s", true),
            ("sessionTimeout=2h", false),
            ("sessionTimeout=0s", false),
            ("maxPollInterval=46s", true),
            ("maxPollInterval=30s", false),
            ("maxPollInterval=30s sessionTimeout=30s", true),
            ("group.protocol=consumer", true),
            ("group.protocol=consumer maxPollInterval=30s", true),
            ("group.protocol=consumer sessionTimeout=6s", false),
            ("group.protocol=consumer heartbeat.interval.ms=1000", false),
            ("group.protocol=consumer partition.assignment.strategy=range", false),
            ("group.protocol=new", false),
            ("fetch.min.bytes=0", false),
            ("fetch.max.bytes=much", false),
            ("partition.assignment.strategy=range,roundrobin", true),
            ("partition.assignment.strategy=sticky", false),
            ("isolation.level=READ_COMMITTED", true),
            ("check.crcs=perhaps", false),
        ];
        for (settings, works) in cases {
            let group: BTreeMap<String, String> = settings
                .split(' ')
                .filter_map(|setting| setting.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            assert_eq!(check_overrides(&group).is_ok(), works, "{settings}");
            let mut config = rdkafka::ClientConfig::new();
            config.set("group.id", "g").set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
            config.extend(properties(&group, &[]).unwrap());
            let created = config.create::<rdkafka::consumer::BaseConsumer>();
            assert_eq!(created.is_ok(), works, "{settings}: {:?}", created.err());
        }
    }

    #[test]
    fn the_subscriptions_own_come_last_and_win() {
        let own = [("fetch.min.bytes".to_owned(), "1".to_owned())];
        let both = properties(&map(&[("fetch.min.bytes", "7")]), &own).unwrap();
        assert_eq!(shown(&both), "fetch.min.bytes=7 fetch.min.bytes=1");
    }
}
