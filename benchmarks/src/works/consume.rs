//! Reads a filled topic to its end, as the only member of a new group, with a handler that does nothing.
//!
//! The clock runs from the first message to the last, so that joining the group is not measured.

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::StreamExt;
use rdkafka::{
    Message,
    consumer::{BaseConsumer, Consumer, StreamConsumer},
};
use zms_sdk::{Delivery, Outcome, consumer::Ordering};

use super::{Incumbent, Metric, Stage, Work};
use crate::{
    Failure,
    job::Job,
    settings,
    statistics::Goal,
    stopwatch::{Sample, Stopwatch},
};

pub(super) const BY_PARTITION: Work = Work {
    name: "consume",
    what: "100-byte messages of 8 partitions, by one member of a new group, with a handler that does nothing",
    metric: Metric::Rate,
    stage: Stage::Filled { partitions: 8, keys: None },
    messages: 2_000_000,
    // It keeps 5 MiB of a partition, and drops the oldest beyond that.
    mock_limit: 300_000,
    settings: &[("consumer", settings::CONSUMER)],
    profile: "durable",
    note: None,
    ours: by_partition,
    standards: &[],
    incumbents: &against(Goal::AtLeast(1.2), Goal::AtMost(0.7)),
};

pub(super) const BY_KEY: Work = Work {
    name: "consume-keys",
    what: "the same in key order, with 10,000 keys; the incumbents handle one message after the other",
    stage: Stage::Filled { partitions: 8, keys: Some(10_000) },
    mock_limit: 200_000,
    ours: by_key,
    incumbents: &against(Goal::AtLeast(0.9), Goal::AtMost(1.1)),
    ..BY_PARTITION
};

/// Meeting a goal against both is meeting it against the faster.
const fn against(goal: Goal, cpu: Goal) -> [Incumbent; 2] {
    [
        Incumbent {
            name: "base",
            what: "rdkafka BaseConsumer, polled in a loop",
            goal,
            cpu_goal: Some(cpu),
            prepare: None,
            measure: base,
        },
        Incumbent {
            name: "stream",
            what: "rdkafka StreamConsumer, its stream awaited in a loop",
            goal,
            cpu_goal: Some(cpu),
            prepare: None,
            measure: stream,
        },
    ]
}

fn by_partition(job: &Job) -> Result<Sample, Failure> {
    ours(job, Ordering::Partition)
}

fn by_key(job: &Job) -> Result<Sample, Failure> {
    ours(job, Ordering::Key)
}

fn ours(job: &Job, ordering: Ordering) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let zms = super::connect(job).await?;
        let count = Arc::new(SharedCount::default());
        let counting = Arc::clone(&count);
        let handler = move |delivery: Delivery| {
            counting.handled(delivery.payload());
            std::future::ready(Outcome::Done)
        };
        let _subscription = super::subscriber(&zms, job).ordering(ordering).handle(handler).await?;
        let sample = count.reached(job.messages).await?;
        zms.close(super::CLOSE_LIMIT).await?;
        Ok(sample)
    })
}

/// [`Count`] for handlers that run side by side. Each thread has a counter of its own, so that counting costs our side
/// what it costs the others; who waits adds them up.
#[derive(Default)]
struct SharedCount {
    counters: [Counter; 16],
    watch: OnceLock<Stopwatch>,
}

/// Alone in its cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

impl SharedCount {
    /// How late the end may be noticed: at most so much is measured too much.
    const LOOK_EVERY: Duration = Duration::from_millis(1);

    fn handled(&self, payload: Option<&[u8]>) {
        std::hint::black_box(payload);
        self.watch.get_or_init(Stopwatch::start);
        self.counters[place_of_this_thread() % self.counters.len()].0.fetch_add(1, Relaxed);
    }

    /// The measurement, once so many are handled.
    async fn reached(&self, messages: u64) -> Result<Sample, Failure> {
        while self.counters.iter().map(|counter| counter.0.load(Relaxed)).sum::<u64>() < messages {
            tokio::time::sleep(Self::LOOK_EVERY).await;
        }
        Ok(self.watch.get().ok_or("there was nothing to handle")?.stop(messages - 1))
    }
}

/// A number that few other threads have.
fn place_of_this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    PLACE.get().unwrap_or_else(|| {
        let place = THREADS.fetch_add(1, Relaxed);
        PLACE.set(Some(place));
        place
    })
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
