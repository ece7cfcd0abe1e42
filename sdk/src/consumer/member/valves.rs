//! Which partitions may flow.

use std::time::Instant;

use tracing::debug;
use zms_core::flow::Marks;

use super::{BRIEF_POLL, FULL_POLL, IDLE_POLL, Member, QUESTION_LIMIT};
use crate::{
    consumer::{holdings::Slot, inspect::PauseReason},
    engine::port::Start,
};

/// What a member is to do with its partitions now.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::consumer) struct Wish {
    /// Fetch nothing, for good.
    pub(in crate::consumer) leaving: bool,
    /// Fetch nothing until further notice.
    pub(in crate::consumer) suspended: bool,
    /// Others wait for what this member commits: commit often.
    pub(in crate::consumer) hurry: bool,
}

impl Wish {
    pub(super) const LEAVE: Self = Self { leaving: true, suspended: false, hurry: false };

    /// Why nothing at all may flow.
    pub(super) fn hold(self, full: bool) -> Option<PauseReason> {
        match () {
            () if self.leaving => Some(PauseReason::Leaving),
            () if self.suspended => Some(PauseReason::Suspended),
            () if full => Some(PauseReason::BufferFull),
            () => None,
        }
    }
}

impl Member {
    /// Derives for each partition whether it may flow, and tells the client where that is news.
    pub(super) fn regulate(&mut self, wish: Wish) {
        self.move_back();
        let mut slots = self.holdings.slots();
        let marks = Marks::new(self.limits.buffer, slots.len());
        let hold = wish.hold(!marks.has_room(self.holdings.books.gauge.load()));
        let paused = self.holdings.books.pauses.now();
        let (mut pause, mut resume) = (Vec::new(), Vec::new());
        let mut waits_for_workers = wish.leaving;
        for (&partition, slot) in slots.iter_mut() {
            let reason = slot.reason(hold.or_else(|| paused.reason(partition)), marks, self.limits.ahead);
            waits_for_workers |= matches!(
                reason,
                Some(PauseReason::BufferFull | PauseReason::ShareFull | PauseReason::FarAhead)
            );
            match (slot.paused, reason) {
                (None, Some(_)) => pause.push(partition),
                (Some(_), None) => resume.push(partition),
                _ => {}
            }
            slot.paused = reason;
        }
        drop(slots);
        self.poll_limit = match () {
            () if !waits_for_workers => IDLE_POLL,
            () if self.fetched || self.poll_limit > FULL_POLL => BRIEF_POLL,
            () => (self.poll_limit * 2).min(FULL_POLL),
        };
        if !pause.is_empty() {
            self.client.pause(&pause);
        }
        if !resume.is_empty() {
            self.client.resume(&resume);
        }
    }

    /// Moves the client back to where records were dropped.
    fn move_back(&mut self) {
        let mut back = Vec::new();
        for (&partition, slot) in self.holdings.slots().iter_mut() {
            slot.fresh = false;
            if let (true, Some(assignment)) = (slot.seek, &slot.assignment) {
                back.push((partition, assignment.book().tracker.next()));
            }
        }
        if back.is_empty() || !self.questions.is_due(Instant::now()) {
            return;
        }
        for (partition, offset) in back {
            match self.client.seek(partition, Start::At(offset), QUESTION_LIMIT) {
                Ok(()) => {
                    if let Some(slot) = self.holdings.slots().get_mut(&partition) {
                        slot.seek = false;
                    }
                }
                Err(error) => {
                    debug!(cluster = %self.route.cluster.name, partition, offset, %error, "seek failed; tried again");
                    self.questions.fail(Instant::now());
                    return;
                }
            }
        }
        self.questions.succeed(Instant::now());
    }
}

impl Slot {
    /// Why the partition must not flow.
    fn reason(&mut self, hold: Option<PauseReason>, marks: Marks, ahead: usize) -> Option<PauseReason> {
        let tracked = self.assignment.as_ref().map(|assignment| {
            let tracker = &assignment.book().tracker;
            (tracker.load(), tracker.span())
        });
        let (load, span) = tracked.unwrap_or_default();
        let open = self.valve.update(load, marks.high());
        let near = self.ahead.update_count(span, marks.ahead(ahead));
        match () {
            () if tracked.is_none() || self.seek => Some(PauseReason::Starting),
            () if hold.is_some() => hold,
            () if !open => Some(PauseReason::ShareFull),
            () if !near => Some(PauseReason::FarAhead),
            () => None,
        }
    }
}
