//! What handlers saw, counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counts of handled messages; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Handled {
    books: Arc<Mutex<Books>>,
}

#[derive(Debug, Default)]
struct Books {
    by_cluster: BTreeMap<String, u64>,
    foreign: u64,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Handled {
    /// A message was handled.
    pub fn note(&self, cluster: &str) {
        let mut books = self.books();
        *books.by_cluster.entry(cluster.to_owned()).or_default() += 1;
        let now = Instant::now();
        if let Some(last) = books.last.replace(now) {
            books.longest_gap = books.longest_gap.max(now - last);
        }
    }

    pub(super) fn note_foreign(&self) {
        self.books().foreign += 1;
    }

    /// Messages handled.
    pub fn count(&self) -> u64 {
        self.books().by_cluster.values().sum()
    }

    /// Messages handled on one cluster.
    pub fn on(&self, cluster: &str) -> u64 {
        self.books().by_cluster.get(cluster).copied().unwrap_or_default()
    }

    /// Messages that no sender of the trial has sent.
    pub fn foreign(&self) -> u64 {
        self.books().foreign
    }

    /// The longest time without any message between two, so far.
    pub fn longest_gap(&self) -> Duration {
        self.books().longest_gap
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
