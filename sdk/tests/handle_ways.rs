//! The ways to send by topic name, on in-process clusters.
#![cfg(feature = "testing")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use zms_sdk::{
    Delivery, Message, ResolveError, SendError, TopicName, Zms,
    admin::Safety,
    producer::{ProducerConfigError, ProducerOptions},
    testing::Sandbox,
};

const LIMIT: Duration = Duration::from_secs(60);

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.expect(what);
}

async fn orders_on_a() -> (Sandbox, Zms) {
    let sandbox = Sandbox::start(["a", "b"]).await.expect("starts");
    sandbox.topic("orders", 2, "a").await.expect("is new");
    sandbox.group("billing", "orders").await.expect("is new");
    let zms = sandbox.connect().await.expect("connects");
    (sandbox, zms)
}

fn rich(text: &str) -> Message {
    Message::new(text.to_owned()).key("k").header("h", "1").null_header("n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_never_used_before_is_fetched_while_its_messages_come_back() {
    let (_sandbox, zms) = orders_on_a().await;
    let mut refused = 0;
    let sending = loop {
        match zms.try_send("orders", rich("first")) {
            Ok(sending) => break sending,
            Err(error) => {
                refused += 1;
                assert!(error.is_retryable(), "{error}");
                let SendError::Unresolved { source, message, .. } = error else { panic!("{error}") };
                assert!(matches!(source, ResolveError::NotYet { .. }), "{source}");
                assert_eq!(message.into_inner(), Some(rich("first")));
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(refused > 0);
    assert_eq!(tokio::time::timeout(LIMIT, sending).await.unwrap().unwrap().topic.as_str(), "orders");
    let error = zms.try_send("a b", rich("nowhere")).unwrap_err();
    assert!(matches!(error, SendError::Unresolved { source: ResolveError::Name(_), .. }), "{error}");
    for _ in 0..2_000 {
        assert_eq!(zms.try_send("no-such-topic", rich("x")).unwrap_err().into_message(), Some(rich("x")));
    }
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_send_arrives_by_name() {
    let (_sandbox, zms) = orders_on_a().await;
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let reader = Arc::clone(&seen);
    let sender = zms.clone();
    let subscription = zms
        .subscribe("billing")
        .handle_blocking(move |delivery: Delivery| {
            let text = String::from_utf8_lossy(delivery.payload().unwrap_or_default()).into_owned();
            // Handlers without async send as threads do.
            if text == "echo" {
                sender.send_blocking("orders", Message::new("echoed")).unwrap();
            }
            reader.lock().unwrap().push(text);
        })
        .await
        .unwrap();
    subscription.ready().await.unwrap();
    let thread = thread::spawn({
        let zms = zms.clone();
        // Its first use resolves the topic.
        move || zms.send_blocking("orders", Message::new("blocking"))
    });
    let answer = tokio::task::spawn_blocking(|| thread.join().unwrap());
    assert_eq!(answer.await.unwrap().unwrap().topic.as_str(), "orders");
    for result in zms.send_batch("orders", vec![Message::new("one"), Message::new("two")]).await {
        result.unwrap();
    }
    zms.send_json("orders", Message::default(), &BTreeMap::from([("id", 7)])).await.unwrap();
    zms.send_written("orders", Message::default(), |payload| write!(payload, "written")).await.unwrap();
    zms.try_send("orders", Message::new("echo")).unwrap().await.unwrap();
    until("all are handled", || seen.lock().unwrap().len() == 7).await;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, ["blocking", "echo", "echoed", "one", "two", "written", "{\"id\":7}"]);
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_nowhere_gives_every_message_back() {
    let (sandbox, _) = orders_on_a().await;
    let zms = sandbox.builder().resolve_timeout(Duration::from_millis(200)).connect().await.unwrap();
    let results = zms.send_batch("no-such-topic", vec![rich("one"), rich("two")]).await;
    let returned: Vec<_> = results.into_iter().map(|it| it.unwrap_err().into_message().unwrap()).collect();
    assert_eq!(returned, [rich("one"), rich("two")]);
    let error = zms.send_json("no-such-topic", rich("replaced"), "text").await.unwrap_err();
    assert!(matches!(error, SendError::Unresolved { .. }), "{error}");
    let error = zms.send_blocking("orders", rich("async")).unwrap_err();
    assert!(matches!(error, SendError::AsyncThread { .. }), "{error}");
    let thread = thread::spawn({
        let zms = zms.clone();
        move || zms.send_blocking("no-such-topic", rich("blocking"))
    });
    let error = tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap().unwrap_err();
    assert_eq!(error.into_message(), Some(rich("blocking")));
    zms.close(LIMIT).await.unwrap();
}

#[test]
fn a_blocking_send_after_its_runtime_has_ended_says_so() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_sandbox, zms) = runtime.block_on(orders_on_a());
    drop(runtime);
    let error = zms.send_blocking("orders", rich("late")).unwrap_err();
    assert!(matches!(error, SendError::Unresolved { source: ResolveError::Closed, .. }), "{error}");
    assert_eq!(error.into_message(), Some(rich("late")));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_changed_in_the_registry_take_effect_under_load_without_loss_or_disorder() {
    const EACH: usize = 400;
    let (sandbox, zms) = orders_on_a().await;
    let seen = Arc::<Mutex<Vec<(Vec<u8>, usize)>>>::default();
    let reader = Arc::clone(&seen);
    let subscription = zms
        .subscribe("billing")
        .handle_blocking(move |delivery: Delivery| {
            let number = std::str::from_utf8(delivery.payload().unwrap()).unwrap().parse().unwrap();
            reader.lock().unwrap().push((delivery.key_bytes().unwrap().to_vec(), number));
        })
        .await
        .unwrap();
    subscription.ready().await.unwrap();
    let time = tokio::sync::watch::Sender::new(false);
    let senders: Vec<_> = (0..4)
        .map(|key: usize| {
            let (zms, mut time) = (zms.clone(), time.subscribe());
            tokio::spawn(async move {
                for n in 0..EACH / 10 {
                    // The last tenth comes after the last change.
                    if n == EACH / 10 - 4 {
                        time.wait_for(|come| *come).await.unwrap();
                    }
                    let message = |n: usize| Message::new(n.to_string()).key(key.to_string());
                    for result in zms.send_batch("orders", (n * 10..n * 10 + 10).map(message).collect()).await
                    {
                        result.expect("no send fails");
                    }
                }
            })
        })
        .collect();
    let orders = TopicName::new("orders").unwrap();
    until("sends are under way", || zms.status().sends.delivered > 0).await;
    for (switches, (name, value)) in
        [("linger", "20ms"), ("profile", "throughput"), ("profile", "latency")].into_iter().enumerate()
    {
        let change = sandbox.admin().set_topic(&orders, Safety::Forced, |topic| {
            topic.producer.clear();
            topic.producer.insert(name.to_owned(), value.to_owned());
        });
        change.await.unwrap();
        until("the change has come", || zms.status().sends.switches > switches as u64).await;
    }
    time.send_replace(true);
    for sender in senders {
        tokio::time::timeout(LIMIT, sender).await.expect("sends end").unwrap();
    }
    until("all are handled", || seen.lock().unwrap().len() >= 4 * EACH).await;
    let mut next = BTreeMap::<Vec<u8>, usize>::new();
    for (key, number) in seen.lock().unwrap().iter() {
        let next = next.entry(key.clone()).or_default();
        assert_eq!(number, next, "order of a key");
        *next += 1;
    }
    assert_eq!(next.into_values().collect::<Vec<_>>(), [EACH; 4]);
    assert_eq!(zms.status().sends.late_switches, 0);
    zms.close(LIMIT).await.unwrap();
}

#[test]
fn transactions_are_refused_with_the_reason() {
    for name in ["transactional.id", "transaction.timeout.ms"] {
        let error = ProducerOptions::new().property(name, "1").build().unwrap_err();
        assert!(matches!(error, ProducerConfigError::Reserved { .. }), "{error}");
        let words = error.to_string();
        assert!(words.contains("do not span clusters") && words.contains("closing a topic"), "{words}");
    }
}

#[derive(Clone, Default)]
struct Gap(Arc<AtomicU64>);

impl Gap {
    fn note(&self, before: Instant) {
        let passed = u64::try_from(before.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_max(passed, SeqCst);
    }

    fn longest(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

#[test]
fn first_sends_to_a_cluster_that_does_not_answer_stop_nothing_else_on_their_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sandbox = Sandbox::start(["a"]).await.unwrap();
        let topics: Vec<_> = (0..12).map(|n| format!("topic-{n}")).collect();
        for topic in &topics {
            sandbox.topic(topic, 2, "a").await.unwrap();
        }
        sandbox.cluster("a").unwrap().all_brokers_down().unwrap();
        // Room for a few messages, so that sends wait for room too.
        let options =
            ProducerOptions::new().buffer(4_000_000).topic_cap(26).max_block(Duration::from_secs(1));
        let zms = sandbox.builder().producer(options).connect().await.unwrap();
        let (gap, machine) = (Gap::default(), Gap::default());
        let ticker = tokio::spawn({
            let gap = gap.clone();
            async move {
                loop {
                    let before = Instant::now();
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    gap.note(before);
                }
            }
        });
        // Tells how long the machine lets a thread wait that nothing blocks.
        thread::spawn({
            let machine = machine.clone();
            move || {
                loop {
                    let before = Instant::now();
                    thread::sleep(Duration::from_millis(10));
                    machine.note(before);
                }
            }
        });
        let message = || Message::new(vec![0; 500_000]).key("k");
        for (n, topic) in topics.iter().enumerate() {
            let (zms, topic) = (zms.clone(), topic.clone());
            tokio::spawn(async move {
                let started = Instant::now();
                while started.elapsed() < Duration::from_secs(3) {
                    match n % 6 {
                        0 => drop(zms.send(&topic, message()).await),
                        1 => drop(zms.send_batch(&topic, vec![message(), message(), message()]).await),
                        2 => drop(zms.send_json(&topic, Message::default(), &"x".repeat(500_000)).await),
                        3 => zms.send_with(&topic, message(), drop).await,
                        4 => drop(zms.producer(&topic).await.map(|producer| producer.try_send(message()))),
                        _ => {
                            zms.send_oneway(&topic, message());
                            drop(zms.try_send(&topic, message()));
                            drop(zms.send_blocking(&topic, message()));
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        ticker.abort();
        let (longest, usual) = (gap.longest(), machine.longest());
        assert!(
            longest < 1_000 + 10 * usual,
            "nothing ran for {longest} ms; other threads wait up to {usual} ms"
        );
        let stats = zms.status().sends;
        assert!(stats.pool.exhaustions > 0 && stats.delivered == 0, "{stats:?}");
        // What was never delivered is given up; that is no matter here.
        let _given_up = zms.close(Duration::from_secs(1)).await;
    });
}
