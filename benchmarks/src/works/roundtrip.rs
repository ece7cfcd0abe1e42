//! Sends one message at a time and waits until it is handled.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rdkafka::{
    consumer::{Consumer, StreamConsumer},
    producer::{FutureProducer, FutureRecord},
};
use tokio::sync::mpsc;

use super::{Incumbent, Metric, Work, payload};
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
    partitions: 1,
    filled: false,
    messages: 5_000,
    mock_limit: 2_000,
    settings: &[("producer", settings::PROMPT_PRODUCER), ("consumer", settings::CONSUMER)],
    profile: "latency",
    ours: None,
    incumbents: &[Incumbent {
        name: "rdkafka",
        what: "rdkafka FutureProducer, and StreamConsumer in a task of its own",
        goal: Goal::AtMost(1.1),
        measure: rdkafka,
    }],
};

/// Messages that go the way before the clock starts: the first one waits for the group to be joined.
const WARM_UP: u64 = 100;

fn rdkafka(job: &Job) -> Result<Sample, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let producer: FutureProducer = settings::producer(job, settings::PROMPT_PRODUCER).create()?;
        let consumer: StreamConsumer = settings::consumer(job).create()?;
        consumer.subscribe(&[&job.topic])?;
        let (report, mut handled) = mpsc::channel(1);
        let consuming = tokio::spawn(handle(consumer, report));
        exchange(&producer, &job.topic, &mut handled, WARM_UP).await?;
        let watch = Stopwatch::start();
        let latencies = exchange(&producer, &job.topic, &mut handled, job.messages).await?;
        let sample = watch.stop(job.messages).with_latencies(latencies);
        drop(handled);
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

async fn exchange(
    producer: &FutureProducer,
    topic: &str,
    handled: &mut mpsc::Receiver<Instant>,
    messages: u64,
) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::new();
    let mut payload = payload::blank();
    for number in 0..messages {
        payload::number(&mut payload, number);
        let record: FutureRecord<'_, (), [u8]> = FutureRecord::to(topic).payload(&payload);
        let sent = Instant::now();
        let delivery = producer.send_result(record).map_err(|(error, _)| error)?;
        let arrived = handled.recv().await.ok_or("the consumer ended")?;
        latencies.push(arrived.duration_since(sent));
        delivery.await?.map_err(|(error, _)| error)?;
    }
    Ok(latencies)
}
