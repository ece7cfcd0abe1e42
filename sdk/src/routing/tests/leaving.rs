//! Giving leases back, and closing.

use std::time::Duration;

use tokio::time::Instant;

use super::support::{Operator, Sink, config, group, settle, topic};
use crate::routing::ResolveError;

#[tokio::test(start_paused = true)]
async fn a_lease_given_back_leaves_no_registration_and_follows_nothing() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    drop(lease);
    operator.sees_children("/zms/topic/t", 0).await;
    operator.topic_on("t", "b").await;
    settle().await;
    assert_eq!(sink.clusters(), ["a"]);
    assert!(router.inspect().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_leaves_in_the_background_and_others_of_the_name_stay() {
    let operator = Operator::with_clusters().await;
    operator.put("/zms/consumergroup/g", "clusterName=a\nbindingTopic=t").await;
    let router = operator.client().router(config());
    let first = router.group(&group("g")).await.unwrap();
    let mut second = router.group(&group("g")).await.unwrap();
    assert_eq!(operator.children("/zms/consumergroup/g").await.len(), 2);
    drop(first);
    operator.sees_children("/zms/consumergroup/g", 1).await;
    second.routes.borrow_and_update();
    operator.put("/zms/consumergroup/g", "clusterName=b\nbindingTopic=t").await;
    second.routes.changed().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_given_back_while_the_registry_is_away_leaves_when_it_is_back() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
    client.inner.disconnect();
    drop(lease);
    settle().await;
    assert_eq!(operator.children("/zms/topic/t").await.len(), 1);
    client.inner.reconnect();
    operator.sees_children("/zms/topic/t", 0).await;
}

#[tokio::test(start_paused = true)]
async fn giving_up_the_wait_leaves_nothing_behind() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    client.stall("/zms/cluster/a");
    let router = client.router(config());
    let wanted = topic("t");
    let sink = Sink::new();
    let outcome = tokio::time::timeout(Duration::from_secs(1), router.topic(&wanted, sink.clone())).await;
    assert!(outcome.is_err());
    operator.sees_children("/zms/topic/t", 0).await;
    client.release();
    settle().await;
    assert!(sink.routes().is_empty());
    assert!(operator.children("/zms/topic/t").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn closing_leaves_the_registry_and_ends_all_waits() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let router = operator.client().router(config());
    let _lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
    let missing = topic("missing");
    let (error, ()) = tokio::join!(router.topic(&missing, Sink::new()), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        router.close(Duration::from_secs(5)).await;
    });
    assert!(matches!(error.unwrap_err(), ResolveError::Closed));
    assert!(operator.children("/zms/topic/t").await.is_empty());
    let error = router.topic(&topic("t"), Sink::new()).await.unwrap_err();
    assert!(matches!(error, ResolveError::Closed));
    router.close(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_in_time_whatever_the_registry_and_the_sinks_do() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::with_permits(1);
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    operator.topic_on("t", "b").await;
    client.stall("unregister");
    let started = Instant::now();
    router.close(Duration::from_secs(5)).await;
    assert!(started.elapsed() < Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_router_that_nobody_uses_ends_its_tasks() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let router = operator.client().router(config());
    let lease = router.topic(&topic("t"), Sink::new()).await.unwrap();
    drop(lease);
    drop(router);
    settle().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
}
