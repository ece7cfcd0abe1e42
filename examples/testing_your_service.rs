//! How a service tests, in seconds and without Docker, that it survives what happens to clusters: a small service, and
//! its tests on a sandbox of in-process Kafka clusters. Run with
//! `cargo test -p zms-examples --test testing_your_service`.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use zms_sdk::{Delivery, Message, SubscribeError, Subscription, Zms, testing::Sandbox};

/// The service under test: for each order it sends an invoice. Handlers may send; the order counts as handled only
/// when the invoice is stored.
async fn start_invoicing(zms: &Zms) -> Result<Subscription, SubscribeError> {
    let sender = zms.clone();
    zms.subscribe("invoicing")
        .workers(4)
        .handle(move |order: Delivery| {
            let zms = sender.clone();
            async move {
                let text = format!("invoice for {}", text(&order));
                let invoice = Message::new(text).key(order.key().cloned().unwrap_or_default());
                zms.send("invoices", invoice).await.map(|_| ())
            }
        })
        .await
}

fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(delivery.payload().map_or(&[], |payload| &payload[..])).into_owned()
}

/// The world around it: two clusters, both topics on `a`, and somebody who reads the invoices.
struct World {
    sandbox: Sandbox,
    service: Zms,
    outside: Zms,
    invoices: Arc<Mutex<BTreeSet<String>>>,
    _subscriptions: [Subscription; 2],
}

const LIMIT: Duration = Duration::from_secs(60);

impl World {
    async fn start() -> Self {
        let sandbox = Sandbox::start(["a", "b"]).await.unwrap();
        for (topic, group) in [("orders", "invoicing"), ("invoices", "archive")] {
            sandbox.topic(topic, 4, "a").await.unwrap();
            sandbox.group(group, topic).await.unwrap();
        }
        let service = sandbox.connect().await.unwrap();
        let invoicing = start_invoicing(&service).await.unwrap();
        invoicing.ready().await.unwrap();

        let outside = sandbox.connect().await.unwrap();
        let invoices = Arc::<Mutex<BTreeSet<String>>>::default();
        let seen = Arc::clone(&invoices);
        let archive = outside
            .subscribe("archive")
            .handle_blocking(move |invoice: Delivery| {
                seen.lock().unwrap().insert(text(&invoice));
            })
            .await
            .unwrap();
        archive.ready().await.unwrap();
        Self { sandbox, service, outside, invoices, _subscriptions: [invoicing, archive] }
    }

    async fn order(&self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let message = Message::new(format!("order {number}")).key(format!("customer {}", number % 7));
            self.outside.send("orders", message).await.unwrap();
        }
    }

    async fn expect_invoices(&self, count: usize) {
        let all = async {
            while self.invoices.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, all).await.expect("every order gets its invoice");
        assert_eq!(self.invoices.lock().unwrap().len(), count);
    }

    async fn end(self) {
        self.service.close(Duration::from_secs(10)).await.unwrap();
        self.outside.close(Duration::from_secs(10)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_gets_its_invoice() {
    let world = World::start().await;
    world.order(0..50).await;
    world.expect_invoices(50).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_a_topic_costs_no_invoice() {
    let world = World::start().await;
    world.order(0..50).await;
    world.sandbox.move_topic("orders", "b").await.unwrap();
    world.order(50..100).await;
    world.sandbox.move_topic("invoices", "b").await.unwrap();
    world.order(100..150).await;
    world.expect_invoices(150).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_cluster_costs_no_invoice() {
    let world = World::start().await;
    world.order(0..20).await;
    let cluster = world.sandbox.cluster("a").unwrap();
    cluster.all_brokers_down().unwrap();
    let during = world.order(20..40);
    let back = async {
        // The order that waits now is the one to survive.
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.all_brokers_up().unwrap();
    };
    tokio::join!(during, back);
    world.expect_invoices(40).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_registry_is_not_noticed() {
    let world = World::start().await;
    world.sandbox.registry().disconnect();
    world.order(0..50).await;
    world.expect_invoices(50).await;
    world.end().await;
}
