//! From the client to the workers.

use std::sync::Arc;

use zms_core::{flow::Load, tracker::Delivered};

use super::Member;
use crate::{
    consumer::{
        assignment::Assignment,
        delivery::Parcel,
        holdings::{Holdings, Slot},
        pool::{Item, Pool},
        tags::Tags,
    },
    engine::port::Records,
};

impl Member {
    pub(super) fn dispatch(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let sizes =
            self.records.iter().flat_map(|records| (0..records.len()).map(|index| records.size(index)));
        self.typical = sizes.max().unwrap_or(1).max(1);
        let now = self.holdings.books.now_ms();
        let mut slots = self.holdings.slots();
        for records in self.records.drain(..) {
            let dropped = match slots.get_mut(&records.partition()) {
                Some(slot) if !slot.fresh && slot.assignment.is_some() => {
                    deliver(&self.holdings, slot, records, &mut self.pool, now)
                }
                Some(slot) => {
                    slot.seek = true;
                    records.len()
                }
                None => records.len(),
            };
            self.holdings.books.stats.dropped.add(dropped);
        }
        drop(slots);
        self.pool.send();
    }
}

/// Books records of one partition and adds them to the pool. How many were dropped.
fn deliver(holdings: &Holdings, slot: &mut Slot, records: Records, pool: &mut Pool, now: u64) -> usize {
    let (mut dropped, mut next) = (0, Some(records));
    while let (Some(mut records), Some(assignment)) = (next.take(), slot.assignment.clone()) {
        let booked = book(&assignment, &mut records, (holdings.books.tags.as_ref(), now));
        dropped += booked.dropped;
        holdings.books.stats.already_done.add(booked.already_done);
        holdings.books.stats.filtered.add(booked.filtered);
        next = booked.backwards;
        if !records.is_empty() {
            let load = Load { messages: records.len(), bytes: booked.bytes };
            // Before the workers see it: an item must not give back what was not taken yet.
            holdings.books.gauge.take(load);
            let parcel = Parcel::new(Arc::clone(&assignment.origin), records);
            pool.add(Item { assignment, parcel, load });
        }
        if let Some(records) = &next {
            holdings.rewind(slot, records.partition(), records.offset(0));
        }
    }
    dropped
}

/// What an assignment took in at once.
#[derive(Default)]
struct Booked {
    bytes: usize,
    dropped: usize,
    already_done: usize,
    filtered: usize,
    /// Where the log started over, these and what follows them are still to be booked.
    backwards: Option<Records>,
}

/// Books records under one lock, and leaves in `records` those that are to be handled.
fn book(assignment: &Assignment, records: &mut Records, (tags, now): (Option<&Tags>, u64)) -> Booked {
    let mut booked = Booked::default();
    let (mut kept, mut backwards) = (0, None);
    let mut book = assignment.book();
    records.retain(|offset, bytes, headers| {
        if backwards.is_some() {
            return true;
        }
        match book.tracker.deliver(offset, bytes, now) {
            Delivered::Accepted if tags.is_some_and(|tags| !tags.admit(headers)) => {
                // Done without a run: it counts for the position alone.
                book.tracker.complete(offset);
                booked.filtered += 1;
                false
            }
            Delivered::Accepted => {
                kept += 1;
                booked.bytes += bytes;
                true
            }
            Delivered::AlreadyDone => {
                booked.already_done += 1;
                false
            }
            Delivered::Stopped => {
                booked.dropped += 1;
                false
            }
            Delivered::Backwards => {
                backwards = Some(kept);
                true
            }
        }
    });
    booked.backwards = backwards.map(|index| records.split_off(index));
    booked
}
