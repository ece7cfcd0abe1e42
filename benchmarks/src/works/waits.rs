//! One partition whose handler waits, as for a database: messages of different keys are handled side by side.
//!
//! The ideal is that the workers wait all the time: the sum of all waits, divided by the number of workers. The clock
//! runs from the entry of the first handler to the end of the last.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use zms_sdk::{Delivery, Outcome, consumer};

use super::{
    Incumbent, Metric, Stage, Standard, Work, java, payload,
    schedule::{self, Turn},
};
use crate::{
    Failure,
    job::Job,
    statistics::Goal,
    stopwatch::{Effort, Sample, Stopwatch},
};

/// Handlers that may run side by side, on every side.
pub(super) const WORKERS: u32 = 64;

const KEYS: u64 = 1000;

pub(super) const BLOCKING: Work = Work {
    name: "waits",
    what: "1 partition, 1,000 keys in order, 64 handlers side by side that block for 0 to 5 ms",
    metric: Metric::Rate,
    stage: Stage::Filled { partitions: 1, keys: Some(KEYS) },
    messages: 10_000,
    mock_limit: 10_000,
    settings: &[],
    profile: "durable",
    note: Some(best_possible),
    ours: blocking,
    standards: &[Standard { name: "of_the_ideal", of: Sample::of_the_ideal, goal: Goal::AtLeast(0.95) }],
    incumbents: &[
        Incumbent {
            name: "parallel-consumer",
            what: "Confluent parallel-consumer (Java), ordering KEY, maxConcurrency 64; the JVM has read the topic once",
            goal: Goal::AtLeast(1.0),
            cpu_goal: None,
            prepare: Some(java::prepare_parallel_consumer),
            measure: java::parallel_consumer,
        },
        Incumbent {
            name: "decaton",
            what: "LINE decaton (Java), 64 threads for the partition; the JVM has read the topic once",
            goal: Goal::AtLeast(1.0),
            cpu_goal: None,
            prepare: Some(java::prepare_decaton),
            measure: java::decaton,
        },
    ],
};

pub(super) const ASYNC: Work = Work {
    name: "waits-async",
    what: "the same, but our handlers are futures that sleep on tokio's timer, which counts in milliseconds and rounds up",
    ours: asynchronous,
    ..BLOCKING
};

fn best_possible(messages: u64) -> String {
    let best = |turn| schedule::of_the_ideal(messages, KEYS, WORKERS, turn);
    format!(
        "without any overhead of_the_ideal={:.3}, if the key with the lowest offset is next; {:.3}, if the key that \
         waits longest is",
        best(Turn::LowestOffset),
        best(Turn::LongestWait),
    )
}

fn blocking(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let zms = super::connect(job).await?;
        let (account, sample) = Account::of(job);
        let handler = move |delivery: Delivery| {
            let run = account.begin(&delivery);
            thread::sleep(run.wait);
            account.end(&run);
            Outcome::Done
        };
        let subscription = in_key_order(super::subscriber(&zms, job)).handle_blocking(handler).await?;
        finish(&zms, subscription, sample).await
    })
}

fn asynchronous(job: &Job) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let zms = super::connect(job).await?;
        let (account, sample) = Account::of(job);
        let account = Arc::new(account);
        let handler = move |delivery: Delivery| {
            let account = Arc::clone(&account);
            async move {
                let run = account.begin(&delivery);
                tokio::time::sleep(run.wait).await;
                account.end(&run);
                Outcome::Done
            }
        };
        let subscription = in_key_order(super::subscriber(&zms, job)).handle(handler).await?;
        finish(&zms, subscription, sample).await
    })
}

fn in_key_order(subscriber: zms_sdk::Subscriber) -> zms_sdk::Subscriber {
    subscriber.ordering(consumer::Ordering::Key).workers(WORKERS as usize)
}

async fn finish(
    zms: &zms_sdk::Zms,
    subscription: zms_sdk::Subscription,
    mut sample: mpsc::Receiver<Sample>,
) -> Result<Sample, Failure> {
    let sample = sample.recv().await.ok_or("the subscription ended")?;
    zms.close(super::CLOSE_LIMIT).await?;
    drop(subscription);
    Ok(sample)
}

/// What all handlers together did.
struct Account {
    messages: u64,
    watch: OnceLock<Stopwatch>,
    spent: AtomicU64,
    nominal: AtomicU64,
    ended: AtomicU64,
    measured: mpsc::Sender<Sample>,
}

/// One run of the handler.
struct Run {
    began: Instant,
    wait: Duration,
}

impl Account {
    /// And where the measurement arrives.
    fn of(job: &Job) -> (Self, mpsc::Receiver<Sample>) {
        let (measured, sample) = mpsc::channel(1);
        let account = Self {
            messages: job.messages,
            watch: OnceLock::new(),
            spent: AtomicU64::new(0),
            nominal: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            measured,
        };
        (account, sample)
    }

    fn begin(&self, delivery: &Delivery) -> Run {
        self.watch.get_or_init(Stopwatch::start);
        let number = delivery.payload().and_then(payload::number_of);
        Run { began: Instant::now(), wait: payload::wait_of(number.unwrap_or_default()) }
    }

    fn end(&self, run: &Run) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.spent.fetch_add(nanos(run.began.elapsed()), Ordering::AcqRel);
        self.nominal.fetch_add(nanos(run.wait), Ordering::AcqRel);
        let Some(watch) = self.watch.get() else { return };
        if self.ended.fetch_add(1, Ordering::AcqRel) + 1 == self.messages {
            let effort = Effort {
                spent: Duration::from_nanos(self.spent.load(Ordering::Acquire)),
                nominal: Duration::from_nanos(self.nominal.load(Ordering::Acquire)),
                workers: WORKERS,
            };
            // There is room for the one measurement.
            _ = self.measured.try_send(watch.stop(self.messages).with_effort(effort));
        }
    }
}
