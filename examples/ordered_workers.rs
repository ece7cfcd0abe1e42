//! One consumer feeds many workers, and each partition keeps its order: worker = partition modulo workers. (With
//! `.ordering(Ordering::Key)` the workers would share partitions, and each key would keep its order.)
//!
//! Sends 200 numbered messages of 8 orders and handles them with 4 blocking workers; prints which worker thread took
//! which partition, and fails if any order saw its steps out of order.
//! Run with `ZMS_ZK=127.0.0.1:2181 cargo run -p zms-examples --bin ordered_workers`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use zms_sdk::{Delivery, Message, Outcome, Zms};

const ORDERS: usize = 8;
const STEPS: usize = 25;

#[derive(Default)]
struct Seen {
    /// Next step expected of each order.
    next: BTreeMap<String, usize>,
    /// Worker threads that handled each partition.
    workers: BTreeMap<i32, BTreeSet<String>>,
    handled: usize,
    out_of_order: usize,
}

impl Seen {
    fn take(&mut self, delivery: &Delivery, run: &str) {
        let Some(text) = delivery.payload().and_then(|payload| std::str::from_utf8(payload).ok()) else {
            return;
        };
        let Some(step) = text.strip_prefix(run).and_then(|step| step.trim().parse::<usize>().ok()) else {
            return;
        };
        let order = String::from_utf8_lossy(delivery.key().unwrap_or_default()).into_owned();
        let next = self.next.entry(order).or_default();
        self.out_of_order += usize::from(*next != step);
        *next = step + 1;
        let worker = std::thread::current().name().unwrap_or("unnamed").to_owned();
        self.workers.entry(delivery.partition()).or_default().insert(worker);
        self.handled += 1;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zms = Zms::connect(&std::env::var("ZMS_ZK")?).await?;
    let run = format!("run-{} ", std::process::id());
    let seen = Arc::new(Mutex::new(Seen::default()));

    let (state, name) = (seen.clone(), run.clone());
    let subscription = zms
        .subscribe("billing")
        .workers(4)
        .handle_blocking(move |delivery: Delivery| {
            state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(&delivery, &name);
            Outcome::Done
        })
        .await?;
    subscription.ready().await?;

    let producer = zms.producer("orders").await?;
    for step in 0..STEPS {
        for order in 0..ORDERS {
            producer.send(Message::new(format!("{run}{step}")).key(format!("order-{order}"))).await?;
        }
    }

    let all = || seen.lock().is_ok_and(|seen| seen.handled == ORDERS * STEPS);
    while !all() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    zms.close(Duration::from_secs(10)).await?;
    let seen = seen.lock().map_err(|_| "a handler panicked")?;
    for (partition, workers) in &seen.workers {
        println!("partition {partition}: {}", workers.iter().cloned().collect::<Vec<_>>().join(", "));
    }
    if seen.out_of_order > 0 {
        return Err(format!("{} of {} steps came out of order", seen.out_of_order, ORDERS * STEPS).into());
    }
    println!("{} messages, every order in its order", ORDERS * STEPS);
    Ok(())
}
