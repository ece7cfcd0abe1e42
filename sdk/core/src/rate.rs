//! A limit on how often something may happen.

use std::{num::NonZeroU32, time::Duration};

/// So many per period, and so many at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    permits: NonZeroU32,
    period_ns: u128,
    burst: NonZeroU32,
}

impl Rate {
    /// `permits` per second, and a burst of as many.
    pub const fn per_second(permits: NonZeroU32) -> Self {
        Self { permits, period_ns: 1_000_000_000, burst: permits }
    }

    /// `permits` in each `period`, and a burst of as many. A period of nothing is taken as a nanosecond.
    pub const fn per(permits: NonZeroU32, period: Duration) -> Self {
        let nanos = period.as_nanos();
        Self { permits, period_ns: if nanos == 0 { 1 } else { nanos }, burst: permits }
    }

    /// How many may come at once when none came for long.
    #[must_use]
    pub const fn burst(mut self, burst: NonZeroU32) -> Self {
        self.burst = burst;
        self
    }

    /// The most that may be saved up.
    fn cap(&self) -> u128 {
        u128::from(self.burst.get()) * self.period_ns
    }
}

/// A token bucket: in any span of time `t` it grants at most `burst + rate * t` permits, exactly; and it grants whenever
/// that allows it. Begins full.
///
/// Times are what has passed since any fixed moment. One that lies before an earlier one is taken for the
/// earlier one.
///
/// ```
/// use std::{num::NonZeroU32, time::Duration};
/// use zms_core::rate::{Bucket, Rate};
///
/// let two = NonZeroU32::new(2).unwrap();
/// let mut bucket = Bucket::new(Rate::per_second(two), Duration::ZERO);
/// assert_eq!(bucket.take(Duration::ZERO), Ok(()));
/// assert_eq!(bucket.take(Duration::ZERO), Ok(()));
/// assert_eq!(bucket.take(Duration::ZERO), Err(Duration::from_millis(500)));
/// assert_eq!(bucket.take(Duration::from_millis(500)), Ok(()));
/// ```
#[derive(Debug, Clone)]
pub struct Bucket {
    rate: Rate,
    /// What is saved up. A permit costs `period_ns`, and each nanosecond brings `permits`: whole numbers, so that nothing is
    /// lost to rounding however slow the rate or long the run.
    saved: u128,
    at: Duration,
}

impl Bucket {
    /// A full bucket at the time `now`.
    pub fn new(rate: Rate, now: Duration) -> Self {
        Self { rate, saved: rate.cap(), at: now }
    }

    /// The present rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes a permit, or tells how long it is until there will be one if nobody else takes it.
    ///
    /// # Errors
    /// The wait, never zero.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        self.take_up_to(now, NonZeroU32::MIN).map(drop)
    }

    /// Takes as many permits as there are, at most `most`; how many, at least one.
    ///
    /// # Errors
    /// The wait until there is one, never zero.
    pub fn take_up_to(&mut self, now: Duration, most: NonZeroU32) -> Result<NonZeroU32, Duration> {
        self.save_until(now);
        let cost = self.rate.period_ns;
        let there = u32::try_from(self.saved / cost).unwrap_or(u32::MAX);
        let Some(taken) = NonZeroU32::new(there.min(most.get())) else {
            let nanos = (cost - self.saved).div_ceil(u128::from(self.rate.permits.get()));
            return Err(from_nanos(nanos));
        };
        self.saved -= u128::from(taken.get()) * cost;
        Ok(taken)
    }

    /// Another rate from `now` on. What was saved up is kept, as many permits as before but at most the new burst.
    pub fn set_rate(&mut self, now: Duration, rate: Rate) {
        self.save_until(now);
        let (old, new) = (self.rate.period_ns, rate.period_ns);
        // Whole permits and the rest apart: their product could be too large for the type.
        let (whole, rest) = (self.saved / old, self.saved % old);
        let rest = rest.checked_mul(new).map_or(0, |product| product / old);
        self.saved = whole.saturating_mul(new).saturating_add(rest).min(rate.cap());
        self.rate = rate;
    }

    fn save_until(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_nanos();
        let gain = passed.saturating_mul(u128::from(self.rate.permits.get()));
        self.saved = self.saved.saturating_add(gain).min(self.rate.cap());
        self.at = self.at.max(now);
    }
}

fn from_nanos(nanos: u128) -> Duration {
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Duration::new(seconds, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    /// Remembers every permit, and grants another one when no span that ends now would hold too many.
    struct Oracle {
        granted: Vec<u128>,
        permits: u128,
        period: u128,
        burst: u128,
    }

    impl Oracle {
        fn take(&mut self, now: u128) -> bool {
            let fits = |first: usize| {
                let count = (self.granted.len() - first + 1) as u128;
                count * self.period <= self.burst * self.period + (now - self.granted[first]) * self.permits
            };
            let granted = (0..self.granted.len()).all(fits);
            if granted {
                self.granted.push(now);
            }
            granted
        }
    }

    fn nanos(n: u64) -> Duration {
        Duration::from_nanos(n)
    }

    proptest! {
        #[test]
        fn grants_exactly_what_every_span_allows(
            permits in 1_u32..9,
            period in 1_u64..40,
            burst in 1_u32..6,
            steps in prop::collection::vec(0_u64..30, 1..120),
        ) {
            let rate = Rate::per(number(permits), nanos(period)).burst(number(burst));
            let mut bucket = Bucket::new(rate, Duration::ZERO);
            let (period, burst) = (u128::from(period), u128::from(burst));
            let mut oracle = Oracle { granted: Vec::new(), permits: u128::from(permits), period, burst };
            let mut now = 0;
            for step in steps {
                now += step;
                let taken = bucket.take(nanos(now));
                prop_assert_eq!(taken.is_ok(), oracle.take(u128::from(now)));
                if let Err(wait) = taken {
                    let in_time = nanos(now) + wait;
                    prop_assert!(bucket.clone().take(in_time).is_ok(), "waited in vain");
                    prop_assert!(bucket.clone().take(in_time.saturating_sub(nanos(1))).is_err(), "waited too long");
                }
            }
        }

        #[test]
        fn many_at_once_are_as_many_one_by_one(
            burst in 1_u32..20,
            takes in prop::collection::vec((0_u64..30, 1_u32..30), 1..60),
        ) {
            let rate = Rate::per(number(3), nanos(10)).burst(number(burst));
            let (mut one, mut many) = (Bucket::new(rate, Duration::ZERO), Bucket::new(rate, Duration::ZERO));
            let mut now = Duration::ZERO;
            for (step, most) in takes {
                now += nanos(step);
                let singly = (0..most).take_while(|_| one.take(now).is_ok()).count();
                let taken = many.take_up_to(now, number(most)).map_or(0, NonZeroU32::get);
                prop_assert_eq!(taken as usize, singly);
            }
        }

        #[test]
        fn a_change_of_rate_gives_nothing_away(
            changes in prop::collection::vec((1_u32..9, 1_u64..40, 1_u32..6, prop::collection::vec(0_u64..20, 0..20)), 1..12),
        ) {
            let mut now = 0;
            let mut bucket = Bucket::new(Rate::per(number(1), nanos(10)), Duration::ZERO);
            // The largest burst, and what each rate brought while it held: never more than that.
            let (mut most, mut taken) = (1.0_f64, 0.0);
            let mut brought = 0.0;
            for (permits, period, burst, steps) in changes {
                bucket.set_rate(nanos(now), Rate::per(number(permits), nanos(period)).burst(number(burst)));
                most = most.max(f64::from(burst));
                for step in steps {
                    now += step;
                    brought += f64::from(permits) / f64::from(u32::try_from(period).unwrap()) * f64::from(u32::try_from(step).unwrap());
                    taken += if bucket.take(nanos(now)).is_ok() { 1.0 } else { 0.0 };
                    prop_assert!(taken <= most + brought + 1e-6, "{taken} > {most} + {brought}");
                }
            }
        }
    }

    #[test]
    fn a_slow_rate_is_exact_over_a_long_time() {
        let mut bucket = Bucket::new(Rate::per(number(7), Duration::from_secs(86_400)), Duration::ZERO);
        let days = 400_u32;
        let end = Duration::from_secs(86_400) * days;
        let (mut now, mut taken) = (Duration::ZERO, 0);
        while now <= end {
            match bucket.take(now) {
                Ok(()) => taken += 1,
                Err(wait) => now += wait,
            }
        }
        assert_eq!(taken, 7 * days + 7);
    }

    #[test]
    fn another_rate_holds_at_once() {
        let mut bucket = Bucket::new(Rate::per(number(1), Duration::from_secs(3600)), Duration::ZERO);
        assert_eq!(bucket.take(Duration::ZERO), Ok(()));
        assert_eq!(bucket.take(Duration::ZERO), Err(Duration::from_secs(3600)));
        bucket.set_rate(Duration::from_secs(1800), Rate::per_second(number(1)));
        assert_eq!(
            bucket.take(Duration::from_secs(1800)),
            Err(Duration::from_millis(500)),
            "half was saved up"
        );
        bucket.set_rate(Duration::from_secs(1800), Rate::per_second(number(1000)));
        assert_eq!(bucket.take(Duration::from_secs(1800)), Err(Duration::from_micros(500)));
    }

    #[test]
    fn a_clock_that_goes_back_brings_nothing_and_takes_nothing() {
        let mut bucket = Bucket::new(Rate::per_second(number(1)), Duration::from_secs(10));
        assert_eq!(bucket.take(Duration::from_secs(9)), Ok(()));
        assert_eq!(bucket.take(Duration::from_secs(5)), Err(Duration::from_secs(1)));
        assert_eq!(bucket.take(Duration::from_secs(11)), Ok(()));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let rate = Rate::per(NonZeroU32::MAX, Duration::MAX);
        let mut bucket = Bucket::new(rate, Duration::ZERO);
        assert_eq!(bucket.take_up_to(Duration::ZERO, NonZeroU32::MAX), Ok(NonZeroU32::MAX));
        assert!(bucket.take(Duration::ZERO).is_err());
        bucket.set_rate(Duration::MAX, Rate::per(number(1), Duration::ZERO));
        assert_eq!(bucket.take(Duration::MAX), Ok(()));
        bucket.set_rate(Duration::MAX, rate);
        let _ = bucket.take(Duration::MAX);
    }
}
