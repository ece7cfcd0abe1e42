//! What happens around a handler, the same for all kinds.

use std::{
    any::Any,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tracing::{debug, warn};
use zms_core::tracker::Completed;

use super::{
    BuryError, Outcome, RetryPolicy, Trouble,
    assignment::Run,
    burial::{Burial, Burials, trouble_of},
    pool::{Governor, Queued},
    retry::Verdict,
    stats::Stats,
    throttle::Throttle,
};
use crate::panics::words_of;

/// What a handler said about a message, and in words why it failed.
pub(super) type Said = (Outcome, Option<String>);

/// Stands for the reason where a handler gives none.
const ASKED: &str = "the handler asked for a retry";

/// What comes after a message's call.
pub(super) enum After {
    /// The message is over.
    Nothing,
    /// Another call after this delay.
    Again(Duration),
    /// A dead letter, for this reason; the message is over when that is acknowledged.
    Bury(String),
}

pub(super) struct Conduct {
    pub(super) stats: Arc<Stats>,
    pub(super) burials: Burials,
    pub(super) governor: Governor,
    retry: RetryPolicy,
    random: RandomState,
    late: Throttle,
    skipped: Throttle,
    blocked: Throttle,
}

impl Conduct {
    pub(super) fn new(retry: RetryPolicy, burials: Burials, governor: Governor, stats: Arc<Stats>) -> Self {
        let throttle = Throttle::default;
        let random = RandomState::new();
        Self {
            stats,
            burials,
            governor,
            retry,
            random,
            late: throttle(),
            skipped: throttle(),
            blocked: throttle(),
        }
    }

    /// What a panic says in place of a handler.
    pub(super) fn panicked(&self, panic: Box<dyn Any + Send>) -> Said {
        self.stats.panics.one();
        (Outcome::Retry, Some(format!("the handler panicked: {}", words_of(panic))))
    }

    /// Books the end of a message's call by `worker`.
    pub(super) fn book(
        &self,
        message: Queued<'_>,
        run: &Run,
        worker: usize,
        (outcome, reason): Said,
    ) -> After {
        if outcome == Outcome::Done {
            self.complete(message, run, worker);
            return After::Nothing;
        }
        self.stats.failures.one();
        match self.retry.judge(message.attempt, &outcome, self.chance(message, message.attempt)) {
            Verdict::Done => self.complete(message, run, worker),
            Verdict::Skip => {
                self.stats.skipped.one();
                if let Some(not_logged) = self.skipped.pass() {
                    warn!(message = ?message.delivery(), reason, not_logged, "message skipped after its last attempt");
                }
                self.complete(message, run, worker);
            }
            Verdict::Bury => {
                let said = if let Outcome::DeadLetter(said) = outcome { Some(said) } else { reason };
                return After::Bury(said.unwrap_or_else(|| ASKED.to_owned()));
            }
            Verdict::Again { delay, blocks } => {
                // While the run counts as running its assignment cannot end under the note.
                self.note(message, blocks, reason);
                return After::Again(delay);
            }
        }
        After::Nothing
    }

    /// Books an attempt to send a dead letter; the delay before the next one, or `None` when the message is over.
    pub(super) fn book_burial(
        &self,
        message: Queued<'_>,
        run: &Run,
        burial: &Burial<'_>,
        buried: Result<(), BuryError>,
    ) -> Option<Duration> {
        let Err(failure) = buried else {
            self.complete(message, run, 0);
            return None;
        };
        message.assignment().note_trouble(trouble_of(burial, &failure));
        message.assignment().note_blocked(message.offset());
        let failures = burial.failures.saturating_add(1);
        Some(self.retry.burial_delay(failures, self.chance(message, failures)))
    }

    fn chance(&self, message: Queued<'_>, attempt: u32) -> u64 {
        self.random.hash_one((message.offset(), attempt))
    }

    fn complete(&self, message: Queued<'_>, run: &Run, worker: usize) {
        match run.complete(message.offset()) {
            Completed::Counted => self.stats.handled_by.one(worker),
            Completed::Late | Completed::Unknown => {
                self.stats.late_completions.one();
                if let Some(not_logged) = self.late.pass() {
                    warn!(message = ?message.delivery(), not_logged, "handler ended after its assignment; not committed");
                }
            }
        }
    }

    fn note(&self, message: Queued<'_>, blocks: bool, reason: Option<String>) {
        let reason = reason.unwrap_or_else(|| ASKED.to_owned());
        debug!(message = ?message.delivery(), reason, "handler failed");
        if blocks {
            self.stats.blocked.one();
            message.assignment().note_blocked(message.offset());
            if let Some(not_logged) = self.blocked.pass() {
                let stuck = message.delivery();
                warn!(group = %stuck.group(), cluster = %stuck.cluster(), topic = %stuck.topic(),
                      partition = stuck.partition(), offset = stuck.offset(), attempts = message.attempt, reason, not_logged,
                      "attempts used up; what comes behind this message waits for it, and it is tried on: mend the handler");
            }
        }
        let trouble = Trouble { offset: message.offset(), attempts: message.attempt, reason };
        message.assignment().note_trouble(trouble);
    }
}
