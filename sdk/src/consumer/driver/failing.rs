//! Clients that cannot be opened, and clients that fail for good.

use std::{sync::Arc, time::Instant};

use tracing::error;

use super::{Driver, Joined, PROVEN, Station};
use crate::{
    consumer::{
        closing::SUCCESSION, context::Phase, error::Fault, health::LastingKind, opening::Away,
        stop::Deadline, switch::Leave,
    },
    engine::port::EngineError,
};

impl Driver {
    pub(super) fn refused(&mut self, mut away: Away, reason: String) -> Station {
        let stats = &self.context.books.stats;
        stats.open_failures.one();
        if away.failures == 0 {
            let (group, cluster) = (&away.target.group, &away.target.cluster.name);
            error!(%group, %cluster, reason, "no client can be opened; trying again, ever more slowly");
        }
        away.put_off();
        let cluster = &away.target.cluster.name;
        self.context.supervision.fail(LastingKind::Refused, cluster, &reason, Instant::now());
        self.context.view().failure = Some(reason.clone());
        self.context.enter(Phase::Refused(reason));
        let hopeless = away.since.elapsed() >= self.options.departure.unreachable;
        match self.itinerary.next_if(hopeless) {
            Some(next) => {
                self.count_switch(&away.target, &next, Leave::Unreachable { left: None });
                Station::Away(Away::towards(next, true))
            }
            None => Station::Away(away),
        }
    }

    pub(super) fn replace(&mut self, joined: Joined, failure: &EngineError) -> Station {
        let Joined { member, since, .. } = joined;
        let (group, cluster) = (&member.route.group, &member.route.cluster.name);
        error!(%group, %cluster, error = %failure, "the client has failed for good; opening another one");
        self.context.books.stats.rebuilds.one();
        self.context.supervision.fail(LastingKind::Fatal, cluster, &failure.reason, Instant::now());
        self.context.view().failure = Some(failure.to_string());
        self.context.enter(Phase::Opening);
        self.fatalities = if since.elapsed() > PROVEN { 0 } else { self.fatalities };
        let mut away = Away::towards(Arc::clone(&member.route), member.moved);
        away.failures = self.fatalities;
        away.put_off();
        self.fatalities = away.failures;
        // Its positions are those last committed: a client that has failed cannot commit.
        let (client, pool) = member.into_parts();
        self.closers.close(client, Instant::now() + SUCCESSION);
        Station::Away(Away { resumes: true, pool: Some(pool), ..away })
    }

    /// The place in the group is another's. Joining again would take it back, and so on for ever: this is the end.
    pub(super) fn fenced(&mut self, joined: Joined, failure: EngineError) -> Station {
        let member = joined.member;
        let (group, cluster) = (&member.route.group, &member.route.cluster.name);
        let instance = self.options.mode.instance.clone().unwrap_or_default();
        let fault = Fault::Fenced { group: group.clone(), instance, reason: failure.reason };
        error!(%group, %cluster, "{fault}; the subscription ends");
        self.context.fail(fault);
        self.context.stop.order(Deadline::after(self.options.drain_limit));
        let away = Away::towards(Arc::clone(&member.route), member.moved);
        let (client, pool) = member.into_parts();
        self.closers.close(client, Instant::now());
        Station::Away(Away { pool: Some(pool), ..away })
    }
}
