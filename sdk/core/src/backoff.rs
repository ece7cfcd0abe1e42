//! Growing, jittered delays between attempts.

use std::time::Duration;

/// Exponential delays up to a ceiling. Half of each delay is fixed, the other half random, so that clients that failed
/// together do not come back together, and none comes back at once.
///
/// ```
/// use std::time::Duration;
/// use zms_core::backoff::Backoff;
/// let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
/// assert_eq!(backoff.delay(1, 0), Duration::from_millis(50));
/// assert_eq!(backoff.delay(50, 0), Duration::from_secs(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
}

impl Backoff {
    /// Delays from `initial`, doubling up to `max`. A `max` below `initial` is the ceiling all the same.
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max }
    }

    /// The delay after the `attempt`-th failure in a row, counted from 1. `random` is any number, evenly distributed;
    /// 0 gives the shortest delay, `u64::MAX` the longest.
    pub fn delay(&self, attempt: u32, random: u64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let ceiling = self.initial.saturating_mul(1 << doublings).min(self.max);
        let half = ceiling / 2;
        let jitter = (half.as_nanos() * u128::from(random)) >> 64;
        half + Duration::from_nanos(u64::try_from(jitter).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_double_up_to_the_ceiling() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let shortest: Vec<u128> = (1..=6).map(|n| backoff.delay(n, 0).as_millis()).collect();
        assert_eq!(shortest, [50, 100, 200, 400, 500, 500]);
    }

    proptest! {
        #[test]
        fn jitter_stays_between_half_and_whole(attempt in 0_u32.., random: u64, initial in 1_u64..100_000, max in 1_u64..100_000) {
            let backoff = Backoff::new(Duration::from_millis(initial), Duration::from_millis(max));
            let shortest = backoff.delay(attempt, 0);
            let delay = backoff.delay(attempt, random);
            prop_assert!(shortest <= delay && delay <= shortest * 2);
            prop_assert!(delay <= Duration::from_millis(max));
        }
    }
}
