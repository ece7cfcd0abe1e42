//! The poll thread: keeps a member on the cluster that the route names.

mod failing;
mod last;
mod leaving;
mod rerouting;

pub(super) use last::ClosedAtLast;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::watch;
use tracing::warn;
use zms_core::route::GroupRoute;

use super::{
    closing::Closers,
    context::{Context, Phase},
    itinerary::Itinerary,
    member::{Member, Wish},
    observer::Observer,
    opening::Away,
    options::Options,
    pool::Plan,
    switch::Departure,
};
use crate::engine::port::{Engine, FailureKind};

/// How often the order to stop and the route are looked at while no client is open.
const LOOK: Duration = Duration::from_millis(50);
/// Between two looks at the old cluster while the group moves.
const READING_INTERVAL: Duration = Duration::from_millis(500);
/// Limit on each question of a reading.
const READING_LIMIT: Duration = Duration::from_secs(2);
/// A client that worked for this long did not fail because of how it was opened.
const PROVEN: Duration = Duration::from_secs(60);

pub(super) struct Driver {
    context: Arc<Context>,
    engine: Arc<dyn Engine>,
    options: Options,
    plan: Plan,
    route: watch::Receiver<Arc<GroupRoute>>,
    latest: Arc<GroupRoute>,
    itinerary: Itinerary,
    closers: Closers,
    /// Clients in a row that failed for good.
    fatalities: u32,
}

enum Station {
    Away(Away),
    Joined(Box<Joined>),
}

struct Joined {
    member: Member,
    since: Instant,
    departure: Option<Departure>,
    /// Opened for the first look at the cluster that is to be left.
    observer: Option<Observer>,
    next_reading: Instant,
}

impl Driver {
    pub(super) fn new(
        context: Arc<Context>,
        engine: Arc<dyn Engine>,
        (options, plan): (Options, Plan),
        mut route: watch::Receiver<Arc<GroupRoute>>,
    ) -> Self {
        let latest = Arc::clone(&route.borrow_and_update());
        let (itinerary, closers) = (Itinerary::default(), Closers::default());
        Self { context, engine, options, plan, route, latest, itinerary, closers, fatalities: 0 }
    }

    /// Runs until the order to stop, and leaves the group; how many handlers still run.
    pub(super) fn run(mut self) -> usize {
        let mut station = Station::Away(Away::towards(Arc::clone(&self.latest), false));
        while self.context.stop.deadline().is_none() {
            if let Some(route) = self.news() {
                station = self.reroute(station, route);
            }
            station = match station {
                Station::Away(away) => self.try_open(away),
                Station::Joined(joined) => self.turn(joined),
            };
            self.show(&station);
        }
        self.end(station)
    }

    fn try_open(&mut self, mut away: Away) -> Station {
        while let Some(order) = self.context.orders.next() {
            order.refuse(&self.context.group);
        }
        if Instant::now() < away.not_before || !self.closers.have_room() {
            self.context.stop.wait(LOOK);
            return Station::Away(away);
        }
        let pool = match away.pool.take() {
            Some(pool) => Ok(pool),
            None => self.context.crew.start(&self.plan).map_err(|e| format!("no thread for a worker: {e}")),
        };
        let opened = pool.and_then(|pool| match away.open(&*self.engine, &self.options, &self.context) {
            Ok((client, holdings)) => Ok((client, holdings, pool)),
            Err(reason) => {
                away.pool = Some(pool);
                Err(reason)
            }
        });
        match opened {
            Ok((client, holdings, pool)) => {
                let limits = self.options.limits();
                let member = Member::new((away.target, away.moved), client, holdings, pool, limits);
                let now = Instant::now();
                self.context.enter(Phase::Joining);
                Station::Joined(Box::new(Joined {
                    member,
                    since: now,
                    departure: None,
                    observer: None,
                    next_reading: now,
                }))
            }
            Err(reason) => self.refused(away, reason),
        }
    }

    fn turn(&mut self, mut joined: Box<Joined>) -> Station {
        let moving = !self.itinerary.is_empty();
        if moving {
            // From now on: a turn may itself wait long for an old cluster that does not answer.
            let (now, limits) = (Instant::now(), self.options.departure);
            joined.departure.get_or_insert_with(|| Departure::new(now, limits));
        }
        let wish = Wish { leaving: false, suspended: self.latest.suspended, hurry: moving };
        while let Some(order) = self.context.orders.next() {
            joined.member.obey(order, wish);
        }
        if let Err(error) = joined.member.turn(wish) {
            return match error.kind {
                FailureKind::Fenced => self.fenced(*joined, error),
                _ => self.replace(*joined, &error),
            };
        }
        if joined.member.holdings.is_joined() {
            // First, so that whoever waited for it finds it healthy.
            self.context.view().has_run = true;
            self.context.enter(Phase::Running);
        }
        match self.may_leave(&mut joined) {
            Some(leave) => self.depart(*joined, leave),
            None => Station::Joined(joined),
        }
    }

    fn end(mut self, station: Station) -> usize {
        let stop = &self.context.stop;
        let fallback = Instant::now();
        let end = || stop.deadline().map_or(fallback, |deadline| deadline.end);
        let mut left = 0;
        if let Station::Joined(joined) = station {
            let mut member = joined.member;
            let handlers = || stop.deadline().map_or(fallback, |deadline| deadline.handlers);
            left = member.wind_up(handlers);
            member.last_commit(handlers);
            let (client, pool) = member.into_parts();
            self.closers.close(client, end());
            pool.abort();
        }
        if !self.closers.finish(end()) {
            warn!(group = %self.context.group, "clients are still closing; they go on in the background");
        }
        left
    }

    fn show(&self, station: &Station) {
        let now = Instant::now();
        if let Station::Joined(joined) = station {
            let Member { route, holdings, .. } = &joined.member;
            let error = joined.member.failure();
            // A failure of the client before lasts until this one has its place.
            if error.is_some() || holdings.is_joined() {
                self.context.supervision.watch(&route.cluster.name, error, now);
            }
        }
        let mut view = self.context.view();
        view.seen = (now, SystemTime::now());
        view.route = self.latest.cluster.name.clone();
        let (route, holdings) = match station {
            Station::Away(away) => (&away.target, None),
            Station::Joined(joined) => (&joined.member.route, Some(&joined.member.holdings)),
        };
        view.cluster = route.cluster.name.clone();
        view.topic = route.topic.clone();
        view.holdings = holdings.cloned();
        if let Station::Joined(joined) = station {
            view.failure = joined.member.failure().map(|(error, _)| error.to_string());
        }
        if holdings.is_some_and(|holdings| holdings.is_joined()) {
            (view.has_run, view.without) = (true, None);
        } else {
            view.without.get_or_insert_with(SystemTime::now);
        }
    }
}
