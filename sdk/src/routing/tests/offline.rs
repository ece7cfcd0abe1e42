//! Starts while the registry is down.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use zms_core::route::Source;

use super::support::{Operator, Sink, Spoilt, config, eventually, group, topic};
use crate::routing::{ResolveError, RoutingConfig};

fn keeping(path: &Path) -> RoutingConfig {
    RoutingConfig { snapshot: Some(path.to_owned()), ..config() }
}

/// A process that knew topic `t` on `a` and group `g` on `a`, and ended.
async fn earlier_process(operator: &Operator, directory: &Path) -> PathBuf {
    let path = directory.join("snapshot.json");
    operator.topic_on("t", "a").await;
    operator.put("/zms/consumergroup/g", "clusterName=a\nbindingTopic=t").await;
    let router = operator.client().router(keeping(&path));
    let lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
    let group_lease = router.group(&group("g")).await.unwrap();
    router.close(Duration::from_secs(5)).await;
    drop((lease, group_lease));
    path
}

fn offline(operator: &Operator) -> Arc<Spoilt> {
    Spoilt::new(operator.0.connect_offline())
}

#[tokio::test(start_paused = true)]
async fn a_start_without_registry_uses_the_snapshot_and_catches_up_on_its_return() {
    let dir = tempfile::tempdir().unwrap();
    let operator = Operator::with_clusters().await;
    let path = earlier_process(&operator, dir.path()).await;
    operator.topic_on("t", "b").await;

    let client = offline(&operator);
    let router = client.router(keeping(&path));
    let sink = Sink::new();
    let started = Instant::now();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    assert!(started.elapsed() >= config().offline_grace);
    assert_eq!(sink.clusters(), ["a"]);
    assert!(matches!(sink.last().source, Source::Snapshot { written_at_ms } if written_at_ms > 0));
    assert_eq!(router.inspect().routes_by_source(), (0, 1));

    // The grace has passed: what comes later does not wait again.
    let started = Instant::now();
    let mut group_lease = router.group(&group("g")).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(matches!(group_lease.routes.borrow_and_update().source, Source::Snapshot { .. }));

    client.inner.reconnect();
    sink.comes_to("b").await;
    assert_eq!(sink.last().source, Source::Registry);
    group_lease.routes.changed().await.unwrap();
    assert_eq!(group_lease.routes.borrow().source, Source::Registry);
    assert_eq!(operator.sees_children("/zms/topic/t", 1).await.len(), 1);
    assert_eq!(router.inspect().routes_by_source(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_hangs_is_as_good_as_down() {
    let dir = tempfile::tempdir().unwrap();
    let operator = Operator::with_clusters().await;
    let path = earlier_process(&operator, dir.path()).await;
    operator.topic_on("t", "b").await;
    let client = operator.client();
    client.stall("/zms/topic/t");
    let router = client.router(keeping(&path));
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    assert_eq!(sink.clusters(), ["a"]);
    client.release();
    sink.comes_to("b").await;
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_answers_is_believed_before_the_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let operator = Operator::with_clusters().await;
    let path = earlier_process(&operator, dir.path()).await;
    operator.delete("/zms/topic/t").await;
    let router = operator.client().router(keeping(&path));
    let error = router.topic(&topic("t"), Sink::new()).await.unwrap_err();
    assert!(matches!(error, ResolveError::UnknownTopic { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_registry_and_snapshot_the_error_names_the_registry() {
    let dir = tempfile::tempdir().unwrap();
    let operator = Operator::with_clusters().await;
    let path = earlier_process(&operator, dir.path()).await;
    let router = offline(&operator).router(keeping(&path));
    let started = Instant::now();
    let error = router.topic(&topic("unknown"), Sink::new()).await.unwrap_err();
    assert!(matches!(error, ResolveError::RegistryUnavailable { .. }), "{error}");
    assert!(started.elapsed() < config().resolve_timeout + Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_snapshot_is_no_snapshot_and_is_replaced_later() {
    let dir = tempfile::tempdir().unwrap();
    let operator = Operator::with_clusters().await;
    let path = earlier_process(&operator, dir.path()).await;
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let client = offline(&operator);
    let router = client.router(keeping(&path));
    let error = router.topic(&topic("t"), Sink::new()).await.unwrap_err();
    assert!(matches!(error, ResolveError::RegistryUnavailable { .. }), "{error}");

    client.inner.reconnect();
    let _lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
    eventually("the snapshot written", || router.inspect().snapshot_age.is_some()).await;
    let router = offline(&operator).router(keeping(&path));
    let _lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_the_registry_finds_it_when_it_comes_up() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = offline(&operator);
    let router = client.router(config());
    let sink = Sink::new();
    let wanted = topic("t");
    let (lease, ()) = tokio::join!(router.topic(&wanted, sink.clone()), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        client.inner.reconnect();
    });
    let _lease = lease.unwrap();
    assert_eq!(sink.last().source, Source::Registry);
}

#[tokio::test(start_paused = true)]
async fn a_state_older_than_the_snapshot_is_not_adopted_either() {
    let dir = tempfile::tempdir().unwrap();
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "b").await;
    let old = crate::registry::port::Registry::read(&operator.0, "/zms/topic/t").await.unwrap();
    let path = earlier_process(&operator, dir.path()).await;
    let client = offline(&operator);
    client.answer("/zms/topic/t", Ok(old));
    let router = client.router(keeping(&path));
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    client.inner.reconnect();
    eventually("the old state refused", || router.inspect().counters.stale_reads > 0).await;
    assert_eq!(sink.clusters(), ["a"]);
    client.answer_truly();
    operator.topic_on("t", "b").await;
    sink.comes_to("b").await;
}
