//! The line: who waits, and whose turn it is.

use super::{
    accounts::TopicKey,
    ledger::{Grant, Ledger, Outcome, Refusal},
};

/// A place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterId {
    pub(super) topic: TopicKey,
    pub(super) ticket: u64,
}

#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) ticket: u64,
    pub(super) bytes: usize,
    pub(super) reach: W,
}

impl<W> Ledger<W> {
    /// Gets in line after [`Shortage::Wait`](super::Shortage::Wait), within the same lock.
    pub fn enqueue(&mut self, topic: TopicKey, bytes: usize, reach: W) -> WaiterId {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.topics[topic.0].line.push_back(Waiter { ticket, bytes, reach });
        self.waiting += 1;
        self.refresh(topic.0);
        WaiterId { topic, ticket }
    }

    /// Leaves the line. `None`: it is not there any more, for it was granted, refused or sent away. Otherwise whose
    /// turn it is now: it may have stood in the way of others.
    pub fn withdraw(&mut self, id: WaiterId) -> Option<Vec<Grant<W>>> {
        let line = &mut self.topics[id.topic.0].line;
        let place = line.binary_search_by_key(&id.ticket, |waiter| waiter.ticket).ok()?;
        line.remove(place);
        self.waiting -= 1;
        self.refresh(id.topic.0);
        Some(self.serve())
    }

    /// Gives nothing out any more; the waiters sent away. Bytes given out can still be returned.
    pub fn close(&mut self) -> Vec<W> {
        self.closed = true;
        let mut sent_away = Vec::with_capacity(self.waiting);
        for topic in 0..self.topics.len() {
            sent_away.extend(self.topics[topic].line.drain(..).map(|waiter| waiter.reach));
            self.refresh(topic);
        }
        self.waiting = 0;
        sent_away
    }

    /// The one who has waited longest.
    pub fn oldest(&self) -> Option<&W> {
        let first = self.topics.iter().filter_map(|topic| topic.line.front());
        first.min_by_key(|waiter| waiter.ticket).map(|waiter| &waiter.reach)
    }

    /// Makes the cluster know the topic's first in line, unless the topic's own cap keeps that one.
    pub(super) fn refresh(&mut self, index: usize) {
        let topic = &mut self.topics[index];
        let cap = self.limits.cap;
        let fits = |bytes: usize| topic.used.saturating_add(bytes) <= cap;
        let now = topic.line.front().filter(|first| fits(first.bytes)).map(|first| first.ticket);
        let before = std::mem::replace(&mut topic.ready, now);
        if before != now {
            let ready = &mut self.clusters[topic.cluster].ready;
            before.map(|ticket| ready.remove(&(ticket, index)));
            now.map(|ticket| ready.insert((ticket, index)));
        }
    }

    /// Takes bytes on behalf of all whose turn it is.
    pub(super) fn serve(&mut self) -> Vec<Grant<W>> {
        let mut grants = Vec::new();
        while self.waiting > 0
            && let Some(topic) = self.next_in_turn()
            && let Some(Waiter { bytes, reach, .. }) = self.topics[topic].line.pop_front()
        {
            self.waiting -= 1;
            let charge = self.charge(TopicKey(topic), bytes);
            self.refresh(topic);
            grants.push(Grant { reach, charge });
        }
        grants
    }

    /// The topic whose first in line can be served. Of each cluster only its oldest counts; clusters are few.
    fn next_in_turn(&self) -> Option<usize> {
        let mut waits_for_pool = false;
        let mut after = None;
        loop {
            let heads = self.clusters.iter().filter_map(|cluster| Some((*cluster.ready.first()?, cluster)));
            let next = heads.filter(|(head, _)| Some(*head) > after).min_by_key(|(head, _)| *head);
            let ((ticket, topic), cluster) = next?;
            let bytes = self.topics[topic].line.front().map_or(0, |first| first.bytes);
            if cluster.used.saturating_add(bytes) <= self.limits.ceiling {
                let growth = cluster.growth(bytes);
                if growth == 0 || (!waits_for_pool && self.has_room_for(growth)) {
                    return Some(topic);
                }
                waits_for_pool = true;
            }
            after = Some((ticket, topic));
        }
    }

    /// After limits changed: whose turn it is, and who never can be served any more.
    pub(super) fn settle_line(&mut self) -> Outcome<W> {
        let mut refused = Vec::new();
        for index in 0..self.topics.len() {
            let (limit, bound) = self.most(self.topics[index].cluster);
            let line = &mut self.topics[index].line;
            let mut place = 0;
            while let Some(waiter) = line.get(place) {
                if waiter.bytes <= limit {
                    place += 1;
                } else if let Some(Waiter { reach, .. }) = line.remove(place) {
                    self.waiting -= 1;
                    refused.push(Refusal { reach, limit, bound });
                }
            }
            self.refresh(index);
        }
        Outcome { grants: self.serve(), refused }
    }
}
