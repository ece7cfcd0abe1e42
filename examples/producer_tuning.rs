//! How sending is tuned, and the ways to send: profiles, `try_send`, batches, JSON without a second buffer, sends without
//! async, settings that an operator changes while the service runs, and what the gauges of the send buffer say.
//!
//! It brings its own Kafka cluster, in this process: `cargo run -p zms-examples --bin producer_tuning`.

use std::{collections::BTreeMap, error::Error, thread, time::Duration};

use tokio::sync::oneshot;
use zms_sdk::{
    Message, SendError, Sending, TopicName, Zms,
    admin::Safety,
    producer::{ProducerOptions, Profile},
    testing::Sandbox,
};

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result {
    // In place of a registry and its clusters; a service connects with `Zms::builder().zookeeper("…")`.
    let sandbox = Sandbox::start(["a"]).await?;
    sandbox.topic("orders", 4, "a").await?;

    // A profile is a set of settings that fit one another; what is set beside it wins. The small buffer, of which one
    // topic may have the half, is to be full soon.
    let options =
        ProducerOptions::new().profile(Profile::Throughput).property("linger.ms", "20").buffer(4 << 20);
    let zms = sandbox.builder().producer(options).connect().await?;

    refused_settings();
    shed_load(&zms).await?;
    in_order(&zms).await?;
    without_a_second_buffer(&zms).await?;
    without_async(&zms).await?;
    changed_while_it_runs(&zms, &sandbox).await?;

    zms.close(Duration::from_secs(10)).await?;
    Ok(())
}

/// What cannot work is refused before anything is opened, with the numbers.
fn refused_settings() {
    let too_late = ProducerOptions::new().profile(Profile::Latency).property("linger.ms", "20000");
    if let Err(error) = too_late.build() {
        println!("refused: {error}");
    }
}

/// `try_send` never waits. Where there is no room the message comes back: keep it, drop it, or wait with `send`.
async fn shed_load(zms: &Zms) -> Result {
    let orders = zms.producer("orders").await?;
    let mut sendings: Vec<Sending> = Vec::new();
    let came_back = loop {
        match orders.try_send(Message::new(vec![b'x'; 20_000])) {
            Ok(sending) => sendings.push(sending),
            Err(error @ SendError::BufferFull { .. }) => {
                println!("the buffer is full: {error}");
                break error.into_message();
            }
            Err(error) => return Err(error.into()),
        }
    };
    let pool = zms.status().sends.pool;
    println!(
        "{} of {} bytes free, one topic may have {}; {} sends found no room, {} wait, the longest for {:?}",
        pool.free, pool.total, pool.topic_cap, pool.exhaustions, pool.waiting, pool.longest_wait
    );
    // `send` waits for room, and ends the linger of what is in the way.
    if let Some(message) = came_back {
        zms.send("orders", message).await?;
    }
    let taken = sendings.len();
    for sending in sendings {
        sending.await?;
    }
    println!("all {taken} that were taken are stored, and so is the one that came back");
    Ok(())
}

/// One call, one admission, results in order; messages of one key keep their order.
async fn in_order(zms: &Zms) -> Result {
    let messages = (0..1_000).map(|n| Message::new(format!("step {n}")).key("order-42")).collect();
    let mut last = None;
    for result in zms.send_batch("orders", messages).await {
        let receipt = result?;
        assert!(receipt.offset > last, "the order is that of the batch");
        last = receipt.offset;
    }
    println!("a batch of 1000 is stored in order, up to offset {}", last.unwrap_or_default());
    Ok(())
}

/// Payloads that are made for the message are written straight into memory of the send buffer.
async fn without_a_second_buffer(zms: &Zms) -> Result {
    // Anything that implements `serde::Serialize`.
    let order = BTreeMap::from([("id", 42), ("cents", 1999)]);
    let message = || Message::default().key("order-42").header("type", "order");
    let json = zms.send_json("orders", message(), &order).await?;
    let own = zms.send_written("orders", message(), |payload| write!(payload, "42;1999")).await?;
    println!("JSON and an own format are stored in partitions {} and {}", json.partition, own.partition);
    Ok(())
}

/// Threads without async, such as handlers of `handle_blocking`, wait by themselves.
async fn without_async(zms: &Zms) -> Result {
    let (done, result) = oneshot::channel();
    let service = zms.clone();
    thread::spawn(move || done.send(service.send_blocking("orders", Message::new("from a thread"))));
    println!("a thread's message is stored in partition {}", result.await??.partition);
    // On a thread of an async runtime, which would stop, the same call is refused.
    if let Err(error) = zms.send_blocking("orders", Message::new("by mistake")) {
        println!("refused: {error}");
    }
    Ok(())
}

/// What an operator does with `zmsctl topic set orders --producer profile=latency`.
async fn changed_while_it_runs(zms: &Zms, sandbox: &Sandbox) -> Result {
    let orders = TopicName::new("orders")?;
    let latency = |topic: &mut zms_sdk::admin::TopicMeta| {
        topic.producer.insert("profile".to_owned(), "latency".to_owned());
    };
    sandbox.admin().set_topic(&orders, Safety::Forced, latency).await?;
    let mut sent = 0;
    while zms.status().sends.switches == 0 {
        zms.send("orders", Message::new("goes on")).await?;
        sent += 1;
    }
    let sends = zms.status().sends;
    println!("the topic changed its client among {sent} sends; {} failed in all", sends.unknown);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_runs_to_its_end() {
        super::main().expect("it runs");
    }
}
