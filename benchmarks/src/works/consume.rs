//! Reads a filled topic to its end, as the only member of a new group, with a handler that does nothing.
//!
//! The clock runs from the first message to the last, so that joining the group is not measured.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use rdkafka::{
    Message,
    consumer::{BaseConsumer, Consumer, StreamConsumer},
};
use tokio::sync::mpsc;
use zms_sdk::{Delivery, Outcome};

use super::{Incumbent, Metric, Work};
use crate::{
    Failure,
    job::Job,
    settings,
    statistics::Goal,
    stopwatch::{Sample, Stopwatch},
};

pub(super) const WORK: Work = Work {
    name: "consume",
    what: "100-byte messages of 8 partitions, by one member of a new group, with a handler that does nothing",
    metric: Metric::Rate,
    partitions: 8,
    filled: true,
    messages: 1_000_000,
    // It keeps 5 MiB of a partition, and drops the oldest beyond that.
    mock_limit: 300_000,
    settings: &[("consumer", settings::CONSUMER)],
    profile: "durable",
    ours,
    incumbents: &[
        Incumbent {
            name: "base",
            what: "rdkafka BaseConsumer, polled in a loop",
            goal: Goal::AtLeast(1.0),
            measure: base,
        },
        Incumbent {
            name: "stream",
            what: "rdkafka StreamConsumer, its stream awaited in a loop",
            goal: Goal::AtLeast(1.0),
            measure: stream,
        },
    ],
};

fn ours(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let zms = super::connect(job).await?;
        let (measured, mut sample) = mpsc::channel(1);
        let count = Arc::new(SharedCount::to(job.messages, measured));
        let handler = move |delivery: Delivery| {
            count.handled(delivery.payload());
            std::future::ready(Outcome::Done)
        };
        let _subscription = super::subscriber(&zms, job).handle(handler).await?;
        let sample = sample.recv().await.ok_or("the subscription ended")?;
        zms.close(super::CLOSE_LIMIT).await?;
        Ok(sample)
    })
}

/// [`Count`] for handlers that run side by side.
struct SharedCount {
    messages: u64,
    handled: AtomicU64,
    watch: OnceLock<Stopwatch>,
    measured: mpsc::Sender<Sample>,
}

impl SharedCount {
    fn to(messages: u64, measured: mpsc::Sender<Sample>) -> Self {
        Self { messages, handled: AtomicU64::new(0), watch: OnceLock::new(), measured }
    }

    fn handled(&self, payload: Option<&[u8]>) {
        std::hint::black_box(payload);
        let watch = self.watch.get_or_init(Stopwatch::start);
        if self.handled.fetch_add(1, Ordering::Relaxed) + 1 == self.messages {
            // There is room for the one measurement; more messages than expected are a later one's.
            _ = self.measured.try_send(watch.stop(self.messages - 1));
        }
    }
}

fn base(job: &Job) -> Result<Sample, Failure> {
    let consumer: BaseConsumer = settings::consumer(job).create()?;
    consumer.subscribe(&[&job.topic])?;
    let mut count = Count::to(job.messages);
    loop {
        if let Some(message) = consumer.poll(Duration::from_secs(1))
            && let Some(sample) = count.handled(message?.payload())
        {
            return Ok(sample);
        }
    }
}

fn stream(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let consumer: StreamConsumer = settings::consumer(job).create()?;
        consumer.subscribe(&[&job.topic])?;
        let mut count = Count::to(job.messages);
        let mut messages = consumer.stream();
        while let Some(message) = messages.next().await {
            if let Some(sample) = count.handled(message?.payload()) {
                return Ok(sample);
            }
        }
        Err("the stream ended".into())
    })
}

/// Counts messages handled, and times all but the first.
struct Count {
    messages: u64,
    handled: u64,
    watch: Option<Stopwatch>,
}

impl Count {
    fn to(messages: u64) -> Self {
        Self { messages, handled: 0, watch: None }
    }

    /// The measurement, with the last message.
    fn handled(&mut self, payload: Option<&[u8]>) -> Option<Sample> {
        std::hint::black_box(payload);
        self.handled += 1;
        let watch = self.watch.get_or_insert_with(Stopwatch::start);
        (self.handled == self.messages).then(|| watch.stop(self.messages - 1))
    }
}
