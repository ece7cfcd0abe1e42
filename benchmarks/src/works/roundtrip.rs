//! Sends one message at a time and waits until it is handled.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rdkafka::{
    consumer::{Consumer, StreamConsumer},
    producer::{FutureProducer, FutureRecord},
    util::Timeout,
};
use tokio::sync::mpsc;
use zms_sdk::{Delivery, Message, Outcome};

use super::{Incumbent, Metric, Stage, Work, payload};
use crate::{
    Failure,
    job::Job,
    settings,
    statistics::Goal,
    stopwatch::{Sample, Stopwatch},
};

pub(super) const WORK: Work = Work {
    name: "roundtrip",
    what: "one 100-byte message from the call to send it to the entry of its handler, one after the other",
    metric: Metric::Latency,
    stage: Stage::Fresh { partitions: 1 },
    messages: 5_000,
    mock_limit: 2_000,
    settings: &[("producer", settings::PROMPT_PRODUCER), ("consumer", settings::CONSUMER)],
    profile: "latency",
    note: None,
    ours,
    standards: &[],
    incumbents: &[Incumbent {
        name: "rdkafka",
        what: "rdkafka FutureProducer, and StreamConsumer in a task of its own",
        goal: Goal::AtMost(1.1),
        cpu_goal: None,
        prepare: None,
        measure: rdkafka,
    }],
};

/// Messages that go the way before the clock starts: the first one waits for the group to be joined.
const WARM_UP: u64 = 100;

fn ours(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let zms = super::connect(job).await?;
        let (report, mut handled) = mpsc::channel(1);
        let on_delivery = move |delivery: Delivery| {
            let arrived = Instant::now();
            let report = report.clone();
            async move {
                drop(std::hint::black_box(delivery));
                // Refused only once nobody measures any more.
                _ = report.send(arrived).await;
                Outcome::Done
            }
        };
        let subscription = super::subscriber(&zms, job).handle(on_delivery).await?;
        subscription.ready().await?;
        let producer = zms.producer(&job.topic).await?;
        let send = async |payload: &[u8]| {
            producer.send(Message::new(payload.to_vec())).await?;
            Ok(())
        };
        let sample = measured(job, send, &mut handled).await?;
        zms.close(super::CLOSE_LIMIT).await?;
        Ok(sample)
    })
}

fn rdkafka(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let producer: FutureProducer = settings::producer(job, settings::PROMPT_PRODUCER).create()?;
        let consumer: StreamConsumer = settings::consumer(job).create()?;
        consumer.subscribe(&[&job.topic])?;
        let (report, mut handled) = mpsc::channel(1);
        let consuming = tokio::spawn(handle(consumer, report));
        let send = async |payload: &[u8]| {
            let record: FutureRecord<'_, (), [u8]> = FutureRecord::to(&job.topic).payload(payload);
            producer.send(record, Timeout::Never).await.map_err(|(error, _)| error)?;
            Ok(())
        };
        let sample = measured(job, send, &mut handled).await?;
        consuming.abort();
        Ok(sample)
    })
}

/// Reports when each message arrived.
async fn handle(consumer: StreamConsumer, report: mpsc::Sender<Instant>) {
    let mut messages = consumer.stream();
    while let Some(message) = messages.next().await {
        let arrived = Instant::now();
        match message {
            Ok(message) => drop(std::hint::black_box(message)),
            Err(error) => return eprintln!("bench: the consumer failed: {error}"),
        }
        if report.send(arrived).await.is_err() {
            return;
        }
    }
}

async fn measured(
    job: &Job,
    send: impl AsyncFn(&[u8]) -> Result<(), Failure>,
    handled: &mut mpsc::Receiver<Instant>,
) -> Result<Sample, Failure> {
    exchange(&send, handled, WARM_UP).await?;
    let watch = Stopwatch::start();
    let latencies = exchange(&send, handled, job.messages).await?;
    Ok(watch.stop(job.messages).with_latencies(latencies))
}

/// Sends message after message, each when the one before it is acknowledged and handled; the time from each call to
/// its handler.
async fn exchange(
    send: &impl AsyncFn(&[u8]) -> Result<(), Failure>,
    handled: &mut mpsc::Receiver<Instant>,
    messages: u64,
) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::new();
    let mut payload = payload::blank();
    for number in 0..messages {
        payload::number(&mut payload, number);
        let called = Instant::now();
        let (acknowledged, arrived) = tokio::join!(send(&payload), handled.recv());
        acknowledged?;
        latencies.push(arrived.ok_or("the consumer ended")?.duration_since(called));
    }
    Ok(latencies)
}
