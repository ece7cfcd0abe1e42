//! What a subscription counts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use zms_core::flow::Load;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters of a subscription.
        #[derive(Debug, Default)]
        pub(super) struct Stats {
            $(pub(super) $name: Counter,)*
            /// A part of those handled.
            pub(super) handled_by: ByWorker,
        }

        /// Counts since the subscription began.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            pub(super) fn snapshot(&self) -> Counts {
                let mut counts = Counts { $($name: self.$name.value(),)* };
                counts.handled += self.handled_by.value();
                counts
            }
        }
    };
}

counters! {
    /// Messages over: done, skipped or dead-lettered.
    handled,
    /// Messages passed over because the subscription does not want their tag.
    filtered,
    /// Runs of a handler that failed, panics included.
    failures,
    /// Runs after the first of a message.
    retries,
    /// Runs that panicked.
    panics,
    /// Messages that used up their attempts and are tried on; each counted once.
    blocked,
    /// Messages given up by [`Exhausted::Skip`](super::Exhausted::Skip).
    skipped,
    /// Dead letters that were acknowledged.
    dead_lettered,
    /// Attempts to send a dead letter that failed; each is repeated, and its message waits.
    dead_letter_failures,
    /// Handlers that ended after their assignment did; their messages are handled again by the next owner.
    late_completions,
    /// Messages dropped unhandled because their assignment ended; they are delivered again to the next owner.
    dropped,
    /// Messages not handled again: the commit that a partition began from named them as done.
    already_done,
    /// Commits that the broker took.
    commits,
    /// Commits that failed; the newest positions are committed again later.
    commit_failures,
    /// Times that partitions were given to this member.
    assignments,
    /// Times that partitions were taken from this member.
    revocations,
    /// Times that partitions were lost: taken without a chance to commit.
    losses,
    /// Revocations at which handlers were still running at the drain limit.
    drain_timeouts,
    /// Logs that started over below what was read.
    rewinds,
    /// Errors that a client reported while polling.
    poll_errors,
    /// Openings of a client that failed.
    open_failures,
    /// Clients replaced on the same cluster.
    rebuilds,
    /// Moves to another cluster.
    switches,
    /// Moves that left messages on the old cluster unhandled.
    forced_switches,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Relaxed);
    }

    pub(super) fn one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that many workers count at once, each for itself: one memory cell for all would be what they wait for.
#[derive(Debug, Default)]
pub(super) struct ByWorker([Padded; 16]);

/// Alone on its cache line, and on the one that is fetched with it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Counter);

impl ByWorker {
    pub(super) fn one(&self, worker: usize) {
        self.0[worker % self.0.len()].0.one();
    }

    fn value(&self) -> u64 {
        self.0.iter().map(|part| part.0.value()).sum()
    }
}

/// Messages of the subscription in memory: queued, running or waiting for a retry, of all assignments present and past.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Gauge {
    pub(super) fn take(&self, load: Load) {
        self.messages.fetch_add(load.messages, Relaxed);
        self.bytes.fetch_add(load.bytes, Relaxed);
    }

    pub(super) fn give_back(&self, load: Load) {
        self.messages.fetch_sub(load.messages, Relaxed);
        self.bytes.fetch_sub(load.bytes, Relaxed);
    }

    pub(super) fn load(&self) -> Load {
        Load { messages: self.messages.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}
