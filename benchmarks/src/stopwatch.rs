//! Wall time and CPU time of the own process.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::{Failure, statistics::percentile};

/// Runs from its creation.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { cpu: process_cpu(), wall: Instant::now() }
    }

    /// What `messages` took since the start.
    pub(crate) fn stop(&self, messages: u64) -> Sample {
        let wall = self.wall.elapsed();
        Sample { messages, wall, cpu: process_cpu().saturating_sub(self.cpu), latency: None }
    }
}

/// CPU time of all threads of this process, in user and kernel mode.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Both are never negative: the clock counts from the start of the process.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Messages measured.
    pub(crate) messages: u64,
    /// How long they took.
    pub(crate) wall: Duration,
    /// The CPU time that the process spent meanwhile, on all threads.
    pub(crate) cpu: Duration,
    /// Of single messages, where the work measures them.
    pub(crate) latency: Option<Latency>,
}

/// Latency of single messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Latency {
    /// Half of the messages were faster.
    pub(crate) p50: Duration,
    /// One in a hundred was slower.
    pub(crate) p99: Duration,
}

impl Sample {
    /// Adds the latencies of the single messages.
    pub(crate) fn with_latencies(mut self, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        self.latency = Some(Latency { p50: percentile(&latencies, 50), p99: percentile(&latencies, 99) });
        self
    }

    /// Messages per second.
    pub(crate) fn rate(&self) -> f64 {
        as_f64(self.messages) / self.wall.as_secs_f64()
    }

    /// CPU time of one message, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e9 / as_f64(self.messages)
    }

    pub(crate) fn to_json(self) -> Value {
        let mut value = json!({
            "messages": self.messages,
            "wall_ns": nanos(self.wall),
            "cpu_ns": nanos(self.cpu),
        });
        if let Some(latency) = self.latency {
            value["p50_ns"] = nanos(latency.p50).into();
            value["p99_ns"] = nanos(latency.p99).into();
        }
        value
    }

    pub(crate) fn from_json(text: &str) -> Result<Self, Failure> {
        let value: Value = serde_json::from_str(text)?;
        let nanos = |field: &str| value[field].as_u64().map(Duration::from_nanos);
        let needed = |field: &str| nanos(field).ok_or_else(|| format!("a measurement without {field}"));
        Ok(Self {
            messages: value["messages"].as_u64().ok_or("a measurement without messages")?,
            wall: needed("wall_ns")?,
            cpu: needed("cpu_ns")?,
            latency: nanos("p50_ns").zip(nanos("p99_ns")).map(|(p50, p99)| Latency { p50, p99 }),
        })
    }
}

/// Saturates after 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts of messages stay far below 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        Sample {
            messages: 4,
            wall: Duration::from_secs(2),
            cpu: Duration::from_micros(8),
            latency: Some(Latency { p50: Duration::from_micros(3), p99: Duration::from_millis(1) }),
        }
    }

    #[test]
    fn a_sample_survives_the_way_back_from_its_process() {
        let plain = Sample { latency: None, ..sample() };
        for sample in [sample(), plain] {
            assert_eq!(Sample::from_json(&sample.to_json().to_string()).unwrap(), sample);
        }
    }

    #[test]
    fn rate_and_cpu_are_per_message() {
        assert!((sample().rate() - 2.0).abs() < 1e-9);
        assert!((sample().cpu_ns() - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn cpu_time_counts_the_work_of_other_threads_and_not_the_wait_for_them() {
        let watch = Stopwatch::start();
        let work = || (0..20_000_000_u64).fold(0, |sum, i| std::hint::black_box(sum ^ i));
        std::thread::spawn(work).join().unwrap();
        let sample = watch.stop(1);
        assert!(sample.cpu > Duration::from_millis(1), "{sample:?}");
    }
}
