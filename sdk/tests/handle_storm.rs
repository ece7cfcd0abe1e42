#![cfg(feature = "testing")]
//! Many senders of all kinds on a tiny buffer, while everything around them changes: each send ends once, all room
//! comes back.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use zms_sdk::{
    ClusterName, Message, SendError, TopicName, Zms, admin::Safety, producer::ProducerOptions,
    registry::port::Registry, testing::Sandbox,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Small, quick and good enough to spread choices.
struct Dice(u64);
impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[derive(Default)]
struct Tally {
    begun: AtomicU64,
    ended: AtomicU64,
    callbacks_due: AtomicU64,
    callbacks: AtomicU64,
    closed_early: AtomicU64,
    closing: AtomicUsize,
}

impl Tally {
    fn end(&self, result: &Result<zms_sdk::Receipt, SendError>) {
        if matches!(result, Err(SendError::Closed { .. })) && self.closing.load(SeqCst) == 0 {
            self.closed_early.fetch_add(1, SeqCst);
        }
    }
}

async fn sender(zms: Zms, number: u64, until: Instant, tally: Arc<Tally>) {
    let mut dice = Dice(number * 7919 + 1);
    let topics = ["t0", "t1", "t2"];
    let mut sequence = 0_u64;
    while Instant::now() < until {
        let topic = topics[usize::try_from(dice.roll(3)).unwrap()];
        sequence += 1;
        let size = match dice.roll(20) {
            0 => 20_000,
            1 => 40_000,
            _ => 200,
        };
        let mut body = format!("{number}:{sequence}:").into_bytes();
        body.resize(size, b'.');
        let message = Message::new(body).key(format!("k{number}"));
        tally.begun.fetch_add(1, SeqCst);
        match dice.roll(6) {
            0 => {
                // dropped at random
                let wait = Duration::from_micros(dice.roll(3000));
                if let Ok(result) = tokio::time::timeout(wait, zms.send(topic, message)).await {
                    tally.end(&result);
                }
            }
            1 => {
                tally.callbacks_due.fetch_add(1, SeqCst);
                let (t, bad) = (tally.clone(), dice.roll(4) == 0);
                zms.send_with(topic, message, move |result| {
                    t.callbacks.fetch_add(1, SeqCst);
                    t.end(&result);
                    assert!(!bad, "a callback's own panic");
                })
                .await;
            }
            2 => zms.send_oneway(topic, message),
            3 => {
                if let Ok(producer) = zms.producer(topic).await {
                    tally.end(&producer.send(message).await);
                }
            }
            _ => {
                let result = zms.send(topic, message).await;
                tally.end(&result);
            }
        }
        tally.ended.fetch_add(1, SeqCst);
        if dice.roll(8) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.roll(5))).await;
        }
    }
}

/// Moves topics, deletes and creates them, takes clusters down, changes their properties, begins and ends moves.
async fn unrest(sandbox: Arc<Sandbox>, until: Instant, seed: u64) {
    let mut dice = Dice(seed);
    let names = ["a", "b"];
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50 + dice.roll(250))).await;
        let topic = TopicName::new(format!("t{}", dice.roll(3))).unwrap();
        let cluster = names[usize::try_from(dice.roll(2)).unwrap()];
        match dice.roll(8) {
            0 => {
                let mock = sandbox.cluster(cluster).unwrap();
                mock.all_brokers_down().unwrap();
                tokio::time::sleep(Duration::from_millis(dice.roll(800))).await;
                mock.all_brokers_up().unwrap();
            }
            1 => {
                // delete the topic and create it anew
                let path = format!("/zms/topic/{topic}");
                let registry = sandbox.registry();
                for child in registry.children(&path).await.unwrap().unwrap_or_default() {
                    let _ = registry.unregister(&format!("{path}/{child}")).await;
                }
                if let Ok(Some(node)) = registry.read(&path).await {
                    let _ = registry.delete(&path, node.version).await;
                    tokio::time::sleep(Duration::from_millis(dice.roll(100))).await;
                    let _ = registry.create(&path, node.data.clone()).await;
                }
            }
            2 => {
                // another client: new properties
                let name = ClusterName::new(cluster).unwrap();
                let value = (100 + dice.roll(100)).to_string();
                let _ = sandbox
                    .admin()
                    .set_cluster(&name, |meta| {
                        meta.properties.insert("reconnect.backoff.ms".to_owned(), "10".to_owned());
                        meta.properties.insert("retry.backoff.ms".to_owned(), value.clone());
                    })
                    .await;
            }
            3 => {
                let name = TopicName::new(topic.as_str()).unwrap();
                let path = format!("/zms/migration/{name}");
                let registry = sandbox.registry();
                for phase in ["fence", "cut", "warp", "idle"] {
                    let data = Bytes::from(format!(
                        r#"{{"schema":1,"id":"m","phase":"{phase}","from":"a","to":"b","tail":"a"}}"#
                    ));
                    match registry.read(&path).await.unwrap() {
                        None => registry.create(&path, data).await.unwrap(),
                        Some(node) => {
                            registry.set(&path, data, node.version).await.unwrap();
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(dice.roll(150))).await;
                }
            }
            _ => {
                let to = ClusterName::new(cluster).unwrap();
                let _ =
                    sandbox.admin().set_topic(&topic, Safety::Forced, |meta| meta.cluster = to.clone()).await;
            }
        }
    }
    for name in names {
        sandbox.cluster(name).unwrap().all_brokers_up().unwrap();
    }
}

async fn storm(buffer: usize, run: Duration, seed: u64, close_in_the_middle: bool) {
    let sandbox = Arc::new(Sandbox::start(["a", "b"]).await.unwrap());
    for topic in ["t0", "t1", "t2"] {
        sandbox.topic(topic, 4, "a").await.unwrap();
    }
    let options = ProducerOptions::new()
        .buffer(buffer)
        .property("message.max.bytes", "20000")
        .property("reconnect.backoff.ms", "10")
        .property("reconnect.backoff.max.ms", "200")
        .property("request.timeout.ms", "2000")
        .property("message.timeout.ms", "4000")
        .switch_stall(Duration::from_millis(300))
        .switch_limit(Duration::from_secs(1))
        .max_block(Duration::from_secs(3));
    let zms = sandbox.builder().producer(options).connect().await.unwrap();
    let tally = Arc::new(Tally::default());
    let until = Instant::now() + run;
    let senders: Vec<_> =
        (0..64).map(|n| tokio::spawn(sender(zms.clone(), n, until, tally.clone()))).collect();
    let chaos = tokio::spawn(unrest(sandbox.clone(), until, seed));
    if close_in_the_middle {
        tokio::time::sleep(run / 2).await;
        tally.closing.store(1, SeqCst);
        let started = Instant::now();
        let closes = (0..4).map(|n| {
            let zms = zms.clone();
            async move { zms.close(Duration::from_millis(1500 + 500 * n)).await }
        });
        let closes = futures_util::future::join_all(closes).await;
        assert_eq!(closes.len(), 4);
        assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    }
    for sender in senders {
        tokio::time::timeout(LIMIT, sender).await.expect("a sender hangs").unwrap();
    }
    tokio::time::timeout(LIMIT, chaos).await.expect("the chaos hangs").unwrap();
    tally.closing.store(1, SeqCst);
    if !close_in_the_middle {
        for topic in ["t0", "t1", "t2"] {
            let producer = zms.producer(topic).await.unwrap();
            tokio::time::timeout(LIMIT, producer.flush()).await.expect("flush hangs");
        }
    }
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        let status = zms.status();
        let quiet = status.sends.free_bytes == buffer && status.sends.waiting == 0 && status.sends.held == 0;
        if quiet || Instant::now() > deadline {
            break status;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::time::timeout(LIMIT, zms.close(LIMIT / 2)).await.expect("close hangs").unwrap();
    assert_eq!(status.sends.free_bytes, buffer);
    assert_eq!((status.sends.waiting, status.sends.held), (0, 0));
    assert_eq!(tally.begun.load(SeqCst), tally.ended.load(SeqCst));
    assert_eq!(tally.callbacks.load(SeqCst), tally.callbacks_due.load(SeqCst));
    assert_eq!(tally.closed_early.load(SeqCst), 0, "a caller saw closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_send_ends_once_and_all_room_comes_back() {
    storm(1 << 16, Duration::from_secs(3), 12_345, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_send_ends_once_when_the_handle_is_closed_under_it() {
    storm(1 << 18, Duration::from_secs(3), 777, true).await;
}
