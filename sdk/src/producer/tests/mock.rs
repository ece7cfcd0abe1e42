//! The same on librdkafka's mock clusters.

use std::{collections::BTreeMap, time::Duration};

use tokio::{sync::watch, time::sleep};
use zms_core::name::GroupName;

use super::*;
use crate::{
    engine::port::{
        AssignmentListener, ConsumerControl, ConsumerSpec, Engine, Membership, OwnRecord, Records, Start,
    },
    kafka::KafkaEngine,
    testing::{FAST_GROUP_PROPERTIES, MockCluster},
};

/// Clusters `a` and `b` with the same topics, and producers on them.
struct Pair {
    a: MockCluster,
    b: MockCluster,
    producers: Arc<Producers>,
}

impl Pair {
    fn start(topics: &[&str], options: ProducerOptions) -> Self {
        let [a, b] = [(); 2].map(|()| {
            let cluster = MockCluster::start(1).unwrap();
            for topic in topics {
                cluster.create_topic(topic, 4).unwrap();
            }
            cluster
        });
        let producers = Producers::start(Arc::new(KafkaEngine::new()), options.build().unwrap());
        Self { a, b, producers }
    }

    fn spec(&self, name: &str) -> Arc<ClusterSpec> {
        let bootstrap = if name == "a" { self.a.bootstrap() } else { self.b.bootstrap() }.to_owned();
        Arc::new(ClusterSpec { bootstrap, ..ClusterSpec::clone(&cluster(name)) })
    }

    async fn adopt(&self, topic: &str, cluster: &str) -> Producer {
        let route = TopicRoute { cluster: self.spec(cluster), ..route(topic, cluster) };
        self.producers.clone().adopt(Arc::new(route)).await;
        self.producers.lookup(topic).unwrap()
    }

    /// All records of a topic on a cluster, partition by partition in the order of their offsets.
    async fn read(&self, topic: &str, cluster: &str) -> Vec<OwnRecord> {
        let (spec, topic) = (self.spec(cluster), TopicName::new(topic).unwrap());
        tokio::task::spawn_blocking(move || read_all(spec, topic)).await.unwrap()
    }
}

struct FromTheStart;

impl AssignmentListener for FromTheStart {
    fn assigned(&self, _: &dyn ConsumerControl, partitions: &[i32]) -> Vec<(i32, Start)> {
        partitions.iter().map(|partition| (*partition, Start::Earliest)).collect()
    }

    fn revoked(&self, _: &dyn ConsumerControl, _: &[i32], _: bool) {}
}

fn read_all(cluster: Arc<ClusterSpec>, topic: TopicName) -> Vec<OwnRecord> {
    let engine = KafkaEngine::new();
    let ranges = engine.open_admin(&cluster).unwrap().log_ranges(&topic, Duration::from_secs(30)).unwrap();
    let total: usize = ranges.iter().map(|range| usize::try_from(range.high - range.low).unwrap()).sum();
    let spec = ConsumerSpec {
        cluster,
        client_id: "reader".to_owned(),
        group: GroupName::new("reader").unwrap(),
        topic,
        membership: Membership::Group,
        properties: FAST_GROUP_PROPERTIES.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
    };
    let mut consumer = engine.open_consumer(&spec, Arc::new(FromTheStart)).unwrap();
    let mut records = BTreeMap::new();
    let mut polled = Vec::new();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while records.len() < total {
        assert!(std::time::Instant::now() < deadline, "read {} of {total} records", records.len());
        let _passes = consumer.poll(Duration::from_millis(100), 1_000, &mut polled);
        let read = polled.iter().flat_map(Records::iter).map(OwnRecord::from);
        records.extend(read.map(|record| ((record.partition, record.offset), record)));
        polled.clear();
    }
    consumer.close();
    records.into_values().collect()
}

/// One task's messages, numbered and under its own key, the last quarter when it is `time`; the cluster that
/// acknowledged each.
async fn send_numbered(
    producer: Producer,
    key: usize,
    count: usize,
    mut time: watch::Receiver<bool>,
) -> Vec<String> {
    let mut results = Vec::new();
    for n in 0..count {
        if n == count * 3 / 4 {
            time.wait_for(|come| *come).await.unwrap();
        }
        let (done, result) = tokio::sync::oneshot::channel();
        let message = Message::new(n.to_string()).key(key.to_string());
        producer.send_with(message, |result| drop(done.send(result))).await;
        results.push(result);
        if n % 10 == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    }
    let mut clusters = Vec::new();
    for result in results {
        clusters.push(result.await.expect("one result each").expect("no send fails").cluster.to_string());
    }
    clusters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_route_goes_to_and_fro_everything_acknowledged_is_there_in_order() {
    const TASKS: usize = 8;
    const EACH: usize = 1_250;
    let pair = Pair::start(&["orders"], ProducerOptions::new().switch_stall(Duration::from_secs(60)));
    let producer = pair.adopt("orders", "a").await;
    let time = watch::Sender::new(false);
    let senders: Vec<_> = (0..TASKS)
        .map(|key| tokio::spawn(send_numbered(producer.clone(), key, EACH, time.subscribe())))
        .collect();
    until(|| pair.producers.stats().delivered > 0).await;
    for cluster in ["b", "a", "b"] {
        sleep(Duration::from_millis(150)).await;
        pair.adopt("orders", cluster).await;
    }
    time.send_replace(true);
    let mut acknowledged = BTreeMap::new();
    for (key, sender) in senders.into_iter().enumerate() {
        let clusters = sender.await.unwrap();
        let changes = clusters.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 3, "each switch was a clean cut, not {changes} of them");
        for (n, cluster) in clusters.into_iter().enumerate() {
            acknowledged.insert((key.to_string(), n), cluster);
        }
    }
    assert_eq!(acknowledged.len(), TASKS * EACH);
    let mut delivered = BTreeMap::new();
    for cluster in ["a", "b"] {
        let mut last = BTreeMap::new();
        let records = pair.read("orders", cluster).await;
        assert!(!records.is_empty(), "the switches fell among the sends");
        for record in records {
            let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
            let n: usize = std::str::from_utf8(&record.payload.unwrap()).unwrap().parse().unwrap();
            assert!(last.insert(key.clone(), n) < Some(n), "order of key {key} on {cluster}");
            assert_eq!(delivered.insert((key, n), cluster.to_owned()), None, "delivered twice");
        }
    }
    assert_eq!(delivered, acknowledged);
    let stats = pair.producers.stats();
    assert_eq!((stats.switches, stats.late_switches), (3, 0));
    assert_eq!(pair.producers.close(Duration::from_secs(60)).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_topics_leave_a_dead_cluster_together_and_at_once() {
    let names: Vec<_> = (0..20).map(|n| format!("topic-{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    // One after the other they would take a minute; the stuck messages must not end before that.
    let options = ProducerOptions::new().switch_stall(Duration::from_secs(3));
    let pair = Pair::start(&names, options.property("message.timeout.ms", "300000"));
    let mut stuck = Vec::new();
    for name in &names {
        let producer = pair.adopt(name, "a").await;
        within(Duration::from_secs(30), producer.send(message("before"))).await.unwrap();
    }
    pair.a.all_brokers_down().unwrap();
    for name in &names {
        let producer = pair.producers.lookup(name).unwrap();
        stuck.push(send(&producer, "stuck"));
        until(|| producer.in_flight() == 1).await;
    }
    let sends = names.iter().map(|name| async {
        let producer = pair.adopt(name, "b").await;
        producer.send(message("after")).await.unwrap().cluster.to_string()
    });
    let clusters = within(Duration::from_secs(45), futures_util::future::join_all(sends)).await;
    assert!(clusters.iter().all(|cluster| cluster == "b"));
    within(Duration::from_secs(30), pair.producers.close(Duration::from_secs(1))).await;
    for task in stuck {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(error.cluster().unwrap().as_str(), "a");
    }
    assert_eq!(pair.producers.stats().free_bytes, 32 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_flushes_what_lingers() {
    let pair = Pair::start(&["orders"], ProducerOptions::new().property("linger.ms", "10000"));
    let producer = pair.adopt("orders", "a").await;
    let tasks: Vec<_> = (0..10).map(|n| send(&producer, &n.to_string())).collect();
    until(|| producer.in_flight() == 10).await;
    assert_eq!(within(Duration::from_secs(60), pair.producers.close(Duration::from_secs(50))).await, 0);
    for task in tasks {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(pair.read("orders", "a").await.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_with_the_cluster_down_gives_each_send_one_result() {
    let pair = Pair::start(&["orders"], ProducerOptions::new());
    let producer = pair.adopt("orders", "a").await;
    pair.a.all_brokers_down().unwrap();
    let tasks: Vec<_> = (0..10).map(|n| send(&producer, &n.to_string())).collect();
    until(|| producer.in_flight() == 10).await;
    assert_eq!(within(Duration::from_secs(60), pair.producers.close(Duration::from_secs(1))).await, 10);
    for task in tasks {
        assert!(matches!(
            task.await.unwrap().unwrap_err(),
            SendError::NotSent { .. } | SendError::Unknown { .. }
        ));
    }
    assert_eq!(producer.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_above_the_limit_fails_alone_and_the_others_arrive_unchanged() {
    let pair = Pair::start(&["orders"], ProducerOptions::new());
    let producer = pair.adopt("orders", "a").await;
    let original = Message::tombstone("k").header("h", "1").null_header("h").timestamp_ms(7).partition(3);
    producer.send(original.clone()).await.unwrap();
    let error = producer.send(Message::new(vec![0; 1_100_000])).await.unwrap_err();
    assert!(matches!(error, SendError::TooLarge { limit: 1_000_000, .. }), "{error}");
    assert_eq!(error.into_message().unwrap().size(), 1_100_000);
    producer.send(message("after")).await.unwrap();
    let records = pair.read("orders", "a").await;
    assert_eq!(records.len(), 2);
    let record = records.iter().find(|record| record.payload.is_none()).unwrap();
    assert_eq!((record.key.as_ref(), record.partition), (original.key.as_ref(), 3));
    assert_eq!((&record.headers, record.timestamp_ms), (&original.headers, Some(7)));
    assert_eq!(pair.producers.stats().free_bytes, 32 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_profile_is_one_that_the_client_library_takes() {
    let pair = Pair::start(&["orders"], ProducerOptions::new());
    for profile in ["durable", "throughput", "latency", "custom"] {
        let mut route = TopicRoute { cluster: pair.spec("a"), ..route("orders", "a") };
        route.producer.insert("profile".to_owned(), profile.to_owned());
        pair.producers.clone().adopt(Arc::new(route)).await;
        let producer = pair.producers.lookup("orders").unwrap();
        within(Duration::from_secs(30), producer.send(message(profile))).await.unwrap();
    }
    assert_eq!(pair.producers.stats().switches, 3);
    assert_eq!(pair.read("orders", "a").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_that_wait_for_room_end_the_linger_of_what_fills_it() {
    // Waiting for the linger, twenty messages would take ten minutes. The two that fit the buffer fill no batch.
    let options =
        ProducerOptions::new().property("linger.ms", "60000").property("message.timeout.ms", "300000");
    let options = options.property("message.max.bytes", "100000").property("batch.size", "100000");
    let options =
        options.buffer(100_000).topic_cap(100).cluster_floor(0).cluster_ceiling(100).block_size(1024);
    let pair = Pair::start(&["orders"], options.max_block(Duration::from_secs(120)));
    let producer = pair.adopt("orders", "a").await;
    let started = std::time::Instant::now();
    let message = |n: u8| Message::new(vec![n; 40_000]).partition(0);
    let sendings = within(Duration::from_secs(120), async {
        let mut sendings = Vec::new();
        for n in 0..20 {
            let (done, result) = tokio::sync::oneshot::channel();
            producer.send_with(message(n), |result| drop(done.send(result))).await;
            sendings.push(result);
        }
        sendings
    })
    .await;
    println!("20 messages through a buffer of 2 with a linger of a minute: {:?}", started.elapsed());
    let thread = producer.clone();
    let blocking = std::thread::spawn(move || thread.send_blocking(message(20)));
    let begun = || pair.producers.stats().delivered + u64::try_from(producer.in_flight()).unwrap();
    until(|| begun() == 21).await;
    // Nobody waits for room any more: these two are for the close.
    assert_eq!(within(Duration::from_secs(60), pair.producers.close(Duration::from_secs(50))).await, 0);
    blocking.join().unwrap().unwrap();
    for result in sendings {
        result.await.unwrap().unwrap();
    }
    assert_eq!(pair.read("orders", "a").await.len(), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_change_under_load_lose_and_reorder_nothing() {
    const TASKS: usize = 4;
    const EACH: usize = 1_000;
    let pair = Pair::start(&["orders"], ProducerOptions::new().switch_stall(Duration::from_secs(60)));
    let producer = pair.adopt("orders", "a").await;
    let time = watch::Sender::new(false);
    let senders: Vec<_> = (0..TASKS)
        .map(|key| tokio::spawn(send_numbered(producer.clone(), key, EACH, time.subscribe())))
        .collect();
    until(|| pair.producers.stats().delivered > 0).await;
    for (name, value) in
        [("linger", "40ms"), ("profile", "throughput"), ("profile", "latency"), ("linger", "5ms")]
    {
        // Only so that sends lie between: the last quarter of them comes after the last change in any case.
        sleep(Duration::from_millis(50)).await;
        let mut route = TopicRoute { cluster: pair.spec("a"), ..route("orders", "a") };
        route.producer.insert(name.to_owned(), value.to_owned());
        pair.producers.clone().adopt(Arc::new(route)).await;
    }
    time.send_replace(true);
    for sender in senders {
        assert_eq!(sender.await.unwrap().len(), EACH);
    }
    let mut next = BTreeMap::<Vec<u8>, usize>::new();
    for record in pair.read("orders", "a").await {
        let next = next.entry(record.key.unwrap().to_vec()).or_default();
        assert_eq!(record.payload.unwrap(), next.to_string().as_bytes(), "order of a key");
        *next += 1;
    }
    assert_eq!(next.into_values().collect::<Vec<_>>(), [EACH; TASKS]);
    let stats = pair.producers.stats();
    assert_eq!((stats.switches, stats.late_switches), (4, 0));
    assert_eq!(pair.producers.close(Duration::from_secs(60)).await, 0);
}
