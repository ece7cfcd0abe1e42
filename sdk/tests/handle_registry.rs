#![cfg(feature = "testing")]
//! Whatever stands in the registry, and however it comes and goes, a running service goes on.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinHandle;
use zms_sdk::{
    ClusterName, Delivery, Message, Outcome, Receipt, SendError, Subscription, TopicName, Zms,
    admin::Safety,
    registry::{Fault, MemoryRegistry, port::Registry},
    testing::Sandbox,
};

/// Generous: reached only when a test fails.
const LIMIT: Duration = Duration::from_secs(60);

type Sending = JoinHandle<Result<Receipt, SendError>>;

async fn write(registry: &MemoryRegistry, path: &str, data: impl Into<Bytes>) {
    let data = data.into();
    match registry.read(path).await.unwrap() {
        None => registry.create(path, data).await.unwrap(),
        Some(node) => {
            registry.set(path, data, node.version).await.unwrap();
        }
    }
}

async fn world() -> (Sandbox, MemoryRegistry, Zms, Subscription) {
    let sandbox = Sandbox::start(["a", "b"]).await.unwrap();
    sandbox.topic("orders", 2, "a").await.unwrap();
    sandbox.group("billing", "orders").await.unwrap();
    let session = sandbox.registry().connect();
    let zms = Zms::builder()
        .registry(session.shared())
        .resolve_timeout(Duration::from_secs(10))
        .connect()
        .await
        .unwrap();
    let subscription =
        zms.subscribe("billing").workers(1).handle(|_: Delivery| async { Outcome::Done }).await.unwrap();
    subscription.ready().await.unwrap();
    (sandbox, session, zms, subscription)
}

async fn sent(zms: &Zms) -> String {
    let sent =
        tokio::time::timeout(LIMIT, zms.send("orders", Message::new("x"))).await.expect("a send hangs");
    sent.unwrap().cluster.to_string()
}

async fn sent_to(zms: &Zms, cluster: &str) {
    let until = Instant::now() + LIMIT;
    loop {
        let now = sent(zms).await;
        if now == cluster {
            return;
        }
        assert!(Instant::now() < until, "still sent to {now} instead of {cluster}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn sending(zms: &Zms) -> Sending {
    let zms = zms.clone();
    tokio::spawn(async move { zms.send("orders", Message::new("x")).await })
}

async fn receipt(sending: Sending) -> Receipt {
    tokio::time::timeout(LIMIT, sending).await.expect("a held send hangs").unwrap().unwrap()
}

async fn until(what: &str, reached: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !reached() {
        assert!(Instant::now() < limit, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until what stands in the registry now is in force for sends, also when that changes nothing to be seen.
///
/// The topic's node is broken and mended: the reading that clears the complaint began after this call, and it has read
/// the migration record before the topic's node.
async fn in_force(registry: &MemoryRegistry, zms: &Zms) {
    let path = "/zms/topic/orders";
    let good = registry.read(path).await.unwrap().unwrap().data;
    write(registry, path, "{").await;
    until("a complaint", || !zms.status().troubles.is_empty()).await;
    write(registry, path, good).await;
    until("no complaint", || zms.status().troubles.is_empty()).await;
}

fn garbage() -> Vec<Bytes> {
    let mut nested = "{\"a\":".repeat(5_000);
    nested.push('1');
    nested.push_str(&"}".repeat(5_000));
    let mut deep = "[".repeat(100_000);
    deep.push_str(&"]".repeat(100_000));
    let mut random = Vec::new();
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..4096 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        random.push(state.to_le_bytes()[0]);
    }
    vec![
        Bytes::from(random),
        Bytes::from(vec![b'x'; 1_000_000]),
        Bytes::from(format!("clusterName={}", "y".repeat(900_000))),
        Bytes::from_static(b"\0\0\0"),
        Bytes::from_static(b"\xff\xfe\xfd"),
        Bytes::from_static(b"{"),
        Bytes::from_static(b"[]"),
        Bytes::from_static(b"null"),
        Bytes::from_static(b"42"),
        Bytes::from_static(b"\"text\""),
        Bytes::from_static(b"{}"),
        Bytes::from_static(br#"{"clusterName":7,"bootAddr":[],"bindingCluster":{},"bindingTopic":null,"phase":1}"#),
        Bytes::from_static(br#"{"clusterName":["a"],"bootAddr":{"a":1},"clusterDataVo":{"clusterName":{}},"schema":"x"}"#),
        Bytes::from_static(br#"{"clusterName":"../../etc","bindingTopic":"a/b","bindingCluster":"\u0000","phase":""}"#),
        Bytes::from_static(br#"{"clusterName":"nowhere","bindingTopic":"orders,other","bindingCluster":"a","bootAddr":"","phase":"warp","schema":99}"#),
        Bytes::from_static(br#"{"bindingTopic":"orders,other","bindingCluster":"a"}"#),
        Bytes::from_static(br#"{"clusterName":"a","bootAddr":",,, ","clusterType":"KAFKA","schema":-1}"#),
        Bytes::from_static(br#"{"schema":1,"cluster":7,"bootstrap":[],"topic":null,"phase":1}"#),
        Bytes::from_static(br#"{"schema":1,"cluster":["a"],"bootstrap":{"a":1},"topic":{"topic":{}},"phase":["idle"]}"#),
        Bytes::from_static(br#"{"schema":1,"cluster":"../../etc","topic":"a/b","bootstrap":""}"#),
        Bytes::from_static(br#"{"schema":1,"cluster":"nowhere","topic":"orders,other","bootstrap":",,, "}"#),
        Bytes::from_static(br#"{"schema":1,"cluster":"a","topic":"orders,other","bootstrap":""}"#),
        Bytes::from_static(br#"{"schema":99,"cluster":"a","topic":"orders"}"#),
        Bytes::from_static(b"bindingTopic=orders,other\nbindingCluster=a\nclusterName=a\nbootAddr=\n"),
        Bytes::from_static(b"clusterName=\\u12\nbindingTopic=\\uZZZZ\n"),
        Bytes::from(nested),
        Bytes::from(deep),
        Bytes::new(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_in_any_node_stops_nothing_and_good_data_is_followed_again() {
    let (sandbox, _session, zms, subscription) = world().await;
    let registry = sandbox.registry();
    sent(&zms).await;
    let paths = ["/zms/topic/orders", "/zms/cluster/a", "/zms/consumergroup/billing"];
    for path in paths {
        let good = registry.read(path).await.unwrap().unwrap().data;
        for (number, bad) in garbage().into_iter().enumerate() {
            write(registry, path, bad.clone()).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
            let cluster = tokio::time::timeout(LIMIT, zms.send("orders", Message::new("x"))).await;
            assert!(cluster.is_ok(), "garbage {number} in {path} holds sends; {:?}", zms.status());
            // A handle that starts now fails or works, within its time.
            let newcomer =
                sandbox.builder().resolve_timeout(Duration::from_millis(30)).connect().await.unwrap();
            let fresh = tokio::time::timeout(
                LIMIT,
                newcomer.subscribe("billing").handle(|_: Delivery| async { Outcome::Done }),
            )
            .await;
            let fresh = fresh.unwrap_or_else(|_| panic!("garbage {number} in {path} hangs a newcomer"));
            drop((fresh, newcomer));
        }
        write(registry, path, good).await;
    }
    until("no complaint", || zms.status().troubles.is_empty()).await;
    sandbox.move_topic("orders", "b").await.unwrap();
    sent_to(&zms, "b").await;
    until("the group moves too", || subscription.inspect().cluster.as_str() == "b").await;
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_in_the_migration_record_stops_nothing() {
    let (sandbox, _session, zms, _subscription) = world().await;
    sent(&zms).await;
    for bad in garbage() {
        // What is no record at all says nothing of a move; one of an unknown schema or phase does.
        if bad.windows(4).any(|text| text == b"warp" || text == b"\":99") {
            continue;
        }
        write(sandbox.registry(), "/zms/migration/orders", bad).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(sent(&zms).await, "a");
    }
    write(sandbox.registry(), "/zms/migration/orders", r#"{"schema":1,"phase":"idle"}"#).await;
    sandbox.move_topic("orders", "b").await.unwrap();
    sent_to(&zms, "b").await;
    zms.close(LIMIT).await.unwrap();
}

fn record(phase: &str) -> String {
    format!(
        r#"{{"schema":1,"id":"m1","phase":"{phase}","mode":"ordered","round":1,"from":"a","to":"b","tail":"a"}}"#
    )
}

/// Where sends go by the record, and that a held one goes where the next open phase says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_move_is_followed_phase_by_phase() {
    let (sandbox, _session, zms, _subscription) = world().await;
    sent(&zms).await;
    let mut held = Vec::new();
    for (phase, goes) in [
        ("init", Some("a")),
        ("prepare", Some("a")),
        ("fence", None),
        ("cut", None),
        ("settle", Some("b")),
        ("drain", Some("b")),
        ("closing", Some("b")),
        ("warp", None),
        ("idle", Some("a")),
        ("fence", None),
        ("idle", Some("a")),
    ] {
        write(sandbox.registry(), "/zms/migration/orders", record(phase)).await;
        in_force(sandbox.registry(), &zms).await;
        let Some(cluster) = goes else {
            held.push(sending(&zms));
            until(phase, || {
                zms.status().sends.held == held.len() || held.iter().any(JoinHandle::is_finished)
            })
            .await;
            assert!(!held.iter().any(JoinHandle::is_finished), "{phase} does not hold");
            continue;
        };
        assert_eq!(sent(&zms).await, cluster, "{phase}");
        for sending in held.drain(..) {
            assert_eq!(receipt(sending).await.cluster.as_str(), cluster, "held until {phase}");
        }
    }
    assert_eq!(zms.status().sends.held, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_held_from_the_very_start_goes_out_when_the_record_is_idle() {
    let (sandbox, _s, _zms, _sub) = world().await;
    write(sandbox.registry(), "/zms/migration/orders", record("fence")).await;
    let zms = sandbox.connect().await.unwrap();
    let sending = sending(&zms);
    until("held", || zms.status().sends.held == 1 || sending.is_finished()).await;
    assert!(!sending.is_finished());
    write(sandbox.registry(), "/zms/migration/orders", record("settle")).await;
    assert_eq!(receipt(sending).await.cluster.as_str(), "b");
}

async fn registrations(sandbox: &Sandbox) -> (usize, usize) {
    let count = |children: Option<Vec<String>>| children.map_or(0, |c| c.len());
    let registry = sandbox.registry();
    (
        count(registry.children("/zms/topic/orders").await.unwrap()),
        count(registry.children("/zms/consumergroup/billing").await.unwrap()),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_registration_stands_whatever_becomes_of_the_session() {
    let (sandbox, session, zms, _subscription) = world().await;
    let mut at = ["b", "a"].into_iter().cycle();
    sent(&zms).await;
    for round in 0..12 {
        let to = at.next().unwrap();
        match round % 6 {
            0 => session.expire_session(),
            1 => {
                session.disconnect();
                session.expire_session();
            }
            2 => {
                session.fail_next(Fault::AnswerLost);
                session.fail_next(Fault::RequestLost);
                session.expire_session();
            }
            3 => session.disconnect(),
            4 => {
                for _ in 0..4 {
                    session.fail_next(Fault::AnswerLost);
                }
            }
            _ => {}
        }
        let moving = sandbox.move_topic("orders", to);
        if round % 2 == 0 {
            session.expire_session();
        }
        moving.await.unwrap();
        if matches!(round % 6, 1 | 3) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            session.reconnect();
        }
        sent_to(&zms, to).await;
        let until = Instant::now() + LIMIT;
        loop {
            let standing = registrations(&sandbox).await;
            if standing == (1, 1) {
                break;
            }
            assert!(Instant::now() < until, "round {round}: {standing:?} {:?}", zms.status());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    zms.close(LIMIT).await.unwrap();
    assert_eq!(registrations(&sandbox).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_outage_costs_no_send_and_the_change_behind_it_is_followed() {
    let (sandbox, session, zms, _subscription) = world().await;
    sent(&zms).await;
    session.disconnect();
    sandbox.move_topic("orders", "b").await.unwrap();
    for _ in 0..100 {
        assert_eq!(sent(&zms).await, "a");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let unknown = zms.send("elsewhere", Message::new("x")).await;
    assert!(matches!(unknown, Err(SendError::Unresolved { .. })), "{unknown:?}");
    session.reconnect();
    sent_to(&zms, "b").await;
    session.disconnect();
    let started = Instant::now();
    let _ = zms.close(Duration::from_secs(4)).await;
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_a_new_address_is_followed() {
    let (sandbox, _session, zms, _subscription) = world().await;
    sent(&zms).await;
    let a = ClusterName::new("a").unwrap();
    let address = sandbox.cluster("b").unwrap().bootstrap().to_owned();
    let old = sandbox.cluster("a").unwrap().bootstrap().to_owned();
    for round in 0..10 {
        let to = if round % 2 == 0 { address.clone() } else { old.clone() };
        sandbox.admin().set_cluster(&a, |meta| meta.bootstrap = to.clone()).await.unwrap();
        sent(&zms).await;
    }
    let topic = TopicName::new("orders").unwrap();
    sandbox.admin().set_topic(&topic, Safety::Forced, |meta| meta.cluster = a.clone()).await.unwrap();
    sent(&zms).await;
    zms.close(LIMIT).await.unwrap();
}
