//! What takes effect, what does not, and that entries never wait for one another.

use std::{sync::atomic::Ordering, time::Duration};

use zms_core::route::Traffic;

use super::support::{Operator, Sink, config, eventually, settle, topic};
use crate::registry::port::Registry;

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_slow_to_switch_does_not_delay_another() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("slow", "a").await;
    operator.topic_on("quick", "a").await;
    let router = operator.client().router(config());
    let (slow, quick) = (Sink::with_permits(1), Sink::new());
    let _slow = router.topic(&topic("slow"), slow.clone()).await.unwrap();
    let _quick = router.topic(&topic("quick"), quick.clone()).await.unwrap();

    operator.topic_on("slow", "b").await;
    eventually("the slow switch begun", || slow.waiting.load(Ordering::SeqCst) == 1).await;
    operator.topic_on("quick", "b").await;
    quick.comes_to("b").await;
    assert_eq!(slow.clusters(), ["a"]);

    // What changed meanwhile follows, and of that only the newest.
    operator.topic_on("slow", "c").await;
    operator.topic_on("slow", "a").await;
    slow.permit_one();
    slow.permit_one();
    eventually("both switches", || slow.routes().len() == 3).await;
    assert_eq!(slow.clusters(), ["a", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_concern_this_client_is_not_noticed() {
    let operator = Operator::with_clusters().await;
    operator.put("/zms/topic/t", "clusterName=a\ngatedIps=10.0.0.10\ngatedCluster=a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    client.forget_calls();
    operator.put("/zms/topic/t", "clusterName=a\ngatedIps=10.0.0.10\ngatedCluster=b").await;
    eventually("the change read", || client.calls().len() >= 3).await;
    settle().await;
    assert_eq!(sink.clusters(), ["a"]);

    operator.put("/zms/topic/t", "clusterName=a\ngatedIps=10.0.0.10,10.0.0.1\ngatedCluster=b").await;
    sink.comes_to("b").await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_cluster_reaches_all_topics_on_it() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    operator.topic_on("u", "a").await;
    let router = operator.client().router(config());
    let (t, u) = (Sink::new(), Sink::new());
    let _t = router.topic(&topic("t"), t.clone()).await.unwrap();
    let _u = router.topic(&topic("u"), u.clone()).await.unwrap();
    operator.put("/zms/cluster/a", "bootAddr=new:9092").await;
    for sink in [t, u] {
        eventually("the new bootstrap servers", || sink.last().cluster.bootstrap == "new:9092").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_holds_and_opens_a_topic_through_its_record() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let router = operator.client().router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    let record =
        |phase| format!(r#"{{"schema":1,"id":"m","phase":"{phase}","round":1,"from":"a","to":"b"}}"#);
    operator.put("/zms/migration/t", &record("fence")).await;
    eventually("held", || matches!(sink.last().traffic, Traffic::Held { .. })).await;
    assert_eq!(sink.last().cluster.name.as_str(), "a");
    operator.put("/zms/migration/t", &record("drain")).await;
    sink.comes_to("b").await;
    assert_eq!(sink.last().traffic, Traffic::Open);

    // A record that is gone in mid-move must not lead back to the topic node, which still says `a` here.
    operator.delete("/zms/migration/t").await;
    eventually("the loss seen", || router.inspect().counters.stale_reads > 0).await;
    settle().await;
    assert_eq!(sink.clusters().last().unwrap(), "b");
}

#[tokio::test(start_paused = true)]
async fn an_older_state_is_never_adopted() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let old = operator.0.read("/zms/topic/t").await.unwrap();
    operator.topic_on("t", "b").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();

    client.answer("/zms/topic/t", Ok(old));
    // A newer cluster node must not make up for the older topic node.
    operator.put("/zms/cluster/b", "bootAddr=b2:9092").await;
    eventually("the old state refused", || router.inspect().counters.stale_reads > 0).await;
    assert_eq!(sink.clusters(), ["b"]);

    client.answer_truly();
    operator.topic_on("t", "a").await;
    sink.comes_to("a").await;
    assert_eq!(sink.clusters(), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_data_keeps_the_last_route_and_counts_once() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let router = operator.client().router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    operator.put("/zms/topic/t", "{not json").await;
    eventually("the trouble seen", || router.inspect().counters.unreadable_nodes == 1).await;
    // Read again by the periodic re-read: the same state, no news.
    tokio::time::sleep(Duration::from_secs(200)).await;
    let inspection = router.inspect();
    assert_eq!(inspection.counters.unreadable_nodes, 1);
    assert!(inspection.entries[0].trouble.as_ref().unwrap().contains("/zms/topic/t"));
    assert_eq!(sink.clusters(), ["a"]);

    operator.topic_on("t", "b").await;
    sink.comes_to("b").await;
    assert_eq!(router.inspect().entries[0].trouble, None);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_topic_keeps_its_route_and_each_new_creation_is_followed() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    for (round, cluster) in [(1, "b"), (2, "a")] {
        operator.delete("/zms/topic/t").await;
        eventually("the deletion seen", || router.inspect().counters.missing_in_use == round).await;
        client.forget_calls();
        settle().await;
        assert!(client.calls().len() < 10, "no tight loop: {:?}", client.calls());
        let before = sink.clusters();
        operator.topic_on("t", cluster).await;
        sink.comes_to(cluster).await;
        assert_eq!(sink.clusters().len(), before.len() + 1);
        operator.sees_children("/zms/topic/t", 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_created_anew_between_two_reads_is_registered_again() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let router = client.router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    client.stall("/zms/migration/t");
    operator.delete("/zms/topic/t").await;
    operator.topic_on("t", "b").await;
    client.release();
    sink.comes_to("b").await;
    operator.sees_children("/zms/topic/t", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_cluster_keeps_the_route() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let router = operator.client().router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    operator.delete("/zms/cluster/a").await;
    eventually("the deletion seen", || router.inspect().counters.missing_in_use == 1).await;
    operator.put("/zms/cluster/a", "bootAddr=a3:9092").await;
    eventually("the new one followed", || sink.last().cluster.bootstrap == "a3:9092").await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_gets_the_next_route_all_the_same() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let router = operator.client().router(config());
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    sink.panic_next();
    operator.topic_on("t", "b").await;
    eventually("the panic counted", || router.inspect().counters.failed_adoptions == 1).await;
    // The periodic re-read finds that it is not in force.
    sink.comes_to("b").await;
}
