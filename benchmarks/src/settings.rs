//! The librdkafka settings that both sides of a comparison run with.
//!
//! What is not named here is librdkafka's default on both sides.

use rdkafka::ClientConfig;

use crate::job::Job;

/// Properties by librdkafka's names.
pub(crate) type Settings = &'static [(&'static str, &'static str)];

/// Every acknowledgement that Kafka can give, and batches worth their requests: the SDK's profile `durable`. What is
/// not yet acknowledged is limited by each side's own default: the SDK's buffer, librdkafka's 100,000 messages.
pub(crate) const PRODUCER: Settings = &[
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("partitioner", "murmur2_random"),
    ("linger.ms", "5"),
    ("batch.size", "1000000"),
    ("batch.num.messages", "10000"),
    ("compression.type", "none"),
];

/// No message waits for another one: the SDK's profile `latency`.
pub(crate) const PROMPT_PRODUCER: Settings = &[
    ("acks", "all"),
    ("enable.idempotence", "true"),
    ("partitioner", "murmur2_random"),
    ("linger.ms", "0"),
    ("compression.type", "none"),
];

/// The SDK's own, and a short back-off: with the default of a second, fetching stalls whenever a partition's queue was
/// full.
pub(crate) const CONSUMER: Settings =
    &[("auto.offset.reset", "earliest"), ("partition.assignment.strategy", "cooperative-sticky"), BACK_OFF];

const BACK_OFF: (&str, &str) = ("fetch.queue.backoff.ms", "10");

/// The mock answers an empty fetch only after the whole wait, where a real broker answers as soon as there is a
/// message.
const FETCH_WAIT: (&str, &str) = ("fetch.wait.max.ms", "5");

/// Settings of consumers that the SDK does not begin with.
pub(crate) fn of_subscribers(mock: bool) -> Settings {
    if mock { &[BACK_OFF, FETCH_WAIT] } else { &[BACK_OFF] }
}

/// The configuration of a producer.
pub(crate) fn producer(job: &Job, settings: Settings) -> ClientConfig {
    client(job, settings)
}

/// The configuration of a consumer.
pub(crate) fn consumer(job: &Job) -> ClientConfig {
    let mut config = client(job, CONSUMER);
    config.set("group.id", &job.group);
    set_all(&mut config, of_subscribers(job.mock));
    config
}

fn client(job: &Job, settings: Settings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &job.bootstrap);
    set_all(&mut config, settings);
    config
}

fn set_all(config: &mut ClientConfig, settings: Settings) {
    for (property, value) in settings {
        config.set(*property, *value);
    }
}

/// As the output shows them: `acks=all linger.ms=5`.
pub(crate) fn in_words(settings: Settings) -> String {
    settings.iter().map(|(property, value)| format!("{property}={value}")).collect::<Vec<_>>().join(" ")
}
