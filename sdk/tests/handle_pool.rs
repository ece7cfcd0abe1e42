#![cfg(feature = "testing")]
//! The send buffer on librdkafka: whatever becomes of messages, each send ends once and all room comes back.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::task::JoinHandle;
use zms_sdk::{Message, Receipt, SendError, Zms, producer::ProducerOptions, testing::Sandbox};

type Outcome = Result<Receipt, SendError>;

const LIMIT: Duration = Duration::from_secs(300);
const BUFFER: usize = 1 << 20;

fn options() -> ProducerOptions {
    ProducerOptions::new()
        .buffer(BUFFER)
        .property("message.max.bytes", "100000")
        .property("reconnect.backoff.ms", "10")
        .property("reconnect.backoff.max.ms", "200")
        .property("message.timeout.ms", "600000")
        .max_block(LIMIT)
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("it never happened: {what}"))
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    within(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

async fn sandbox(topics: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::start(["a", "b"]).await.unwrap();
    for (topic, cluster) in topics {
        sandbox.topic(topic, 4, cluster).await.unwrap();
    }
    sandbox
}

fn send(zms: &Zms, topic: &str, size: usize) -> JoinHandle<Outcome> {
    let (zms, topic) = (zms.clone(), topic.to_owned());
    tokio::spawn(async move { zms.send(&topic, Message::new(vec![7; size])).await })
}

async fn assert_all_room_is_back(zms: &Zms) {
    until("all room is back", || zms.status().sends.free_bytes == BUFFER).await;
    let pool = zms.status().sends.pool;
    assert_eq!((pool.free, pool.waiting), (BUFFER, 0));
    assert!(pool.clusters.iter().all(|cluster| cluster.used == 0), "{pool:?}");
}

/// What callbacks were told, and how often.
#[derive(Default)]
struct Told {
    delivered: AtomicUsize,
    failed: AtomicUsize,
}

async fn send_to_a_callback_that_panics(zms: &Zms, told: &Arc<Told>) {
    let told = told.clone();
    let callback = move |result: Outcome| {
        let count = if result.is_ok() { &told.delivered } else { &told.failed };
        count.fetch_add(1, SeqCst);
        panic!("a service's bug");
    };
    within("room", zms.send_with("orders", Message::new(vec![7; 50]), callback)).await;
}

/// Delivered and reported to a task, to nobody, and to a callback that panics; refused as too large.
async fn a_thousand_of_each_that_ends_well_or_at_once(zms: &Zms, told: &Arc<Told>) {
    let mut sends = Vec::new();
    for _ in 0..1_000 {
        sends.push(send(zms, "orders", 100));
        let gone = send(zms, "orders", 100);
        send_to_a_callback_that_panics(zms, told).await;
        gone.abort();
        let refused = zms.send("orders", Message::new(vec![7; 110_000])).await.unwrap_err();
        assert!(matches!(refused, SendError::TooLarge { limit: 100_000, .. }), "{refused}");
    }
    for send in sends {
        within("a receipt", send).await.unwrap().unwrap();
    }
    until("every callback", || told.delivered.load(SeqCst) == 1_000).await;
    assert_all_room_is_back(zms).await;
}

/// Timed out on a cluster that is down, reported to a task, to nobody, and to a callback that panics.
async fn a_thousand_of_each_that_times_out(zms: &Zms, told: &Arc<Told>) {
    let mut sends = Vec::new();
    for _ in 0..1_000 {
        sends.push(send(zms, "orders", 50));
        let gone = send(zms, "orders", 50);
        send_to_a_callback_that_panics(zms, told).await;
        gone.abort();
    }
    for send in sends {
        let error = within("a timeout", send).await.unwrap().unwrap_err();
        assert!(matches!(error, SendError::NotSent { .. } | SendError::Unknown { .. }), "{error}");
    }
    until("every callback", || told.failed.load(SeqCst) == 1_000).await;
    assert_all_room_is_back(zms).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_delivered_or_refused_gives_one_result_and_returns_its_room() {
    let sandbox = sandbox(&[("orders", "a")]).await;
    let zms = sandbox.builder().producer(options()).connect().await.unwrap();
    zms.producer("orders").await.unwrap();
    let told = Arc::new(Told::default());
    a_thousand_of_each_that_ends_well_or_at_once(&zms, &told).await;
    assert_eq!(told.failed.load(SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_times_out_gives_one_result_and_returns_its_room() {
    let sandbox = sandbox(&[("orders", "a")]).await;
    let short = options().property("message.timeout.ms", "2000").property("request.timeout.ms", "1000");
    let zms = sandbox.builder().producer(short).connect().await.unwrap();
    zms.producer("orders").await.unwrap();
    sandbox.cluster("a").unwrap().all_brokers_down().unwrap();
    let told = Arc::new(Told::default());
    a_thousand_of_each_that_times_out(&zms, &told).await;
    assert_eq!(told.delivered.load(SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_close_gives_up_gives_one_result_and_returns_its_room() {
    let sandbox = sandbox(&[("orders", "a")]).await;
    let zms = sandbox.builder().producer(options()).connect().await.unwrap();
    let producer = zms.producer("orders").await.unwrap();
    sandbox.cluster("a").unwrap().all_brokers_down().unwrap();
    let sends: Vec<_> = (0..1_000).map(|_| send(&zms, "orders", 50)).collect();
    until("all are with the client", || producer.in_flight() == 1_000).await;
    let given_up = within("the close", zms.close(Duration::from_secs(1))).await.unwrap_err();
    assert!(given_up.to_string().contains("1000"), "{given_up}");
    for send in sends {
        let error = within("a result", send).await.unwrap().unwrap_err();
        assert!(matches!(error, SendError::NotSent { .. } | SendError::Unknown { .. }), "{error}");
    }
    assert_all_room_is_back(&zms).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_ends_senders_who_wait_for_room_and_does_not_wait_for_their_time() {
    let sandbox = sandbox(&[("orders", "a")]).await;
    let zms = sandbox.builder().producer(options()).connect().await.unwrap();
    zms.producer("orders").await.unwrap();
    sandbox.cluster("a").unwrap().all_brokers_down().unwrap();
    let sends: Vec<_> = (0..20).map(|_| send(&zms, "orders", 90_000)).collect();
    let at_its_cap = BUFFER / 2 / 90_256;
    until("the topic is at its cap", || zms.status().sends.waiting == 20 - at_its_cap).await;
    let (first, second) = tokio::join!(zms.close(Duration::from_secs(1)), zms.close(Duration::from_secs(1)));
    assert!(first.is_err() && second.is_err(), "something was given up");
    let mut closed = 0;
    for send in sends {
        match within("a result", send).await.unwrap().unwrap_err() {
            SendError::Closed { .. } => closed += 1,
            SendError::NotSent { .. } | SendError::Unknown { .. } => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(closed, 20 - at_its_cap);
    let late = zms.send("orders", Message::new("x")).await.unwrap_err();
    assert!(matches!(late, SendError::Closed { .. }), "{late}");
    assert_all_room_is_back(&zms).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_cluster_starves_no_other() {
    let sandbox = sandbox(&[("dead-1", "a"), ("dead-2", "a"), ("dead-3", "a"), ("lively", "b")]).await;
    let zms = sandbox.builder().producer(options()).connect().await.unwrap();
    for topic in ["dead-1", "dead-2", "dead-3", "lively"] {
        zms.producer(topic).await.unwrap();
    }
    sandbox.cluster("a").unwrap().all_brokers_down().unwrap();
    let stuck: Vec<_> = (0..60).map(|n| send(&zms, ["dead-1", "dead-2", "dead-3"][n % 3], 90_000)).collect();
    until("its senders wait", || zms.status().sends.waiting > 40).await;
    for _ in 0..300 {
        let receipt = within("a receipt", zms.send("lively", Message::new(vec![7; 1_000]))).await.unwrap();
        assert_eq!(receipt.cluster.as_str(), "b");
    }
    assert!(zms.status().sends.waiting > 0, "the others still waited");
    sandbox.cluster("a").unwrap().all_brokers_up().unwrap();
    for send in stuck {
        within("a result after the recovery", send).await.unwrap().unwrap();
    }
    assert_all_room_is_back(&zms).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_share_a_mebibyte_and_every_result_is_accounted_for() {
    const EACH: usize = 300;
    let topics = ["t0", "t1", "t2"];
    let sandbox = sandbox(&[("t0", "a"), ("t1", "a"), ("t2", "b")]).await;
    let zms = sandbox.builder().producer(options()).connect().await.unwrap();
    for topic in topics {
        zms.producer(topic).await.unwrap();
    }
    let results = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let (zms, results) = (zms.clone(), results.clone());
            tokio::spawn(async move {
                for round in 0..EACH {
                    let size = if (number + round) % 10 == 0 { 90_000 } else { 500 };
                    let results = results.clone();
                    let count = move |result: Outcome| {
                        result.unwrap();
                        results.fetch_add(1, SeqCst);
                    };
                    zms.send_with(topics[(number + round) % 3], Message::new(vec![7; size]), count).await;
                }
            })
        })
        .collect();
    let resizing = {
        let zms = zms.clone();
        tokio::spawn(async move {
            for total in [BUFFER / 2, BUFFER, BUFFER / 4, BUFFER].into_iter().cycle() {
                zms.resize_buffer(total).unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    };
    for task in tasks {
        within("a sender", task).await.unwrap();
    }
    until("every result", || results.load(SeqCst) == 64 * EACH).await;
    resizing.abort();
    let _ended = resizing.await;
    zms.resize_buffer(BUFFER).unwrap();
    assert!(zms.status().sends.pool.exhaustions > 0, "nobody ever waited");
    assert_all_room_is_back(&zms).await;
    assert_eq!(zms.status().sends.delivered, 64 * u64::try_from(EACH).unwrap());
    within("the close", zms.close(Duration::from_secs(30))).await.unwrap();
}
