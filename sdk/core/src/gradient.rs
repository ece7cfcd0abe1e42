//! How many handlers to run at a time, found out from how long they take.

use std::{num::NonZeroU32, time::Duration};

/// A limit on concurrency that follows the handlers' latency.
///
/// Below some number of handlers at a time (the *knee*) one more handler adds throughput and costs no latency; above it,
/// it only makes all wait for one another. The limit looks for the knee: it grows while latency does not, shrinks when
/// latency grows, and stays between its bounds. It grows only while it is used: of handlers that never run, nothing is
/// known.
///
/// # Use
///
/// Call [`sample`](Self::sample) for each run of a handler; keep at most [`limit`](Self::limit) of them running, which
/// changes at the end of a window of samples. Times are what has passed since any fixed moment.
///
/// # How it works
///
/// The rule is that of Netflix's `Gradient2` (concurrency-limits), itself a kin of TCP Vegas: at the end of each window
/// `limit = limit * gradient + sqrt(limit)`, smoothed, where the gradient is a baseline latency over the present one. The limit
/// settles where the handlers beyond the knee are about as many as its square root. Three things differ, because a
/// consumer with a backlog always uses its whole limit, for hours:
///
/// - The baseline is *measured*, at half the limit or `min`, in one window of [`PROBE_EVERY`] (as TCP BBR does). Netflix's is a
///   long average, which in steady overload becomes the overloaded latency itself, and the limit grows without end;
///   Vegas's is the least latency ever seen, which a handler that has become slower for reasons of its own never reaches again.
///   When the limit has fallen by a third since the last measurement, the next one comes at once, to tell overload from a
///   handler that is slower now.
/// - A window's latency is the mean of *logarithms*: a sample of a thousand times the usual moves a window of 32 by a quarter, where it
///   would move the plain mean by thirty times.
/// - A sample counts only in the window in which its run began, since it tells of the concurrency it ran under.
#[derive(Debug, Clone)]
pub struct Gradient {
    min: f64,
    max: f64,
    limit: f64,
    /// Mean logarithm of the latency at half the limit.
    baseline: Option<f64>,
    /// The limit at the last measurement of the baseline.
    measured_at: f64,
    windows_since: u32,
    window: Window,
}

/// A run of a handler that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When it began.
    pub began: Duration,
    /// When it ended.
    pub ended: Duration,
    /// How many ran when it began, itself included.
    pub in_flight: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    began: Duration,
    /// Measures the baseline.
    probes: bool,
    samples: u32,
    sum: f64,
    peak: u32,
}

/// Of this many windows one runs at half the limit. Each such window costs at most half of its throughput.
pub const PROBE_EVERY: u32 = 32;
/// The fewest samples of a window.
const SAMPLES: f64 = 32.0;
/// The shortest window.
const SHORTEST: Duration = Duration::from_millis(50);
/// Latencies below this are not told apart: a clock and a scheduler say more about them than a handler.
const LEAST: f64 = 1e-6;
/// How much of a new limit is taken over in each window.
const SMOOTHING: f64 = 0.3;
/// How much of a new baseline is taken over in each measurement.
const BASELINE_SMOOTHING: f64 = 0.5;

impl Gradient {
    /// Begins at `min`, at the time `now`. A `max` below `min` is taken as `min`.
    pub fn new(min: NonZeroU32, max: NonZeroU32, now: Duration) -> Self {
        let (min, max) = bounds(min, max);
        let window = Window { began: now, probes: true, ..Window::default() };
        Self { min, max, limit: min, baseline: None, measured_at: min, windows_since: 0, window }
    }

    /// How many handlers may run now.
    pub fn limit(&self) -> u32 {
        whole(if self.window.probes { (self.limit / 2.0).max(self.min) } else { self.limit })
    }

    /// Other bounds; the limit moves to the nearer one if it lies outside.
    pub fn set_bounds(&mut self, min: NonZeroU32, max: NonZeroU32) {
        (self.min, self.max) = bounds(min, max);
        self.limit = self.limit.clamp(self.min, self.max);
    }

    /// A run has ended. The new limit, when a window ends with it and the limit changes.
    pub fn sample(&mut self, sample: Sample) -> Option<u32> {
        if sample.began < self.window.began {
            return None;
        }
        let before = self.limit();
        self.window.add(sample);
        let wanted = SAMPLES.max(2.0 * f64::from(before));
        let ended = sample.ended.saturating_sub(self.window.began);
        if f64::from(self.window.samples) < wanted || ended < SHORTEST {
            return None;
        }
        let window = self.window;
        if window.probes {
            self.measure(window.mean());
        } else if window.peak >= before {
            self.adjust(window.mean());
        }
        // A limit that is not used says nothing about itself: it stays.
        self.begin_window(sample.ended);
        let limit = self.limit();
        (limit != before).then_some(limit)
    }

    fn measure(&mut self, mean: f64) {
        let baseline = self.baseline.unwrap_or(mean);
        self.baseline = Some(baseline + (mean - baseline) * BASELINE_SMOOTHING);
        self.measured_at = self.limit;
        self.windows_since = 0;
    }

    fn adjust(&mut self, mean: f64) {
        let baseline = self.baseline.unwrap_or(mean);
        // Not more than half at a time: a window may be an outlier as a whole.
        let gradient = (baseline - mean).exp().clamp(0.5, 1.0);
        let wanted = self.limit * gradient + self.limit.sqrt();
        self.limit = (self.limit + (wanted - self.limit) * SMOOTHING).clamp(self.min, self.max);
    }

    fn begin_window(&mut self, now: Duration) {
        self.windows_since += 1;
        let has_fallen = self.limit < self.measured_at * (2.0 / 3.0);
        let probes = !self.window.probes && (self.windows_since >= PROBE_EVERY || has_fallen);
        self.window = Window { began: now, probes, ..Window::default() };
    }
}

impl Window {
    fn add(&mut self, sample: Sample) {
        let latency = sample.ended.saturating_sub(sample.began).as_secs_f64();
        self.samples = self.samples.saturating_add(1);
        self.sum += latency.max(LEAST).ln();
        self.peak = self.peak.max(sample.in_flight);
    }

    fn mean(&self) -> f64 {
        self.sum / f64::from(self.samples.max(1))
    }
}

fn bounds(min: NonZeroU32, max: NonZeroU32) -> (f64, f64) {
    (f64::from(min.get()), f64::from(max.get().max(min.get())))
}

fn whole(limit: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a u32")]
    let limit = limit as u32;
    limit
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, collections::BinaryHeap};

    use proptest::prelude::*;

    use super::*;

    fn number(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    /// Numbers that look random, the same for each seed.
    struct Chance(u64);

    impl Chance {
        /// From 0 to below 1.
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(self.0 >> 33).unwrap()) / f64::from(1_u32 << 31)
        }
    }

    /// How long a handler works once its turn has come.
    #[derive(Debug, Clone, Copy)]
    enum Work {
        Steady(f64),
        /// Exponentially distributed, with this mean.
        Random(f64),
        /// Nearly all as quick as this, a few of a hundred times that.
        Mixed(f64),
    }

    impl Work {
        fn mean(self) -> f64 {
            match self {
                Self::Steady(mean) | Self::Random(mean) => mean,
                Self::Mixed(quick) => quick * 0.98 + quick * 100.0 * 0.02,
            }
        }

        fn draw(self, chance: &mut Chance) -> f64 {
            match self {
                Self::Steady(mean) => mean,
                Self::Random(mean) => -mean * (1.0 - chance.next()).ln(),
                Self::Mixed(quick) if chance.next() < 0.02 => quick * 100.0,
                Self::Mixed(quick) => quick,
            }
        }
    }

    /// A server of some places in virtual time, kept busy by as many runs as the limit allows.
    struct Server {
        gradient: Gradient,
        work: Work,
        chance: Chance,
        now: f64,
        /// When each place is free, in nanoseconds.
        places: BinaryHeap<Reverse<u64>>,
        /// Ends of runs, with their begin and the number that ran then.
        running: BinaryHeap<Reverse<(u64, u64, u32)>>,
        handled: f64,
    }

    fn nanos(seconds: f64) -> u64 {
        u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap()
    }

    impl Server {
        fn new(places: usize, work: Work) -> Self {
            let gradient = Gradient::new(number(1), number(1000), Duration::ZERO);
            let (places, running) = (vec![Reverse(0); places].into(), BinaryHeap::new());
            Self { gradient, work, chance: Chance(7), now: 0.0, places, running, handled: 0.0 }
        }

        fn begin(&mut self, most: u32) {
            let begun = nanos(self.now);
            while self.running.len() < self.gradient.limit().min(most) as usize {
                let Reverse(free) = self.places.pop().unwrap();
                let end = free.max(begun) + nanos(self.work.draw(&mut self.chance));
                self.places.push(Reverse(end));
                let in_flight = u32::try_from(self.running.len() + 1).unwrap();
                self.running.push(Reverse((end, begun, in_flight)));
            }
        }

        /// Handles for so many seconds, with never more than `most` to do at a time. The mean limit meanwhile.
        fn run(&mut self, seconds: f64, most: u32) -> f64 {
            let (mut sum, from) = (0.0, self.now);
            while self.now < from + seconds {
                self.begin(most);
                let Reverse((ended, began, in_flight)) = self.running.pop().unwrap();
                let ended = Duration::from_nanos(ended);
                sum += f64::from(self.gradient.limit()) * (ended.as_secs_f64() - self.now);
                self.now = ended.as_secs_f64();
                self.handled += 1.0;
                self.gradient.sample(Sample { began: Duration::from_nanos(began), ended, in_flight });
            }
            sum / (self.now - from)
        }
    }

    #[test]
    fn it_settles_near_the_knee_and_keeps_the_server_busy() {
        for knee in [1_u32, 8, 64] {
            for work in [Work::Steady(0.01), Work::Random(0.01), Work::Mixed(0.001)] {
                let mut server = Server::new(knee as usize, work);
                server.run(20.0, u32::MAX);
                let (handled, from) = (server.handled, server.now);
                let settled = server.run(40.0, u32::MAX);
                let busy = (server.handled - handled) * work.mean() / (server.now - from) / f64::from(knee);
                let knee = f64::from(knee);
                let case = format!("knee {knee}, {work:?}: settled at {settled}, busy {busy}");
                assert!(settled > knee * 0.9 && settled < knee + 2.0 * knee.sqrt() + 1.0, "{case}");
                assert!(busy > 0.9, "{case}");
            }
        }
    }

    #[test]
    fn it_follows_a_knee_that_moves() {
        let mut server = Server::new(8, Work::Random(0.01));
        server.run(20.0, u32::MAX);
        server.places.extend((8..64).map(|_| Reverse(0)));
        server.run(20.0, u32::MAX);
        let more = server.run(20.0, u32::MAX);
        assert!(more > 50.0 && more < 85.0, "{more}");
        server.places.retain({
            let mut kept = 0;
            move |_| {
                kept += 1;
                kept <= 8
            }
        });
        server.run(20.0, u32::MAX);
        let fewer = server.run(20.0, u32::MAX);
        assert!(fewer > 7.0 && fewer < 15.0, "{fewer}");
    }

    #[test]
    fn a_handler_that_is_slower_for_reasons_of_its_own_is_not_taken_for_overload() {
        let mut server = Server::new(64, Work::Random(0.01));
        server.run(20.0, u32::MAX);
        server.work = Work::Random(0.05);
        server.run(60.0, u32::MAX);
        let settled = server.run(60.0, u32::MAX);
        assert!(settled > 50.0 && settled < 85.0, "{settled}");
    }

    #[test]
    fn steady_overload_does_not_become_the_baseline() {
        let mut server = Server::new(8, Work::Steady(0.01));
        server.run(20.0, u32::MAX);
        let hours_later = (0..10).map(|_| server.run(60.0, u32::MAX)).fold(0.0, f64::max);
        assert!(hours_later < 15.0, "{hours_later}");
    }

    #[test]
    fn it_grows_only_while_it_is_used() {
        let mut server = Server::new(64, Work::Steady(0.01));
        let unused = server.run(60.0, 5);
        assert!(unused < 8.0, "{unused}");
    }

    /// Windows of samples of a millisecond, all with the limit in use; the last one is `last` long.
    fn windows(gradient: &mut Gradient, count: u32, last: Duration) {
        for window in 1..=count {
            let began = gradient.window.began;
            let samples = 32.max(2 * gradient.limit());
            for n in 1..=samples {
                let takes = if window == count && n == samples { last } else { Duration::from_millis(1) };
                let began = began + SHORTEST;
                gradient.sample(Sample { began, ended: began + takes, in_flight: gradient.limit() });
            }
        }
    }

    #[test]
    fn one_outlier_does_not_turn_it_back() {
        let mut gradient = Gradient::new(number(1), number(1000), Duration::ZERO);
        windows(&mut gradient, 30, Duration::from_millis(1));
        let before = gradient.limit;
        windows(&mut gradient, 1, Duration::from_secs(1));
        assert!(gradient.limit > before, "{} after {before}", gradient.limit);
    }

    #[test]
    fn samples_of_runs_from_before_a_window_do_not_count_in_it() {
        let mut gradient = Gradient::new(number(1), number(100), Duration::from_secs(10));
        let late = Sample { began: Duration::from_secs(9), ended: Duration::from_secs(20), in_flight: 1 };
        assert!((0..1000).all(|_| gradient.sample(late).is_none()));
        assert_eq!(gradient.window.samples, 0);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds_whatever_comes(
            min in 1_u32..50,
            max in 1_u32..200,
            samples in prop::collection::vec((0_u64..10_000_000, 0_u64..u64::MAX / 4, 0_u32..300), 0..2000),
            other in (1_u32..50, 1_u32..200),
        ) {
            let mut gradient = Gradient::new(number(min), number(max), Duration::ZERO);
            let mut now = 0;
            for (index, (step, latency, in_flight)) in samples.into_iter().enumerate() {
                now += step;
                if index == 1000 {
                    gradient.set_bounds(number(other.0), number(other.1));
                }
                let (began, ended) = (Duration::from_nanos(now), Duration::from_nanos(now + (latency >> (index % 62))));
                let told = gradient.sample(Sample { began, ended, in_flight });
                let (least, most) = if index < 1000 { (min, max.max(min)) } else { (other.0, other.1.max(other.0)) };
                let limit = gradient.limit();
                prop_assert!(limit >= least && limit <= most, "{limit} not within {least} to {most}");
                prop_assert!(told.is_none_or(|told| told == limit));
            }
        }
    }
}
