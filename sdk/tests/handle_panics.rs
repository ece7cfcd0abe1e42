#![cfg(feature = "testing")]
//! Callbacks and handlers that panic with something that panics again when it is dropped.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{
    panic::panic_any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use zms_sdk::{Delivery, Message, testing::Sandbox};

/// Generous: reached only when a test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// Panics when it is dropped, if that is not already for a panic.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a bomb went off");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_whose_panic_panics_again_harms_no_later_send() {
    let sandbox = Sandbox::start(["a"]).await.unwrap();
    sandbox.topic("orders", 1, "a").await.unwrap();
    let zms = sandbox.connect().await.unwrap();
    zms.send_with("orders", Message::new("first"), |_| panic_any(Bomb)).await;
    for _ in 0..3 {
        let sent = tokio::time::timeout(LIMIT, zms.send("orders", Message::new("next"))).await;
        sent.expect("sends hang").unwrap();
    }
    assert_eq!(zms.status().sends.callback_panics, 1);
    zms.close(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_whose_panic_panics_again_is_tried_again() {
    let sandbox = Sandbox::start(["a"]).await.unwrap();
    sandbox.topic("orders", 1, "a").await.unwrap();
    let zms = sandbox.connect().await.unwrap();
    for (group, blocking) in [("tasks", false), ("threads", true)] {
        sandbox.group(group, "orders").await.unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let handle = move || {
            if counted.fetch_add(1, SeqCst) == 0 {
                panic_any(Bomb);
            }
        };
        let subscriber = zms.subscribe(group).workers(1);
        let subscription = if blocking {
            subscriber.handle_blocking(move |_: Delivery| handle()).await.unwrap()
        } else {
            let handle = Arc::new(handle);
            let handler = move |_: Delivery| {
                let handle = Arc::clone(&handle);
                async move { handle() }
            };
            subscriber.handle(handler).await.unwrap()
        };
        zms.send("orders", Message::new("first")).await.unwrap();
        let handled = async {
            while runs.load(SeqCst) < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let again = tokio::time::timeout(LIMIT, handled).await;
        assert!(again.is_ok(), "{group}: the lane is dead; {:?}", subscription.inspect());
    }
    zms.close(LIMIT).await.unwrap();
}
