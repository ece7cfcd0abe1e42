//! What is read, in which order, and what becomes of names that lead nowhere.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;
use zms_core::route::{Source, Traffic};

use super::support::{Operator, Sink, config, eventually, group, settle, topic};
use crate::{
    registry::port::RegistryError,
    routing::{ResolveError, RoutingConfig},
};

#[tokio::test(start_paused = true)]
async fn a_client_registers_then_reads_the_record_then_the_topic_then_its_cluster() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    let sink = Sink::new();
    let _lease = client.router(config()).topic(&topic("t"), sink.clone()).await.unwrap();

    let order =
        ["register /zms/topic/t", "watch /zms/migration/t", "watch /zms/topic/t", "watch /zms/cluster/a"];
    assert_eq!(client.calls(), order);
    assert_eq!(sink.clusters(), ["a"], "adopted when the call returns");
    assert_eq!((sink.last().source, &sink.last().traffic), (Source::Registry, &Traffic::Open));
    assert_eq!(operator.children("/zms/topic/t").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_reading_starts_the_reading_over() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    client.expire_at("/zms/cluster/a", "/zms/migration/t");
    let router = client.router(config());
    let sink = Sink::new();
    let wanted = topic("t");
    let (lease, ()) = tokio::join!(router.topic(&wanted, sink.clone()), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(sink.routes().is_empty(), "read under a registration that is gone");
        client.release();
    });
    let _lease = lease.unwrap();
    let order = [
        "register /zms/topic/t",
        "watch /zms/migration/t",
        "watch /zms/topic/t",
        "watch /zms/cluster/a",
        "register /zms/topic/t",
        "watch /zms/migration/t",
        "watch /zms/topic/t",
        "watch /zms/cluster/a",
    ];
    assert_eq!(client.calls()[..8], order);
    assert_eq!(operator.children("/zms/topic/t").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_appears_between_registration_and_reading_is_registered_before_it_is_used() {
    let operator = Operator::with_clusters().await;
    let client = operator.client();
    client.stall("/zms/migration/t");
    let router = client.router(config());
    let wanted = topic("t");
    let (lease, ()) = tokio::join!(router.topic(&wanted, Sink::new()), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        operator.topic_on("t", "a").await;
        client.release();
    });
    let _lease = lease.unwrap();
    assert_eq!(operator.children("/zms/topic/t").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_topic_is_an_error_after_the_wait_and_is_found_later() {
    let operator = Operator::with_clusters().await;
    let router = operator.client().router(config());
    let started = Instant::now();
    let error = router.topic(&topic("t"), Sink::new()).await.unwrap_err();
    assert!(matches!(error, ResolveError::UnknownTopic { .. }), "{error}");
    assert!(started.elapsed() >= config().resolve_timeout);
    assert!(router.inspect().entries.is_empty());

    operator.topic_on("t", "a").await;
    let sink = Sink::new();
    let _lease = router.topic(&topic("t"), sink.clone()).await.unwrap();
    assert_eq!(sink.clusters(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_appears_while_waited_for_is_found_at_once_and_registered() {
    let operator = Operator::with_clusters().await;
    let client = operator.client();
    let router = client.router(config());
    let wanted = topic("t");
    let waiting = router.topic(&wanted, Sink::new());
    let appearing = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        // Created empty, filled later: what ZMS's own writers do.
        operator.put("/zms/topic/t", "").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        operator.topic_on("t", "b").await;
        Instant::now()
    };
    let (lease, appeared) = tokio::join!(waiting, appearing);
    let _lease = lease.unwrap();
    assert!(appeared.elapsed() < Duration::from_secs(1));
    assert_eq!(operator.children("/zms/topic/t").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_on_an_unknown_cluster_says_so_and_goes_on_when_the_cluster_appears() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "c").await;
    let router = operator.client().router(config());
    let error = router.topic(&topic("t"), Sink::new()).await.unwrap_err();
    assert!(matches!(&error, ResolveError::UnknownCluster { cluster, .. } if cluster == "c"), "{error}");

    let wanted = topic("t");
    let sink = Sink::new();
    let (lease, ()) = tokio::join!(router.topic(&wanted, sink.clone()), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        operator.put("/zms/cluster/c", "bootAddr=c:9092").await;
    });
    let _lease = lease.unwrap();
    assert_eq!(sink.clusters(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn what_waiting_does_not_mend_is_an_error_at_once() {
    let operator = Operator::with_clusters().await;
    operator.put("/zms/topic/t", r#"{"schema":1,"cluster":7}"#).await;
    operator.put("/zms/cluster/r", "bootAddr=r:9876\nbrokerType=ROCKETMQ").await;
    operator.topic_on("on-rocket", "r").await;
    let router = operator.client().router(config());
    let started = Instant::now();
    let unreadable = router.topic(&topic("t"), Sink::new()).await.unwrap_err();
    assert!(
        matches!(&unreadable, ResolveError::Unreadable { path, reason } if path == "/zms/topic/t" && reason.contains("cluster")),
        "{unreadable}"
    );
    let unsupported = router.topic(&topic("on-rocket"), Sink::new()).await.unwrap_err();
    assert!(matches!(unsupported, ResolveError::UnsupportedBroker { .. }), "{unsupported}");
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn reads_that_fail_are_tried_again_ever_more_rarely() {
    let operator = Operator::with_clusters().await;
    operator.topic_on("t", "a").await;
    let client = operator.client();
    client.answer("/zms/topic/t", Err(RegistryError::Unavailable { reason: "tired".to_owned() }));
    let patient = RoutingConfig { resolve_timeout: Duration::from_secs(300), ..config() };
    let router = client.router(patient);
    let sink = Sink::new();
    let wanted = topic("t");
    let (lease, ()) = tokio::join!(router.topic(&wanted, sink.clone()), async {
        tokio::time::sleep(Duration::from_secs(200)).await;
        let attempts = client.calls().len();
        assert!((10..150).contains(&attempts), "{attempts} calls in 200 s");
        client.answer_truly();
    });
    let _lease = lease.unwrap();
    assert_eq!(sink.clusters(), ["a"]);
    assert!(router.inspect().counters.failed_reads > 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_reads_the_record_of_the_topic_that_it_is_bound_to() {
    let operator = Operator::with_clusters().await;
    operator.put("/zms/consumergroup/g", "clusterName=a\nbindingTopic=t\nsuspend=true").await;
    let client = operator.client();
    let router = client.router(config());
    let mut lease = router.group(&group("g")).await.unwrap();
    let order = [
        "register /zms/consumergroup/g",
        "watch /zms/consumergroup/g",
        "watch /zms/migration/t",
        "watch /zms/consumergroup/g",
        "watch /zms/cluster/a",
    ];
    assert_eq!(client.calls(), order);
    let route = lease.routes.borrow_and_update().clone();
    assert_eq!((route.topic.as_str(), route.suspended, route.broadcast), ("t", true, false));

    client.forget_calls();
    operator.put("/zms/consumergroup/g", "clusterName=b\nbindingTopic=t").await;
    lease.routes.changed().await.unwrap();
    assert_eq!(lease.routes.borrow().cluster.name.as_str(), "b");
    let order = ["watch /zms/migration/t", "watch /zms/consumergroup/g", "watch /zms/cluster/b"];
    assert_eq!(client.calls(), order, "the binding is known by now");
}

#[tokio::test(start_paused = true)]
async fn a_group_bound_anew_follows_the_record_of_its_new_topic_and_no_other() {
    let operator = Operator::with_clusters().await;
    operator.put("/zms/consumergroup/g", "clusterName=a\nbindingTopic=t").await;
    let client = operator.client();
    let router = client.router(config());
    let mut lease = router.group(&group("g")).await.unwrap();
    lease.routes.borrow_and_update();
    client.forget_calls();
    operator.put("/zms/consumergroup/g", "clusterName=b\nbindingTopic=u").await;
    lease.routes.changed().await.unwrap();
    assert_eq!(lease.routes.borrow_and_update().topic.as_str(), "u");
    let order = ["watch /zms/migration/u", "watch /zms/consumergroup/g", "watch /zms/cluster/b"];
    assert_eq!(client.calls()[2..], order);

    let move_of_u = r#"{"schema":1,"id":"m","phase":"prepare","round":0,"from":"a","to":"b"}"#;
    operator.put("/zms/migration/u", move_of_u).await;
    lease.routes.changed().await.unwrap();
    assert_eq!(lease.routes.borrow().cluster.name.as_str(), "a", "the source of the move");
    client.forget_calls();
    operator.put("/zms/migration/t", move_of_u).await;
    settle().await;
    assert_eq!(client.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_group_bound_anew_again_and_again_while_it_is_read_never_mixes_two_topics() {
    let operator = Operator::with_clusters().await;
    operator.put("/zms/consumergroup/g", "clusterName=b\nbindingTopic=t").await;
    let move_of_u = r#"{"schema":1,"id":"m","phase":"prepare","round":0,"from":"a","to":"b"}"#;
    operator.put("/zms/migration/u", move_of_u).await;
    let client = operator.client();
    client.stall("/zms/migration/t");
    let router = client.router(config());
    let wanted = group("g");
    let (lease, ()) = tokio::join!(router.group(&wanted), async {
        for (bound, stalled) in [("u", "/zms/migration/u"), ("v", "/zms/migration/v")] {
            tokio::time::sleep(Duration::from_millis(500)).await;
            operator.put("/zms/consumergroup/g", &format!("clusterName=b\nbindingTopic={bound}")).await;
            client.release();
            client.stall(stalled);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(router.inspect().entries[0].route.is_none(), "the record of v was not read yet");
        client.release();
    });
    let route = lease.unwrap().routes.borrow().clone();
    assert_eq!((route.topic.as_str(), route.cluster.name.as_str()), ("v", "b"));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_group_is_an_error_after_the_wait() {
    let operator = Operator::with_clusters().await;
    let error = operator.client().router(config()).group(&group("g")).await.unwrap_err();
    assert!(matches!(error, ResolveError::UnknownGroup { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_idle_topics_cost_no_task_and_a_bounded_number_of_calls() {
    let operator = Operator::with_clusters().await;
    let client = operator.client();
    let router = client.router(RoutingConfig { concurrent_calls: 8, ..config() });
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let sink = Sink::new();
    let mut leases = Vec::new();
    for number in 0..1000 {
        let name = format!("t{number}");
        operator.topic_on(&name, "a").await;
        leases.push(router.topic(&topic(&name), Arc::clone(&sink) as _).await.unwrap());
    }
    client.inner.disconnect();
    client.forget_calls();
    client.inner.reconnect();
    eventually("everything read again", || client.calls().len() >= 3000).await;
    settle().await;
    assert!(client.most_under_way.load(Ordering::SeqCst) <= 8);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
    assert_eq!(sink.routes().len(), 1000, "nothing changed, so nothing was pushed again");
}
