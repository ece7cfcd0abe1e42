//! Behaviour of sending, against clusters whose every report is up to the test.

mod clients;
mod closing;
mod fake;
#[cfg(feature = "testing")]
mod mock;
mod pool;
mod sending;
mod switching;
mod ways;

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use tokio::task::JoinHandle;
use zms_core::{
    name::{ClusterName, TopicName},
    route::{ChangeId, ClusterSpec, Source, TopicRoute, Traffic},
};

use super::{Producer, ProducerOptions, Producers, SendError, sink::TopicSink};
use crate::message::{Message, Receipt};
use fake::FakeEngine;

type SendTask = JoinHandle<Result<Receipt, SendError>>;

/// Producers on fake clusters.
struct Bench {
    engine: Arc<FakeEngine>,
    producers: Arc<Producers>,
}

impl Bench {
    fn new() -> Self {
        Self::with(ProducerOptions::new())
    }

    fn with(options: ProducerOptions) -> Self {
        let engine = Arc::new(FakeEngine::default());
        let producers = Producers::start(engine.clone(), options.build().unwrap());
        Self { engine, producers }
    }

    async fn adopt(&self, route: TopicRoute) {
        self.producers.clone().adopt(Arc::new(route)).await;
    }

    /// The producer of a topic that lives on a cluster.
    async fn producer(&self, topic: &str, cluster: &str) -> Producer {
        self.adopt(route(topic, cluster)).await;
        self.producers.lookup(topic).unwrap()
    }

    fn assert_everything_returned(&self) {
        let stats = self.producers.stats();
        assert_eq!(stats.free_bytes, self.producers_total(), "{stats:?}");
        assert_eq!((stats.waiting, stats.held), (0, 0), "{stats:?}");
    }

    fn producers_total(&self) -> usize {
        self.producers.stats().pool.total
    }

    /// Reports everything, again and again, until the bench is gone.
    fn pump_for_ever(&self, pace: Duration) {
        let engine = Arc::downgrade(&self.engine);
        tokio::spawn(async move {
            while let Some(engine) = engine.upgrade() {
                engine.pump();
                drop(engine);
                tokio::time::sleep(pace).await;
            }
        });
    }
}

fn cluster(name: &str) -> Arc<ClusterSpec> {
    Arc::new(ClusterSpec {
        name: ClusterName::new(name).unwrap(),
        bootstrap: format!("{name}:9092"),
        kafka_id: None,
        properties: BTreeMap::new(),
        changed: ChangeId(1),
    })
}

fn route(topic: &str, cluster_name: &str) -> TopicRoute {
    TopicRoute {
        topic: TopicName::new(topic).unwrap(),
        cluster: cluster(cluster_name),
        traffic: Traffic::Open,
        producer: BTreeMap::new(),
        changed: ChangeId(1),
        source: Source::Registry,
    }
}

fn held(topic: &str, cluster: &str) -> TopicRoute {
    TopicRoute { traffic: Traffic::Held { reason: "a move is on".to_owned() }, ..route(topic, cluster) }
}

fn message(text: &str) -> Message {
    Message::new(text.to_owned())
}

fn send(producer: &Producer, text: &str) -> SendTask {
    let (producer, message) = (producer.clone(), message(text));
    tokio::spawn(async move { producer.send(message).await })
}

/// Sends and waits until the message is with the client or held.
async fn start(bench: &Bench, producer: &Producer, text: &str) -> SendTask {
    let count = |bench: &Bench| producer.in_flight() + bench.producers.stats().held;
    let before = count(bench);
    let task = send(producer, text);
    until(|| count(bench) == before + 1).await;
    task
}

/// Waits for a condition, giving background work all the time it wants.
async fn until(mut condition: impl FnMut() -> bool) {
    within(Duration::from_secs(600), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.expect("it never happened")
}

fn texts(bench: &Bench) -> Vec<String> {
    let text = |message: &Message| String::from_utf8(message.payload().unwrap().to_vec()).unwrap();
    bench.engine.log().iter().map(|delivered| text(&delivered.message)).collect()
}
