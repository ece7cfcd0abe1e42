//! How a service tests, in seconds and without Docker, that it survives what happens to clusters: a small service, and
//! its tests on a sandbox of in-process Kafka clusters. Run with
//! `cargo test -p zms-examples --test testing_your_service`.

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use zms_sdk::{Delivery, Message, SubscribeError, Subscription, Zms, testing::Sandbox};

/// The service under test: for each order it sends an invoice. Handlers may send; the order counts as handled only
/// when the invoice is stored.
async fn start_invoicing(zms: &Zms) -> std::result::Result<Subscription, SubscribeError> {
    let sender = zms.clone();
    zms.subscribe("invoicing")
        .workers(4)
        .handle(move |order: Delivery| {
            let zms = sender.clone();
            async move {
                let text = format!("invoice for {}", text(&order));
                let invoice = Message::new(text).key(order.key_bytes().unwrap_or_default());
                zms.send("invoices", invoice).await.map(|_| ())
            }
        })
        .await
}

fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(delivery.payload().unwrap_or_default()).into_owned()
}

/// The world around it: two clusters, both topics on `a`, and somebody who reads the invoices.
struct World {
    sandbox: Sandbox,
    service: Zms,
    outside: Zms,
    invoices: Arc<Mutex<BTreeSet<String>>>,
    _subscriptions: [Subscription; 2],
}

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(60);

impl World {
    async fn start() -> Result<Self> {
        let sandbox = Sandbox::start(["a", "b"]).await?;
        for (topic, group) in [("orders", "invoicing"), ("invoices", "archive")] {
            sandbox.topic(topic, 4, "a").await?;
            sandbox.group(group, topic).await?;
        }
        let service = sandbox.connect().await?;
        let invoicing = start_invoicing(&service).await?;
        invoicing.ready().await?;

        let outside = sandbox.connect().await?;
        let invoices = Arc::<Mutex<BTreeSet<String>>>::default();
        let seen = Arc::clone(&invoices);
        let archive = outside
            .subscribe("archive")
            .handle_blocking(move |invoice: Delivery| {
                seen.lock().unwrap_or_else(PoisonError::into_inner).insert(text(&invoice));
            })
            .await?;
        archive.ready().await?;
        Ok(Self { sandbox, service, outside, invoices, _subscriptions: [invoicing, archive] })
    }

    async fn order(&self, numbers: std::ops::Range<u32>) -> Result {
        for number in numbers {
            let message = Message::new(format!("order {number}")).key(format!("customer {}", number % 7));
            self.outside.send("orders", message).await?;
        }
        Ok(())
    }

    async fn expect_invoices(&self, count: usize) -> Result {
        let all = async {
            while self.invoices().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, all).await?;
        assert_eq!(self.invoices().len(), count);
        Ok(())
    }

    fn invoices(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.invoices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn end(self) -> Result {
        self.service.close(LIMIT).await?;
        self.outside.close(LIMIT).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_gets_its_invoice() -> Result {
    let world = World::start().await?;
    world.order(0..50).await?;
    world.expect_invoices(50).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_a_topic_costs_no_invoice() -> Result {
    let world = World::start().await?;
    world.order(0..50).await?;
    world.sandbox.move_topic("orders", "b").await?;
    world.order(50..100).await?;
    world.sandbox.move_topic("invoices", "b").await?;
    world.order(100..150).await?;
    world.expect_invoices(150).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_cluster_costs_no_invoice() -> Result {
    let world = World::start().await?;
    world.order(0..20).await?;
    let cluster = world.sandbox.cluster("a")?;
    cluster.all_brokers_down()?;
    let during = world.order(20..40);
    let back = async {
        // The order that waits now is the one to survive.
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.all_brokers_up()
    };
    let (ordered, back) = tokio::join!(during, back);
    ordered?;
    back?;
    world.expect_invoices(40).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_registry_is_not_noticed() -> Result {
    let world = World::start().await?;
    // Topics that are in use by then go on; a new one waits for the registry.
    world.order(0..10).await?;
    world.expect_invoices(10).await?;
    world.sandbox.registry_down();
    world.order(10..50).await?;
    world.expect_invoices(50).await?;
    world.sandbox.registry_up();
    world.end().await
}
