//! The handle as services use it, on in-process clusters.
#![cfg(feature = "testing")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use zms_sdk::{
    Delivery, Health, Message, Outcome, ResolveError, SendError, SubscribeError, Zms, consumer::Cause,
    testing::Sandbox,
};

const LIMIT: Duration = Duration::from_secs(60);

async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn one_way_messages_reach_a_topic_that_was_never_used_before() {
    let (_sandbox, zms) = orders_on_a().await;
    for _ in 0..50 {
        zms.send_oneway("orders", Message::new("seen"));
    }
    until("all are delivered", || zms.status().sends.delivered == 50).await;
    zms.send_oneway("no-such-topic", Message::new("nowhere"));
    until("the one that leads nowhere is counted", || zms.status().sends.dropped_oneway == 1).await;
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_hear_of_every_ending() {
    let (_sandbox, zms) = orders_on_a().await;
    let (ok, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for topic in ["orders", "no-such-topic", "not a name"] {
        let (ok, failed) = (Arc::clone(&ok), Arc::clone(&failed));
        let count = move |result: Result<_, SendError>| {
            let which = if result.is_ok() { &ok } else { &failed };
            which.fetch_add(1, Ordering::Relaxed);
        };
        zms.send_with(topic, Message::new("m"), count).await;
    }
    until("each has called back", || ok.load(Ordering::Relaxed) + failed.load(Ordering::Relaxed) == 3).await;
    assert_eq!(ok.load(Ordering::Relaxed), 1);
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_send_under_contention_opens_one_client() {
    let (_sandbox, zms) = orders_on_a().await;
    let sends = (0..64).map(|n| {
        let zms = zms.clone();
        tokio::spawn(async move { zms.send("orders", Message::new(n.to_string())).await })
    });
    for send in sends.collect::<Vec<_>>() {
        send.await.unwrap().unwrap();
    }
    assert_eq!((zms.status().topics, zms.status().sends.clients), (1, 1));
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_lead_nowhere_leave_nothing_behind() {
    let (sandbox, _) = orders_on_a().await;
    let zms = sandbox.builder().resolve_timeout(Duration::from_secs(5)).connect().await.unwrap();
    let error = zms.send("no-such-topic", Message::new("kept").key("k")).await.unwrap_err();
    assert!(error.to_string().contains("zmsctl topic add no-such-topic"), "{error}");
    assert_eq!(error.into_message(), Some(Message::new("kept").key("k")));
    assert!(matches!(zms.producer("a b").await, Err(ResolveError::Name(_))));
    let subscribed = zms.subscribe("no-such-group").handle(|_| async {}).await;
    assert!(matches!(subscribed, Err(SubscribeError::Unresolved(ResolveError::UnknownGroup { .. }))));
    assert_eq!((zms.status().topics, zms.status().groups), (0, 0));
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_can_be_subscribed_to_again_once_its_subscription_has_ended() {
    let (_sandbox, zms) = orders_on_a().await;
    let first = zms.subscribe("billing").handle(|_| async {}).await.unwrap();
    let again = zms.subscribe("billing").handle(|_| async {}).await;
    assert!(matches!(again, Err(SubscribeError::AlreadySubscribed { .. })));
    first.shutdown(LIMIT).await.unwrap();
    until("its place is free", || zms.status().groups == 0).await;
    let second = zms.subscribe("billing").handle(|_| async {}).await.unwrap();
    second.ready().await.unwrap();
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_may_send_until_the_close_has_ended_them() {
    let (sandbox, zms) = orders_on_a().await;
    sandbox.topic("invoices", 2, "b").await.unwrap();
    let sender = zms.clone();
    let subscription = zms
        .subscribe("billing")
        .handle(move |_: Delivery| {
            let zms = sender.clone();
            async move { zms.send("invoices", Message::new("invoice")).await.map(|_| Outcome::Done) }
        })
        .await
        .unwrap();
    subscription.ready().await.unwrap();
    for _ in 0..100 {
        zms.send("orders", Message::new("order")).await.unwrap();
    }
    until("some are handled", || subscription.inspect().counts.handled > 10).await;
    zms.close(LIMIT).await.unwrap();
    assert_eq!(subscription.inspect().counts.failures, 0);
    assert_eq!(zms.status().sends.delivered, 100 + subscription.inspect().counts.handled);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_close_everything_says_so() {
    let (_sandbox, zms) = orders_on_a().await;
    let producer = zms.producer("orders").await.unwrap();
    zms.close(LIMIT).await.unwrap();
    zms.close(LIMIT).await.unwrap();
    assert!(matches!(producer.send(Message::new("m")).await, Err(SendError::Closed { .. })));
    assert!(matches!(zms.send("orders", Message::new("m")).await, Err(SendError::Closed { .. })));
    assert!(zms.producer("other").await.is_err());
    assert!(zms.subscribe("billing").handle(|_| async {}).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_that_no_client_takes_is_refused_at_once_and_leaves_the_group_free() {
    let (_sandbox, zms) = orders_on_a().await;
    for (property, value) in [("no.such", "1"), ("session.timeout.ms", "soon")] {
        let refused = zms.subscribe("billing").property(property, value).handle_blocking(|_| ()).await;
        let Err(SubscribeError::Option { reason, .. }) = refused else { panic!("{property}: {refused:?}") };
        assert!(reason.contains(property), "{reason}");
    }
    let secret =
        zms.subscribe("billing").property("ssl.key.password.no", "hunter2").handle_blocking(|_| ()).await;
    assert!(!secret.unwrap_err().to_string().contains("hunter2"));
    let elsewhere = zms.subscribe("billing").property("client.rack", "${env:ZMS_NO_SUCH_RACK}");
    let begun = elsewhere.handle_blocking(|_| ()).await.unwrap();
    assert!(begun.ready().await.unwrap_err().to_string().contains("ZMS_NO_SUCH_RACK"));
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_tells_how_its_parts_are() {
    let (sandbox, zms) = orders_on_a().await;
    let idle = serde_json::to_value(zms.health()).unwrap();
    let nothing = serde_json::json!({"registryAwaySinceMs": null, "subscriptions": [], "unusable": []});
    assert_eq!(idle, nothing);
    let sub = zms.subscribe("billing").handle_blocking(|_| ()).await.unwrap();
    sub.ready().await.unwrap();
    until("it is ready", || zms.health().is_ready()).await;
    assert_eq!(zms.health().subscriptions[0].group.as_str(), "billing");

    sandbox.registry_down();
    until("the registry is missed", || zms.health().registry_away.is_some()).await;
    let away = |cause: &Cause| matches!(cause, Cause::RegistryAway { .. });
    let Health::Degraded { causes } = sub.health() else { panic!("{:?}", sub.health()) };
    assert!(causes.iter().all(away), "{causes:?}");
    assert!(zms.health().is_ready() && zms.health().is_alive(), "it is no outage");

    let status = serde_json::to_value(zms.status()).unwrap();
    assert_eq!(status["registry"]["state"], "disconnected");
    assert!(status["sends"]["pool"]["longestWaitMs"].is_u64());
    drop(sub);
    until("it is over", || zms.health().subscriptions.is_empty()).await;
    zms.close(LIMIT).await.unwrap();
}
