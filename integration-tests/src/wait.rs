//! Waiting for conditions, with a limit that only a broken program reaches.

use std::time::{Duration, Instant};

/// The limit: generous, as machines are busy.
pub const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// Blocks until `holds`.
///
/// # Panics
/// After [`LIMIT`], with `what` was awaited.
#[track_caller]
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < limit, "not within {LIMIT:?}: {what}");
        std::thread::sleep(POLL);
    }
}

/// Waits until `holds`, letting other tasks run. Dropping the future stops waiting.
///
/// # Panics
/// After [`LIMIT`], with `what` was awaited.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < limit, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(POLL).await;
    }
}
