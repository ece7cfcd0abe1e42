//! Wall time and CPU time of the own process.

use std::{
    fs,
    time::{Duration, Instant},
};

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
        Sample {
            messages,
            wall,
            cpu: process_cpu().saturating_sub(self.cpu),
            peak: peak_memory(),
            latency: None,
            effort: None,
            allocations: None,
        }
    }
}

/// CPU time of all threads of this process, in user and kernel mode.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Both are never negative: the clock counts from the start of the process.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory that this process ever had, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
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
    /// The most memory that the process ever had resident, in bytes.
    pub(crate) peak: Option<u64>,
    /// Of single messages, where the work measures them.
    pub(crate) latency: Option<Latency>,
    /// Of all handlers together, where they wait.
    pub(crate) effort: Option<Effort>,
    /// Of the measured thread, where the work counts them.
    pub(crate) allocations: Option<u64>,
}

/// Latency of single messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Latency {
    /// Half of the messages were faster.
    pub(crate) p50: Duration,
    /// One in a hundred was slower.
    pub(crate) p99: Duration,
}

/// How long handlers ran that wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effort {
    /// All runs together, as they were.
    pub(crate) spent: Duration,
    /// All runs together, as they were meant to be.
    pub(crate) nominal: Duration,
    /// How many may run side by side.
    pub(crate) workers: u32,
}

impl Sample {
    /// Adds the latencies of the single messages.
    pub(crate) fn with_latencies(mut self, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        self.latency = Some(Latency { p50: percentile(&latencies, 50), p99: percentile(&latencies, 99) });
        self
    }

    pub(crate) fn with_effort(self, effort: Effort) -> Self {
        Self { effort: Some(effort), ..self }
    }

    pub(crate) fn with_allocations(self, allocations: u64) -> Self {
        Self { allocations: Some(allocations), ..self }
    }

    /// How near this is to workers that never pause: their time as it was spent, by the time that there was. Not a
    /// number where handlers do not wait.
    pub(crate) fn of_the_ideal(&self) -> f64 {
        self.effort.map_or(f64::NAN, |effort| self.part(effort.spent / effort.workers))
    }

    /// The same of the time that handlers were meant to take: timers that are late count as well.
    pub(crate) fn of_nominal(&self) -> f64 {
        self.effort.map_or(f64::NAN, |effort| self.part(effort.nominal / effort.workers))
    }

    fn part(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.wall.as_secs_f64()
    }

    /// Allocations in all; not a number where they are not counted.
    pub(crate) fn allocations(&self) -> f64 {
        self.allocations.map_or(f64::NAN, as_f64)
    }

    /// Peak memory in MiB; not a number where it is unknown.
    pub(crate) fn peak_mib(&self) -> f64 {
        self.peak.map_or(f64::NAN, |bytes| as_f64(bytes) / 1_048_576.0)
    }

    /// Wall time of one message, in nanoseconds.
    pub(crate) fn wall_ns(&self) -> f64 {
        self.wall.as_secs_f64() * 1e9 / as_f64(self.messages)
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
        if let Some(peak) = self.peak {
            value["peak_bytes"] = peak.into();
        }
        if let Some(allocations) = self.allocations {
            value["allocations"] = allocations.into();
        }
        if let Some(effort) = self.effort {
            value["spent_ns"] = nanos(effort.spent).into();
            value["nominal_ns"] = nanos(effort.nominal).into();
            value["workers"] = effort.workers.into();
        }
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
        let workers = value["workers"].as_u64().and_then(|workers| u32::try_from(workers).ok());
        Ok(Self {
            messages: value["messages"].as_u64().ok_or("a measurement without messages")?,
            wall: needed("wall_ns")?,
            cpu: needed("cpu_ns")?,
            peak: value["peak_bytes"].as_u64(),
            latency: nanos("p50_ns").zip(nanos("p99_ns")).map(|(p50, p99)| Latency { p50, p99 }),
            effort: nanos("spent_ns")
                .zip(nanos("nominal_ns"))
                .zip(workers)
                .map(|((spent, nominal), workers)| Effort { spent, nominal, workers }),
            allocations: value["allocations"].as_u64(),
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
            peak: Some(3 << 20),
            effort: Some(Effort {
                spent: Duration::from_secs(6),
                nominal: Duration::from_secs(4),
                workers: 4,
            }),
            allocations: Some(5),
            latency: Some(Latency { p50: Duration::from_micros(3), p99: Duration::from_millis(1) }),
        }
    }

    #[test]
    fn a_sample_survives_the_way_back_from_its_process() {
        let plain = Sample { latency: None, effort: None, peak: None, allocations: None, ..sample() };
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
    fn the_ideal_is_all_workers_at_work_all_the_time() {
        assert!((sample().of_the_ideal() - 0.75).abs() < 1e-9);
        assert!((sample().of_nominal() - 0.5).abs() < 1e-9);
        assert!(Sample { effort: None, ..sample() }.of_the_ideal().is_nan());
    }

    #[test]
    fn this_process_has_a_peak_of_memory_where_the_system_tells() {
        let expected = fs::exists("/proc/self/status").unwrap();
        assert_eq!(peak_memory().is_some_and(|bytes| bytes > 100_000), expected);
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
