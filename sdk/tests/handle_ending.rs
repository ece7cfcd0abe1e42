#![cfg(feature = "testing")]
//! How a handle ends: closed twice, dropped, left alone by its runtime; and begun again.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{sync::mpsc, thread, time::Duration};

use zms_sdk::{Delivery, Message, Outcome, SendError, Zms, producer::ProducerOptions, testing::Sandbox};

/// Generous: reached only when a test fails.
const LIMIT: Duration = Duration::from_secs(60);

async fn sandbox() -> Sandbox {
    let sandbox = Sandbox::start(["a", "b"]).await.unwrap();
    sandbox.topic("orders", 4, "a").await.unwrap();
    sandbox.group("billing", "orders").await.unwrap();
    sandbox
}

async fn subscribe(zms: &Zms) -> Result<zms_sdk::Subscription, zms_sdk::SubscribeError> {
    zms.subscribe("billing").workers(2).handle(|_: Delivery| async { Outcome::Done }).await
}

/// Runs `job` on a thread of its own; panics when it takes longer than the limit.
fn within<T: Send + 'static>(limit: Duration, job: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, answer) = mpsc::sync_channel(1);
    thread::spawn(move || done.send(job()));
    answer.recv_timeout(limit).expect("took too long")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_joins_a_patient_one_keeps_its_own_deadline() {
    let sandbox = sandbox().await;
    let zms = sandbox.connect().await.unwrap();
    zms.send("orders", Message::new("first")).await.unwrap();
    sandbox.cluster("a").unwrap().all_brokers_down().unwrap();
    let producer = zms.producer("orders").await.unwrap();
    producer.send_oneway(Message::new("stuck"));
    let patient = tokio::spawn({
        let zms = zms.clone();
        async move { zms.close(Duration::from_secs(600)).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let _given_up = zms.close(Duration::from_secs(1)).await;
    // It waits for the message, whose delivery timeout is much longer.
    assert!(!patient.is_finished(), "the impatient close waited for the patient one");
    sandbox.cluster("a").unwrap().all_brokers_up().unwrap();
    let _either_way = tokio::time::timeout(LIMIT, patient).await.unwrap().unwrap();
}

async fn is_closed(zms: &Zms) {
    let closed = async {
        while !matches!(zms.send("orders", Message::new("late")).await, Err(SendError::Closed { .. })) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, closed).await.expect("the handle is still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_whose_future_is_dropped_goes_on() {
    let sandbox = sandbox().await;
    let zms = sandbox.connect().await.unwrap();
    let busy = zms.subscribe("billing").handle(|_: Delivery| std::future::pending::<()>()).await.unwrap();
    busy.ready().await.unwrap();
    zms.send("orders", Message::new("first")).await.unwrap();
    let impatient = tokio::time::timeout(Duration::from_millis(50), zms.close(Duration::from_secs(10))).await;
    assert!(impatient.is_err());
    is_closed(&zms).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_from_within_a_handler_closes_everything() {
    let sandbox = sandbox().await;
    let zms = sandbox.connect().await.unwrap();
    let itself = zms.clone();
    let closing = move |_: Delivery| {
        let zms = itself.clone();
        async move { zms.close(Duration::from_secs(2)).await }
    };
    let subscription = zms.subscribe("billing").handle(closing).await.unwrap();
    subscription.ready().await.unwrap();
    zms.send("orders", Message::new("first")).await.unwrap();
    is_closed(&zms).await;
}

#[test]
fn a_close_after_the_runtime_has_gone_ends_within_its_deadline() {
    let outer = runtime();
    let sandbox = outer.block_on(sandbox());
    let inner = runtime();
    let zms = inner.block_on(async {
        let zms = sandbox.connect().await.unwrap();
        zms.send("orders", Message::new("first")).await.unwrap();
        let subscription = subscribe(&zms).await.unwrap();
        subscription.ready().await.unwrap();
        zms
    });
    inner.shutdown_background();
    let closed = within(LIMIT, move || outer.block_on(zms.close(LIMIT / 2)));
    assert!(closed.is_ok(), "{closed:?}");
}

#[test]
fn a_send_after_the_runtime_has_gone_ends() {
    let outer = runtime();
    let sandbox = outer.block_on(sandbox());
    outer.block_on(sandbox.topic("other", 1, "a")).unwrap();
    let inner = runtime();
    let zms = inner.block_on(async {
        // Longer than the registry's silence is borne before the snapshot is asked, which needs the runtime.
        let zms = sandbox.builder().resolve_timeout(Duration::from_secs(5)).connect().await.unwrap();
        zms.send("orders", Message::new("first")).await.unwrap();
        zms
    });
    inner.shutdown_background();
    within(LIMIT, move || {
        outer.block_on(async {
            zms.send("orders", Message::new("second")).await.unwrap();
            let unresolved = zms.send("other", Message::new("third")).await;
            assert!(matches!(unresolved, Err(SendError::Unresolved { .. })), "{unresolved:?}");
            zms.send_oneway("orders", Message::new("fourth"));
            zms.send_oneway("nowhere", Message::new("fifth"));
            assert!(subscribe(&zms).await.is_err());
        });
        drop(zms);
        drop(outer);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_can_be_subscribed_to_again_as_soon_as_it_was_left() {
    let sandbox = sandbox().await;
    let zms = sandbox.connect().await.unwrap();
    for round in 0..15 {
        let subscription = subscribe(&zms).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        if round % 2 == 0 {
            subscription.ready().await.unwrap();
        }
        subscription.shutdown(LIMIT).await.unwrap();
    }
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_show_in_no_debug_text() {
    const PASSWORD: &str = "hunter2-plain";
    let sandbox = sandbox().await;
    let builder = sandbox.builder().producer(ProducerOptions::new().property("sasl.password", PASSWORD));
    let mut texts = vec![format!("{builder:?}")];
    let zms = builder.connect().await.unwrap();
    let subscriber = zms.subscribe("billing").property("sasl.password", PASSWORD);
    texts.push(format!("{subscriber:?}"));
    let producer = zms.producer("orders").await.unwrap();
    texts.push(format!("{zms:?} {producer:?} {:?}", zms.status()));
    for text in texts {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}
