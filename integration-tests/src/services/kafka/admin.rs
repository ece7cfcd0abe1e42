//! What the harness asks a cluster.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::metadata::Metadata;

use super::super::error::ServiceError;

const LIMIT: Duration = Duration::from_secs(60);
const ONE_ANSWER: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Whether the broker at `address` answers, and counts the broker `id` among those that serve.
pub(super) fn knows(address: &str, id: i32) -> bool {
    let Ok(client) = config(address).create::<BaseConsumer>() else { return false };
    let answer: KafkaResult<Metadata> = client.fetch_metadata(None, ONE_ANSWER);
    answer.is_ok_and(|metadata| metadata.brokers().iter().any(|broker| broker.id() == id))
}

pub(super) fn create_topic(
    bootstrap: &str,
    name: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) -> Result<(), ServiceError> {
    let failed = |problem: String| ServiceError::Request { name: format!("Kafka at {bootstrap}"), problem };
    let client: AdminClient<DefaultClientContext> =
        config(bootstrap).create().map_err(|error| failed(error.to_string()))?;

    // -1: as many replicas as the brokers' default.
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
    for (key, value) in settings {
        topic = topic.set(key, value);
    }
    let options = AdminOptions::new().request_timeout(Some(LIMIT)).operation_timeout(Some(LIMIT));
    let answers =
        wait(client.create_topics([&topic], &options)).map_err(|error| failed(error.to_string()))?;
    for answer in answers {
        answer.map_err(|(topic, code)| failed(format!("creating topic `{topic}`: {code}")))?;
    }

    let limit = Instant::now() + LIMIT;
    while !has_leaders(&client, name, partitions) {
        if Instant::now() > limit {
            return Err(failed(format!("topic `{name}` has partitions without a leader after {LIMIT:?}")));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

pub(super) fn delete_topic(bootstrap: &str, name: &str) -> Result<(), ServiceError> {
    let failed = |problem: String| ServiceError::Request { name: format!("Kafka at {bootstrap}"), problem };
    let client: AdminClient<DefaultClientContext> =
        config(bootstrap).create().map_err(|error| failed(error.to_string()))?;
    let options = AdminOptions::new().request_timeout(Some(LIMIT)).operation_timeout(Some(LIMIT));
    let answers = wait(client.delete_topics(&[name], &options)).map_err(|error| failed(error.to_string()))?;
    for answer in answers {
        answer.map_err(|(topic, code)| failed(format!("deleting topic `{topic}`: {code}")))?;
    }

    let limit = Instant::now() + LIMIT;
    while !has_leaders(&client, name, 0) {
        if Instant::now() > limit {
            return Err(failed(format!("topic `{name}` is still there after {LIMIT:?}")));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Whether so many partitions have leaders: of a topic that does not exist, 0.
fn has_leaders(client: &AdminClient<DefaultClientContext>, name: &str, partitions: i32) -> bool {
    let Ok(metadata) = client.inner().fetch_metadata(Some(name), ONE_ANSWER) else { return false };
    let led = |topic: &rdkafka::metadata::MetadataTopic| {
        let led = topic.partitions().iter().filter(|partition| partition.leader() >= 0).count();
        i32::try_from(led).is_ok_and(|led| led == partitions)
    };
    metadata.topics().iter().any(led)
}

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("allow.auto.create.topics", "false").set("log_level", "0");
    config
}

/// Runs a future that another thread completes, from code with or without an async runtime.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
