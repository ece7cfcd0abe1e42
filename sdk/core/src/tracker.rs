//! What of an assigned partition was delivered, is done, and may be committed.

use std::{collections::VecDeque, ops::Range};

use crate::{
    flow::Load,
    progress::{DoneSet, Progress},
};

/// Number of one assignment of one partition. Never used twice in a process; work and its completion carry it, so that
/// what belongs to an earlier assignment of the same partition is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The book of one assignment.
///
/// Events: first [`resume`](Self::resume), where the commit that it starts from said more than its position; then
/// [`deliver`](Self::deliver), [`begin`](Self::begin), and one of [`complete`](Self::complete) and
/// [`abandon`](Self::abandon) for each begun run. Verbs: [`stop`](Self::stop), after which nothing begins and nothing
/// is taken in, then [`close`](Self::close), after which completions are late. Questions: all others.
///
/// Contiguity is over the sequence of messages delivered, not over offset numbers: logs have gaps.
///
/// All but [`due`](Self::due) take the same short time however many messages there are, and allocate only while more
/// messages are held than ever before.
#[derive(Debug)]
pub struct Tracker {
    epoch: Epoch,
    /// Delivered and not yet covered by `position`, in offset order. The first is never a done one.
    slots: VecDeque<Slot>,
    position: i64,
    next: i64,
    done_slots: usize,
    unfinished_bytes: usize,
    running: usize,
    resumed: Resumed,
    /// Messages completed, to tell whether there is news since the last commit.
    completions: u64,
    committed: Committed,
    stage: Stage,
}

// Small, as there is one for each message in work: the time and two words of 32 bits.
#[derive(Debug)]
struct Slot {
    offset: i64,
    delivered_at: u64,
    bytes: u32,
    done: bool,
}

/// What the commit that the assignment starts from named as done, as far as it was not delivered again yet.
#[derive(Debug, Default)]
struct Resumed {
    done: DoneSet,
    /// Ranges before this one are below what was delivered.
    passed: usize,
}

#[derive(Debug)]
struct Committed {
    position: Option<i64>,
    metadata: String,
    completions: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    Open,
    Stopped,
    Closed,
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It counts, and is to be handled.
    Accepted,
    /// It was done before this assignment: it counts, and is not to be handled again.
    AlreadyDone,
    /// The assignment takes in nothing any more: drop it, it will be delivered to the next owner.
    Stopped,
    /// Its offset is not above what was delivered before: the log was replaced, or the reader moved back. This
    /// assignment cannot say what is done there; a new one must take over.
    Backwards,
}

/// What became of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// It counts.
    Counted,
    /// The assignment is closed: it does not count.
    Late,
    /// No such message is unfinished: it does not count.
    Unknown,
}

/// The unfinished message with the lowest offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oldest {
    /// Its offset.
    pub offset: i64,
    /// The time given to [`Tracker::deliver`].
    pub delivered_at: u64,
}

/// What a commit says of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The position: all delivered below it are done.
    pub offset: i64,
    /// What is done above it, as [`Progress`] writes it; empty when nothing is.
    pub metadata: String,
    completions: u64,
}

impl Tracker {
    /// A book for reading from `start` on. `committed` is what the group has committed there already.
    pub fn new(epoch: Epoch, start: i64, committed: Option<i64>) -> Self {
        Self {
            epoch,
            slots: VecDeque::new(),
            position: start,
            next: start,
            done_slots: 0,
            unfinished_bytes: 0,
            running: 0,
            resumed: Resumed::default(),
            completions: 0,
            committed: Committed { position: committed, metadata: String::new(), completions: 0 },
            stage: Stage::Open,
        }
    }

    /// Takes in what was done above the start before this assignment. Before the first delivery.
    pub fn resume(&mut self, done: DoneSet) {
        self.resumed = Resumed { done, passed: 0 };
    }

    /// Takes in a message. `now` is in a unit of the caller's choice and comes back in [`Tracker::oldest`].
    pub fn deliver(&mut self, offset: i64, bytes: usize, now: u64) -> Delivered {
        if self.stage != Stage::Open {
            return Delivered::Stopped;
        }
        if offset < self.next {
            return Delivered::Backwards;
        }
        self.next = offset.saturating_add(1);
        if self.resumed.takes(offset) {
            self.deliver_done(offset, now);
            return Delivered::AlreadyDone;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unfinished_bytes += bytes as usize;
        self.slots.push_back(Slot { offset, delivered_at: now, bytes, done: false });
        Delivered::Accepted
    }

    /// Starts a run of a handler; `false` once stopped, and the work is to be skipped.
    #[must_use]
    pub fn begin(&mut self) -> bool {
        let open = self.stage == Stage::Open;
        self.running += usize::from(open);
        open
    }

    /// Ends a run without an outcome.
    pub fn abandon(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Ends a run, and its message is done.
    pub fn complete(&mut self, offset: i64) -> Completed {
        self.abandon();
        if self.stage == Stage::Closed {
            return Completed::Late;
        }
        match self.index_of(offset) {
            Some(index) if !self.slots[index].done => self.mark_done(index),
            _ => return Completed::Unknown,
        }
        Completed::Counted
    }

    /// From now on nothing begins and nothing is taken in. What runs may still complete.
    pub fn stop(&mut self) {
        self.stage = if self.stage == Stage::Closed { Stage::Closed } else { Stage::Stopped };
    }

    /// From now on completions are late and nothing is due for commit.
    pub fn close(&mut self) {
        self.stage = Stage::Closed;
    }

    /// The broker has stored `mark`. One that was overtaken by a higher one changes nothing.
    pub fn committed_to(&mut self, mark: Mark) {
        let Mark { offset, metadata, completions } = mark;
        if Some(offset) >= self.committed.position && completions >= self.committed.completions {
            self.committed = Committed { position: Some(offset), metadata, completions };
        }
    }

    /// What to commit, if it is news to the broker: a higher position, or at the same one more that is done above it.
    /// The metadata takes at most `limit` bytes. Takes time by the number of messages held while some are done above
    /// the position.
    pub fn due(&self, limit: usize) -> Option<Mark> {
        let committed = &self.committed;
        let moved = Some(self.position) > committed.position;
        let grown = Some(self.position) == committed.position && self.completions > committed.completions;
        if self.stage == Stage::Closed || !(moved || grown) {
            return None;
        }
        let metadata = self.metadata(limit);
        let news = moved || metadata != committed.metadata;
        news.then_some(Mark { offset: self.position, metadata, completions: self.completions })
    }

    /// The assignment's number.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The offset of the next message to handle: everything delivered below it is done.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// The offset behind the last one delivered.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// The position last committed.
    pub fn committed(&self) -> Option<i64> {
        self.committed.position
    }

    /// Handlers running.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether [`stop`](Self::stop) or [`close`](Self::close) was called.
    pub fn is_stopped(&self) -> bool {
        self.stage != Stage::Open
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// The unfinished messages and their bytes: what is in memory.
    pub fn load(&self) -> Load {
        Load { messages: self.slots.len() - self.done_slots, bytes: self.unfinished_bytes }
    }

    /// Messages delivered from the position on, done ones behind an unfinished one included: how far the work is ahead
    /// of what a plain position can say.
    pub fn span(&self) -> usize {
        self.slots.len()
    }

    /// The unfinished message with the lowest offset.
    pub fn oldest(&self) -> Option<Oldest> {
        let slot = self.slots.front()?;
        Some(Oldest { offset: slot.offset, delivered_at: slot.delivered_at })
    }

    /// Messages done above the position. Between two of them that followed one another in the log, offsets that do
    /// not exist count as done too, just as the position passes over them.
    pub fn done_ahead(&self) -> DoneSet {
        let mut done = DoneSet::default();
        let mut from = None;
        for slot in &self.slots {
            if slot.done {
                done.push(from.unwrap_or(slot.offset)..slot.end());
            }
            from = slot.done.then_some(slot.end());
        }
        self.resumed.left(self.next).for_each(|range| done.push(range));
        done
    }

    fn metadata(&self, limit: usize) -> String {
        if self.done_slots == 0 && self.resumed.is_over() {
            return String::new();
        }
        Progress { start: None, done: self.done_ahead() }.encode(self.position, limit)
    }

    fn deliver_done(&mut self, offset: i64, now: u64) {
        if self.slots.is_empty() {
            self.position = self.next;
        } else {
            self.done_slots += 1;
            self.slots.push_back(Slot { offset, delivered_at: now, bytes: 0, done: true });
        }
    }

    /// Where a log has no gaps the distance from the first slot is the index. Each offset that is missing in between
    /// makes the index smaller by one, so that the search is among as many slots as offsets are missing.
    fn index_of(&self, offset: i64) -> Option<usize> {
        let (first, last) = (self.slots.front()?.offset, self.slots.back()?.offset);
        if !(first..=last).contains(&offset) {
            return None;
        }
        let newest = self.slots.len() - 1;
        let distance = usize::try_from(offset - first).unwrap_or(usize::MAX);
        let missing = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_sub(newest);
        let (mut low, mut high) = (distance.saturating_sub(missing), distance.min(newest));
        while low < high {
            let middle = low.midpoint(high);
            if self.slots[middle].offset < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (self.slots[low].offset == offset).then_some(low)
    }

    fn mark_done(&mut self, index: usize) {
        self.completions += 1;
        let slot = &mut self.slots[index];
        slot.done = true;
        self.unfinished_bytes -= slot.bytes as usize;
        self.done_slots += 1;
        if index > 0 {
            return;
        }
        while self.slots.front().is_some_and(|slot| slot.done) {
            if let Some(slot) = self.slots.pop_front() {
                self.done_slots -= 1;
                self.position = slot.end();
            }
        }
    }
}

impl Slot {
    fn end(&self) -> i64 {
        self.offset.saturating_add(1)
    }
}

impl Resumed {
    /// Whether this offset is done. Only for ever higher ones.
    fn takes(&mut self, offset: i64) -> bool {
        let ranges = self.done.ranges();
        while ranges.get(self.passed).is_some_and(|range| range.end <= offset) {
            self.passed += 1;
        }
        ranges.get(self.passed).is_some_and(|range| range.start <= offset)
    }

    fn is_over(&self) -> bool {
        self.passed == self.done.ranges().len()
    }

    /// What is still to come, from `next` on.
    fn left(&self, next: i64) -> impl Iterator<Item = Range<i64>> {
        self.done.ranges()[self.passed..].iter().map(move |range| range.start.max(next)..range.end)
    }
}

#[cfg(test)]
mod tests;
