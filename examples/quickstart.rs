//! The smallest service: send one message by topic name, handle it by group name.
//!
//! Needs a registry with topic `orders` and group `billing`; the README says how to get one. Run with
//! `ZMS_ZK=127.0.0.1:2181 cargo run -p zms-examples --bin quickstart`.

use std::time::Duration;

use zms_sdk::{Delivery, Message, Outcome, Zms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zms = Zms::connect(&std::env::var("ZMS_ZK")?).await?;

    let subscription = zms
        .subscribe("billing")
        .workers(4)
        .handle(|delivery: Delivery| async move {
            println!("handled offset {}: {:?}", delivery.offset(), delivery.payload());
            Outcome::Done
        })
        .await?;
    subscription.ready().await?;

    let receipt = zms.send("orders", Message::new("paid").key("order-42")).await?;
    println!("stored on cluster {} in partition {}", receipt.cluster, receipt.partition);

    zms.close(Duration::from_secs(10)).await?;
    Ok(())
}
