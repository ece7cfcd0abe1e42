//! Randomness that spreads load; nothing secret depends on it.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// A random number: the keys of the standard library's hash maps are drawn anew for each.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Between three quarters and five quarters of `mean`.
pub(super) fn jittered(mean: Duration) -> Duration {
    let part = u32::try_from(random() % 1000).unwrap_or_default();
    mean * 3 / 4 + mean / 2 * part / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_spreads_around_the_mean() {
        let mean = Duration::from_secs(60);
        let drawn: Vec<Duration> = (0..1000).map(|_| jittered(mean)).collect();
        assert!(drawn.iter().all(|delay| *delay >= mean * 3 / 4 && *delay < mean * 5 / 4));
        assert!(drawn.iter().any(|delay| *delay < mean) && drawn.iter().any(|delay| *delay > mean));
    }
}
