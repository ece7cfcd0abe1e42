//! When to try to connect again.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(50);
const CAP: Duration = Duration::from_secs(1);

/// Delays between attempts: none before the first, then doubling to a cap, half of each at random so that the clients
/// of a server that comes back do not come all at once.
#[derive(Default)]
pub(super) struct Pace {
    attempts: u32,
}

impl Pace {
    /// The delay before the next attempt.
    pub(super) fn next_delay(&mut self) -> Duration {
        let attempts = self.attempts;
        self.attempts = self.attempts.saturating_add(1);
        if attempts == 0 {
            return Duration::ZERO;
        }
        let full = FIRST.saturating_mul(1 << (attempts - 1).min(10)).min(CAP);
        let half = full / 2;
        half + half.mul_f64(f64::from(random()) / f64::from(u32::MAX))
    }

    /// Starts anew after a connection that held. One that broke at once counts as one more failure, or a server that
    /// accepts and drops would be asked in a tight loop.
    pub(super) fn connection_ended(&mut self, lasted: Duration) {
        if lasted >= CAP {
            self.attempts = 0;
        }
    }
}

fn random() -> u32 {
    // The standard library's only source of randomness; good enough to spread clients.
    let bits = RandomState::new().hash_one(0u8);
    u32::try_from(bits >> 32).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_never_pass_it() {
        let mut pace = Pace::default();
        assert_eq!(pace.next_delay(), Duration::ZERO);
        let mut least = FIRST / 2;
        for _ in 0..100 {
            let delay = pace.next_delay();
            assert!(delay >= least && delay <= CAP, "{delay:?}");
            least = (least * 2).min(CAP / 2);
        }
    }

    #[test]
    fn only_a_connection_that_held_starts_anew() {
        let mut pace = Pace::default();
        pace.next_delay();
        pace.connection_ended(Duration::from_millis(1));
        assert!(pace.next_delay() >= FIRST / 2);
        pace.connection_ended(CAP);
        assert_eq!(pace.next_delay(), Duration::ZERO);
    }
}
