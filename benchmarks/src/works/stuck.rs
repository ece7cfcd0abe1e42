//! One partition's handler is stuck while messages keep arriving on all of them: what the other seven notice.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use zms_sdk::{Delivery, Outcome};

use super::{Incumbent, Metric, Stage, Standard, Work, feed, payload};
use crate::{
    Failure, child,
    job::Job,
    settings,
    statistics::Goal,
    stopwatch::{Sample, Stopwatch},
};

const PARTITIONS: i32 = 8;

pub(super) const WORK: Work = Work {
    name: "stuck",
    what: "messages that arrive evenly on 8 partitions while the handler of one is stuck (--stuck SECONDS, default 60); \
           counted are those of the other seven",
    metric: Metric::Latency,
    stage: Stage::Fresh { partitions: PARTITIONS },
    messages: 3_000_000,
    mock_limit: 240_000,
    settings: &[("producer", settings::PROMPT_PRODUCER)],
    profile: "latency",
    note: None,
    ours: stuck,
    standards: &[Standard { name: "peak_memory_mib", of: Sample::peak_mib, goal: Goal::AtMost(256.0) }],
    incumbents: &[Incumbent {
        name: "free",
        what: "the same, ours, with no partition stuck",
        goal: Goal::AtMost(1.1),
        cpu_goal: None,
        prepare: None,
        measure: free,
    }],
};

/// Whose handler is stuck.
const STUCK: i32 = 0;

/// Of so many messages, one tells its latency.
const LOOK_AT_ONE_IN: u64 = 61;

/// How long it may take, after the last message was sent, to handle all of them.
const CATCH_UP: Duration = Duration::from_secs(60);

fn stuck(job: &Job) -> Result<Sample, Failure> {
    measured(job, false)
}

fn free(job: &Job) -> Result<Sample, Failure> {
    measured(job, true)
}

fn measured(job: &Job, free: bool) -> Result<Sample, Failure> {
    super::runtime()?.block_on(async {
        let zms = super::connect(job).await?;
        let (release, released) = watch::channel(free);
        let counted = Arc::new(Counted::default());
        let counting = Arc::clone(&counted);
        let handler = move |delivery: Delivery| {
            let held = (delivery.partition() == STUCK).then(|| released.clone());
            let counting = Arc::clone(&counting);
            async move {
                if let Some(mut held) = held {
                    // Its other end is there until all is handled.
                    _ = held.wait_for(|free| *free).await;
                }
                counting.handled(&delivery);
                Outcome::Done
            }
        };
        let workers = usize::try_from(PARTITIONS)?;
        let subscription = super::subscriber(&zms, job).workers(workers).handle(handler).await?;
        subscription.ready().await?;
        let feeding = child::spawn(["feed", &job.to_json().to_string()])?;
        let others = job.messages - of_the_stuck(job);
        wait_until(|| counted.others.load(Ordering::Acquire) >= others, job.stuck + CATCH_UP).await?;
        let sample = counted.sample(others)?;
        release.send_replace(true);
        child::output_within(feeding, CATCH_UP)?;
        wait_until(|| counted.stuck.load(Ordering::Acquire) >= of_the_stuck(job), CATCH_UP).await?;
        zms.close(super::CLOSE_LIMIT).await?;
        Ok(sample)
    })
}

/// Messages go to the partitions in turns, and the stuck one has the first turn.
fn of_the_stuck(job: &Job) -> u64 {
    job.messages.div_ceil(u64::from(PARTITIONS.unsigned_abs()))
}

#[derive(Default)]
struct Counted {
    watch: OnceLock<Stopwatch>,
    others: AtomicU64,
    stuck: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
}

impl Counted {
    fn handled(&self, delivery: &Delivery) {
        if delivery.partition() == STUCK {
            self.stuck.fetch_add(1, Ordering::AcqRel);
            return;
        }
        self.watch.get_or_init(Stopwatch::start);
        let number = self.others.fetch_add(1, Ordering::AcqRel);
        let sent = delivery.payload().and_then(payload::number_of);
        if let Some(sent) = sent.filter(|_| number.is_multiple_of(LOOK_AT_ONE_IN)) {
            let latency = Duration::from_nanos(feed::now().saturating_sub(sent));
            self.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(latency);
        }
    }

    fn sample(&self, messages: u64) -> Result<Sample, Failure> {
        let watch = self.watch.get().ok_or("no message was handled")?;
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(watch.stop(messages).with_latencies(latencies))
    }
}

async fn wait_until(over: impl Fn() -> bool, limit: Duration) -> Result<(), Failure> {
    let waiting = async {
        while !over() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    Ok(tokio::time::timeout(limit, waiting).await.map_err(|_| "messages were not handled in time")?)
}
