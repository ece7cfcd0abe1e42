//! The main job, inside one process: a producer and a group of two members with four workers each, two Kafka clusters
//! (librdkafka's mock), a registry in memory. Midway an operator moves the topic to the other cluster.
//!
//! Ends with what was sent, handled, lost, handled twice and out of order, and exits with 1 if any of the last three
//! is not 0. Run with `./dev demo`; `RUST_LOG=info` shows what the SDK logs.

mod ledger;

use std::{error::Error, process::ExitCode, sync::Arc, time::Duration};

use ledger::Ledger;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use zms_core::sequence::stamp;
use zms_sdk::{Delivery, Message, Outcome, Producer, Subscription, Zms, testing::Sandbox};

const TOPIC: &str = "orders";
const GROUP: &str = "billing";
const PARTITIONS: i32 = 8;
const MEMBERS: usize = 2;
const WORKERS: usize = 4;
const KEYS: u64 = 64;
const RATE_PER_SECOND: u64 = 2_000;
const SECONDS: u64 = 8;
const MOVE_AFTER: Duration = Duration::from_secs(4);
const TAIL_LIMIT: Duration = Duration::from_secs(20);
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool, Box<dyn Error>> {
    println!("starting two Kafka clusters, a and b, inside this process; the registry is in memory");
    let sandbox = Sandbox::start(["a", "b"]).await?;
    sandbox.topic(TOPIC, PARTITIONS, "a").await?;
    sandbox.group(GROUP, TOPIC).await?;
    println!("topic {TOPIC} ({PARTITIONS} partitions) lives on cluster a; group {GROUP} is bound to it");

    let ledger = Arc::new(Ledger::default());
    let mut members = Vec::new();
    for member in 1..=MEMBERS {
        members.push(join(&sandbox, member, &ledger).await?);
    }
    println!("{MEMBERS} members of {GROUP} with {WORKERS} workers each are ready\n");

    let zms = sandbox.builder().instance("producer").connect().await?;
    let producer = zms.producer(TOPIC).await?;
    let started = Instant::now();
    let sending = tokio::spawn(send(producer, Arc::clone(&ledger), started));
    let reporting = tokio::spawn(report_each_second(Arc::clone(&ledger), started));

    sleep_until(started + MOVE_AFTER).await;
    println!("        ── the operator moves {TOPIC} and {GROUP} to cluster b ──");
    sandbox.move_topic(TOPIC, "b").await?;

    sending.await?;
    let all_handled = timeout(TAIL_LIMIT, ledger.until_settled(RATE_PER_SECOND * SECONDS)).await.is_ok();
    reporting.abort();
    close(&zms, members).await;
    println!();
    ledger.print_summary();
    if !all_handled {
        println!("gave up waiting for the rest after {TAIL_LIMIT:?}");
    }
    Ok(ledger.is_clean())
}

async fn join(
    sandbox: &Sandbox,
    member: usize,
    ledger: &Arc<Ledger>,
) -> Result<(Zms, Subscription), Box<dyn Error>> {
    let zms = sandbox.builder().instance(format!("member-{member}")).connect().await?;
    let ledger = Arc::clone(ledger);
    let subscription = zms
        .subscribe(GROUP)
        .workers(WORKERS)
        .handle(move |delivery: Delivery| {
            ledger.handled(member, &delivery);
            std::future::ready(Outcome::Done)
        })
        .await?;
    subscription.ready().await?;
    Ok((zms, subscription))
}

/// Numbers the messages of each key from 0 up, so that the end can tell what is missing.
async fn send(producer: Producer, ledger: Arc<Ledger>, started: Instant) {
    let mut pace = interval(Duration::from_millis(10));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sent = 0;
    while sent < RATE_PER_SECOND * SECONDS {
        pace.tick().await;
        let elapsed = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = (elapsed * RATE_PER_SECOND / 1000).min(RATE_PER_SECOND * SECONDS);
        while sent < due {
            let (key, number) = (format!("customer-{}", sent % KEYS), sent / KEYS);
            let message = Message::new(stamp("demo", number)).key(key.clone());
            let (ledger, handed_over) = (Arc::clone(&ledger), Instant::now());
            producer
                .send_with(message, move |result| ledger.acknowledged(&key, number, handed_over, result))
                .await;
            sent += 1;
        }
    }
}

async fn report_each_second(ledger: Arc<Ledger>, started: Instant) {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.tick().await;
    loop {
        seconds.tick().await;
        println!("{:>4} s  {}", started.elapsed().as_secs(), ledger.progress());
    }
}

/// All at once, as processes end. Everything is handled by now; what does not end in time is only said.
async fn close(zms: &Zms, members: Vec<(Zms, Subscription)>) {
    let handles = members.iter().map(|(zms, _)| zms).chain([zms]).cloned();
    let closing: Vec<_> =
        handles.map(|zms| tokio::spawn(async move { zms.close(CLOSE_LIMIT).await })).collect();
    for closed in closing {
        if let Ok(Err(error)) = closed.await {
            println!("{error}");
        }
    }
}
