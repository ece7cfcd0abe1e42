//! Leaving a cluster.

use std::time::Instant;

use tracing::{error, info, warn};
use zms_core::route::GroupRoute;

use super::{Driver, Joined, READING_INTERVAL, READING_LIMIT, Station};
use crate::consumer::{
    context::Phase, member::Member, observer::Observer, opening::Away, pool::Pool, switch::Leave,
};

impl Driver {
    pub(super) fn may_leave(&self, joined: &mut Joined) -> Option<Leave> {
        let departure = joined.departure.as_mut()?;
        let now = Instant::now();
        if self.latest.suspended || self.context.books.pauses.now().is_any() {
            departure.hold(now);
        }
        if now < joined.next_reading {
            return None;
        }
        let reading = match joined.observer.take() {
            Some(observer) => Ok(observer),
            None => Observer::open(&*self.engine, &joined.member.route, &self.options.mode),
        };
        let holdings = &joined.member.holdings;
        let reading =
            reading.and_then(|observer| joined.observer.insert(observer).look(holdings, READING_LIMIT));
        joined.next_reading = Instant::now() + READING_INTERVAL;
        departure.observe(Instant::now(), reading)
    }

    pub(super) fn depart(&mut self, joined: Joined, leave: Leave) -> Station {
        let Some(next) = self.itinerary.next() else { return Station::Joined(Box::new(joined)) };
        self.count_switch(&joined.member.route, &next, leave);
        let mut member = joined.member;
        self.wind_up(&mut member);
        if !matches!(leave, Leave::Unreachable { .. }) {
            self.last_commit(&mut member);
        }
        let (client, _) = member.into_parts();
        self.closers.close(client, Instant::now());
        self.context.enter(Phase::Opening);
        Station::Away(Away::towards(next, true))
    }

    pub(super) fn count_switch(&self, from: &GroupRoute, to: &GroupRoute, leave: Leave) {
        let stats = &self.context.books.stats;
        stats.switches.one();
        let (group, from, to) = (&from.group, &from.cluster.name, &to.cluster.name);
        if leave == Leave::Drained {
            info!(%group, %from, %to, "moving to the new cluster: {leave}");
        } else {
            stats.forced_switches.one();
            error!(%group, %from, %to, "moving to the new cluster although the old one is not finished: {leave}");
        }
    }

    /// Ends a membership in good order; waits for the client's end at most until `patience` ends.
    pub(super) fn leave(&mut self, mut member: Member, patience: Instant) -> Pool {
        self.wind_up(&mut member);
        self.last_commit(&mut member);
        let (client, pool) = member.into_parts();
        self.closers.close(client, patience);
        pool
    }

    pub(super) fn wind_up(&self, member: &mut Member) {
        let left = member.wind_up(self.drained_by());
        if left > 0 {
            self.context.books.stats.drain_timeouts.one();
            warn!(group = %member.route.group, cluster = %member.route.cluster.name, handlers = left,
                  "leaving the cluster while handlers still run; their messages are not committed");
        }
    }

    fn last_commit(&self, member: &mut Member) {
        member.last_commit(self.drained_by());
    }

    /// When a member that leaves, but not for good, waits no longer for what is under way.
    fn drained_by(&self) -> impl Fn() -> Instant {
        let stop = &self.context.stop;
        let limit = Instant::now() + self.options.drain_limit;
        move || stop.deadline().map_or(limit, |deadline| limit.min(deadline.handlers))
    }
}
