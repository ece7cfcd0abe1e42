#![cfg(feature = "testing")]
//! Subscriptions and handles that are dropped, without a word, on a runtime of one thread.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use zms_sdk::{Delivery, Message, Outcome, testing::Sandbox};

/// The longest wait for a processor, in milliseconds.
#[derive(Clone, Default)]
struct Gap(Arc<AtomicU64>);

impl Gap {
    fn note(&self, since: Instant) {
        self.0.fetch_max(u64::try_from(since.elapsed().as_millis()).unwrap(), SeqCst);
    }

    fn longest(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

#[test]
fn dropping_without_shutdown_never_stops_a_current_thread_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sandbox = Sandbox::start(["a", "b"]).await.unwrap();
        sandbox.topic("orders", 4, "a").await.unwrap();
        for index in 0..4 {
            sandbox.group(&format!("g{index}"), "orders").await.unwrap();
        }
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
        std::thread::spawn({
            let machine = machine.clone();
            move || {
                loop {
                    let before = Instant::now();
                    std::thread::sleep(Duration::from_millis(10));
                    machine.note(before);
                }
            }
        });
        for down in [false, true] {
            let zms = sandbox.connect().await.unwrap();
            let mut subscriptions = Vec::new();
            for index in 0..4 {
                let subscription = zms
                    .subscribe(&format!("g{index}"))
                    .workers(2)
                    .handle(|_: Delivery| async { Outcome::Done })
                    .await
                    .unwrap();
                subscription.ready().await.unwrap();
                subscriptions.push(subscription);
            }
            for n in 0..100 {
                zms.send("orders", Message::new(format!("{n}")).key(format!("{n}"))).await.unwrap();
            }
            if down {
                sandbox.cluster("a").unwrap().all_brokers_down().unwrap();
            }
            for _ in 0..100 {
                zms.send_oneway("orders", Message::new("x"));
            }
            drop(subscriptions);
            drop(zms);
            tokio::time::sleep(Duration::from_millis(300)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            sandbox.cluster("a").unwrap().all_brokers_up().unwrap();
        }
        ticker.abort();
        let (longest, usual) = (gap.longest(), machine.longest());
        assert!(
            longest < 1_000 + 10 * usual,
            "nothing ran for {longest} ms; other threads wait up to {usual} ms"
        );
    });
}
