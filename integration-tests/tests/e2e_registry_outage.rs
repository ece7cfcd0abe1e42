//! Traffic goes on while the registry is away, and its changes are followed when it is back.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::{Duration, Instant};

use zms_integration_tests::estate::{CLOSE_LIMIT, Estate, Trial};
use zms_integration_tests::guarantees::Kept;
use zms_integration_tests::proxy::Proxy;
use zms_integration_tests::services::{Shared, ZooKeeperServer, require_services};
use zms_integration_tests::wait::eventually;
use zms_sdk::registry::port::SessionState;
use zms_sdk::{Zms, ZmsBuilder};

/// Longer than any session, so that all of them expire.
const OUTAGE: Duration = Duration::from_secs(60);
/// Between the registry's return and the adoption of what was changed meanwhile.
const ADOPTION_LIMIT: Duration = Duration::from_secs(30);

/// A registry that can be taken away from services, and not from the operator.
struct Apart {
    zookeeper: ZooKeeperServer,
    estate: Estate,
    proxy: Proxy,
}

impl Apart {
    async fn start() -> Self {
        let (shared, zookeeper) =
            tokio::task::spawn_blocking(|| (Shared::get(), ZooKeeperServer::start().unwrap())).await.unwrap();
        let estate = Estate::on(&zookeeper, &[("a", shared.a()), ("b", shared.b())]).await;
        let proxy = Proxy::start(zookeeper.port()).unwrap();
        Self { zookeeper, estate, proxy }
    }

    /// Settings of a service, which sees the registry through the proxy.
    fn builder(&self, instance: &str) -> ZmsBuilder {
        let (_, chroot) = self.estate.connect_string().split_once('/').unwrap();
        self.estate.builder(instance).zookeeper(format!("{}/{chroot}", self.proxy.address()))
    }

    async fn open(&self, instance: &str) -> Zms {
        self.builder(instance).connect().await.unwrap()
    }

    /// The server restarts with its data while services still cannot see it.
    async fn restart_unseen(&self) {
        self.proxy.cut();
        let zookeeper = self.zookeeper.clone();
        tokio::task::spawn_blocking(move || zookeeper.restart().unwrap()).await.unwrap();
        self.estate.connected().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_a_minute_harms_no_send_and_no_handler_and_hides_no_change() {
    if !require_services() {
        return;
    }
    let apart = Apart::start().await;
    let trial = Trial::begin(&apart.estate, 8, Kept::CLEAN).await;
    let handles = [apart.open("member-1").await, apart.open("member-2").await, apart.open("sender").await];
    let members = [trial.member(&handles[0]).await, trial.member(&handles[1]).await];
    let sender = trial.sender("steady", &handles[2]).await;
    eventually("messages are handled", || trial.handled().on("a") > 100).await;

    apart.zookeeper.kill();
    let before = (sender.sent().acknowledged(), trial.handled().count());
    let back = Instant::now() + OUTAGE;
    tokio::time::sleep_until(back.into()).await;
    let during = (sender.sent(), trial.handled().count());
    let gap = trial.handled().longest_gap();
    println!(
        "in {OUTAGE:?} without the registry: {} sent, {} handled, longest send {:?}, longest time without a handler \
         call {gap:?}",
        during.0.acknowledged() - before.0,
        during.1 - before.1,
        during.0.longest,
    );
    assert_eq!(during.0.failed, Vec::<String>::new());
    assert!(during.0.longest < OUTAGE / 2 && gap < OUTAGE / 2);
    assert!(handles.iter().all(|zms| zms.status().registry.state != SessionState::Connected));

    apart.restart_unseen().await;
    apart.estate.set_topic_cluster(trial.topic(), "b").await;
    apart.estate.set_group_cluster(trial.group(), "b").await;
    assert_eq!(sender.sent().by_cluster.get("b"), None, "nobody can know of the change yet");
    apart.proxy.restore().unwrap();
    let returned = Instant::now();
    eventually("sends follow the change", || sender.sent().by_cluster.contains_key("b")).await;
    let sends = returned.elapsed();
    eventually("members learn of the change", || members.iter().all(|m| m.inspect().route.as_str() == "b"))
        .await;
    let learnt = returned.elapsed();
    eventually("messages are handled on b", || trial.handled().on("b") > 100).await;
    println!(
        "after the return: first send on b after {sends:?}, members knew after {learnt:?}, handled on b {:?}",
        returned.elapsed()
    );
    assert!(sends < ADOPTION_LIMIT && learnt < ADOPTION_LIMIT);

    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!(sent.failed, Vec::<String>::new());
    for zms in &handles {
        zms.close(CLOSE_LIMIT).await.unwrap();
    }
    assert_eq!(trial.handled().count(), sent.acknowledged());
    trial.assert_holds();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_the_registry_works_from_the_snapshot_and_catches_up() {
    if !require_services() {
        return;
    }
    let apart = Apart::start().await;
    let directory = tempfile::tempdir().unwrap();
    let builder = |instance: &str| apart.builder(instance).snapshot_directory(directory.path());
    let trial = Trial::begin(&apart.estate, 4, Kept::CLEAN).await;

    let last_run = builder("service").connect().await.unwrap();
    let sender = trial.sender("last-run", &last_run).await;
    drop(trial.member(&last_run).await);
    eventually("messages are sent", || sender.sent().acknowledged() > 100).await;
    let sent_before = sender.finish().await;
    last_run.close(CLOSE_LIMIT).await.unwrap();

    apart.zookeeper.kill();
    apart.proxy.cut();
    let zms = builder("service").connect().await.unwrap();
    let sender = trial.sender("this-run", &zms).await;
    let member = trial.member(&zms).await;
    eventually("messages are handled from the snapshot's routes", || trial.handled().on("a") > 200).await;
    let status = zms.status();
    println!("started without the registry: {status:?}");
    assert_eq!((status.topics, status.groups, status.routes_from_snapshot), (1, 1, 2));
    assert!(status.snapshot_age.is_some_and(|age| age < Duration::from_secs(600)), "{status:?}");
    assert_ne!(status.registry.state, SessionState::Connected);
    let unknown = zms.producer("not-in-the-snapshot").await.unwrap_err();
    assert!(matches!(unknown, zms_sdk::ResolveError::RegistryUnavailable { .. }), "{unknown}");

    apart.restart_unseen().await;
    apart.estate.set_topic_cluster(trial.topic(), "b").await;
    apart.estate.set_group_cluster(trial.group(), "b").await;
    apart.proxy.restore().unwrap();
    eventually("routes come from the registry", || zms.status().routes_from_snapshot == 0).await;
    eventually("messages are handled on b", || trial.handled().on("b") > 100).await;
    assert_eq!(zms.status().registry.state, SessionState::Connected);
    let registered = apart.estate.admin().producers(trial.topic()).await.unwrap();
    assert_eq!(registered.len(), 1, "{registered:?}");

    let sent = sender.finish().await;
    trial.settled().await;
    assert_eq!((sent_before.failed, sent.failed), (vec![], vec![]));
    assert_eq!(member.inspect().counts.forced_switches, 0);
    zms.close(CLOSE_LIMIT).await.unwrap();
    trial.assert_holds();
}
