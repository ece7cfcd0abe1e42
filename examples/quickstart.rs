//! The smallest service: send one message by topic name, handle it by group name.
//!
//! Needs a registry with topic `orders` and group `billing`; the README says how to get one. Run with
//! `ZMS_ZK=127.0.0.1:2181 cargo run -p zms-examples --bin quickstart`.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;
use zms_sdk::{Delivery, Message, Outcome, Zms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = std::env::var("ZMS_ZK").unwrap_or_else(|_| "127.0.0.1:2181".to_owned());
    let zms = Zms::connect(&registry).await?;

    let handled = Arc::new(Notify::new());
    let signal = Arc::clone(&handled);
    let subscription = zms
        .subscribe("billing")
        .workers(4)
        .handle(move |delivery: Delivery| {
            println!("handled offset {} of partition {}", delivery.offset(), delivery.partition());
            signal.notify_one();
            async { Outcome::Done }
        })
        .await?;
    subscription.ready().await?;

    let receipt = zms.send("orders", Message::new("paid").key("order-42")).await?;
    println!("stored on cluster {} in partition {}", receipt.cluster, receipt.partition);
    handled.notified().await;

    zms.close(Duration::from_secs(10)).await?;
    Ok(())
}
