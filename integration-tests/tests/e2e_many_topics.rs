//! A thousand topics cost as many clients as there are clusters.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use zms_integration_tests::estate::{CLOSE_LIMIT, Estate};
use zms_integration_tests::services::{KafkaCluster, Shared, require_services};
use zms_integration_tests::wait::eventually;
use zms_sdk::admin::Format;
use zms_sdk::{ClusterName, Message, TopicName};

const TOPICS: usize = 1_000;
const CLUSTERS: [&str; 3] = ["a", "b", "c"];
/// Topics in one request to a cluster.
const BATCH: usize = 100;
/// Registry edits and sends under way at a time.
const PARALLEL: usize = 64;

/// What this process has of a kind of resource.
#[derive(Debug, Clone, Copy)]
struct Resources {
    threads: usize,
    /// Main threads of the client library: one for each client.
    kafka_mains: usize,
    sockets: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_topics_on_three_clusters_need_three_clients() {
    if !require_services() {
        return;
    }
    let (shared, third) =
        tokio::task::spawn_blocking(|| (Shared::get(), KafkaCluster::start(1).unwrap())).await.unwrap();
    let clusters = [shared.a(), shared.b(), &third];
    let named: Vec<_> = CLUSTERS.into_iter().zip(clusters).collect();
    let estate = Estate::on(shared.zookeeper(), &named).await;
    let topics: Vec<(usize, String)> =
        (0..TOPICS).map(|number| (number % 3, format!("topic-{number}"))).collect();
    for (index, cluster) in clusters.into_iter().enumerate() {
        let of_cluster = topics.iter().filter(|(home, _)| *home == index).map(|(_, topic)| topic.as_str());
        create(&cluster.bootstrap(), &of_cluster.collect::<Vec<_>>()).await;
    }
    let register = stream::iter(&topics).map(|(home, topic)| {
        let (topic, home) =
            (TopicName::new(topic.clone()).unwrap(), ClusterName::new(CLUSTERS[*home]).unwrap());
        let admin = estate.admin().clone();
        async move { admin.add_topic(&topic, Format::Json, &home, |_| ()).await }
    });
    register.buffer_unordered(PARALLEL).try_collect::<Vec<_>>().await.unwrap();

    let zms = estate.open("sender").await;
    eventually("clients of the preparation are gone", || Resources::now().kafka_mains == 0).await;
    let before = Resources::now();
    let wrong = Arc::new(AtomicUsize::new(0));
    let sends = stream::iter(&topics).map(|(home, topic)| {
        let (zms, wrong) = (zms.clone(), Arc::clone(&wrong));
        async move {
            let receipt = zms.send(topic, Message::new("once")).await?;
            let is_right = (receipt.cluster.as_str(), receipt.offset) == (CLUSTERS[*home], Some(0));
            wrong.fetch_add(usize::from(!is_right), Ordering::Relaxed);
            Ok::<_, zms_sdk::SendError>(())
        }
    });
    sends.buffer_unordered(PARALLEL).try_collect::<Vec<_>>().await.unwrap();
    let after = Resources::now();
    let status = zms.status();
    println!("before {before:?}, after {after:?}; {:?}", status.sends);

    assert_eq!(wrong.load(Ordering::Relaxed), 0, "each message is alone on its own topic's cluster");
    assert_eq!((status.topics, status.sends.clients), (TOPICS, CLUSTERS.len()));
    assert_eq!(status.sends.delivered, TOPICS as u64);
    assert_eq!(after.kafka_mains, CLUSTERS.len());
    // A client: its main and polling threads, and one for each broker, the bootstrap address and the coordinator.
    assert!(after.threads <= before.threads + 3 * 6, "{before:?} {after:?}");
    assert!(after.sockets <= before.sockets + 3 * 4, "{before:?} {after:?}");
    zms.close(CLOSE_LIMIT).await.unwrap();
    eventually("the clients are gone", || Resources::now().kafka_mains == 0).await;
}

async fn create(bootstrap: &str, topics: &[&str]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("log_level", "0");
    let client: AdminClient<DefaultClientContext> = config.create().unwrap();
    for batch in topics.chunks(BATCH) {
        let new: Vec<_> =
            batch.iter().map(|name| NewTopic::new(name, 1, TopicReplication::Fixed(1))).collect();
        for created in client.create_topics(&new, &AdminOptions::new()).await.unwrap() {
            created.unwrap();
        }
    }
}

impl Resources {
    fn now() -> Self {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let names: Vec<String> = tasks
            .flatten()
            .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
            .map(|name| name.trim().to_owned())
            .collect();
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let sockets = files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count();
        let kafka_mains = names.iter().filter(|name| *name == "rdk:main").count();
        Self { threads: names.len(), kafka_mains, sockets }
    }
}
