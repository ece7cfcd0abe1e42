//! The poll thread: keeps a member on the cluster that the route names.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tracing::{error, info, warn};
use zms_core::route::GroupRoute;

use super::{
    closing::{Closers, SUCCESSION},
    context::{Context, Phase},
    error::Fault,
    itinerary::{Itinerary, Relation},
    member::{Member, Wish},
    observer::Observer,
    opening::Away,
    options::Options,
    pool::{Plan, Pool},
    stop::Deadline,
    switch::{Departure, Leave},
};
use crate::engine::port::{Engine, EngineError, FailureKind};

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

    fn news(&mut self) -> Option<Arc<GroupRoute>> {
        // A registry handle that is gone brings no news; the last route stands.
        if !self.route.has_changed().unwrap_or(false) {
            return None;
        }
        let route = Arc::clone(&self.route.borrow_and_update());
        self.latest = Arc::clone(&route);
        Some(route)
    }

    fn reroute(&mut self, station: Station, route: Arc<GroupRoute>) -> Station {
        match station {
            Station::Away(away) => Station::Away(self.redirect(away, route)),
            Station::Joined(joined) => self.reconsider(joined, route),
        }
    }

    fn redirect(&mut self, away: Away, route: Arc<GroupRoute>) -> Away {
        match Relation::of(&away.target, &route) {
            Relation::Same | Relation::Reopen => {
                self.itinerary.clear();
                away.redirected(route)
            }
            // Messages may wait on the cluster that it was on its way to.
            Relation::Moved if away.resumes || away.moved => {
                self.itinerary.add(route);
                away
            }
            Relation::Moved => Away::towards(route, false),
            Relation::Rebound => {
                self.itinerary.clear();
                Away::towards(route, false)
            }
        }
    }

    fn reconsider(&mut self, mut joined: Box<Joined>, route: Arc<GroupRoute>) -> Station {
        let member = &mut joined.member;
        let group = &route.group;
        match Relation::of(&member.route, &route) {
            Relation::Same => {
                if joined.departure.take().is_some() {
                    info!(%group, cluster = %route.cluster.name, "the group's route is back on this cluster; staying");
                }
                self.itinerary.clear();
                member.route = route;
                Station::Joined(joined)
            }
            Relation::Moved => {
                info!(%group, from = %member.route.cluster.name, to = %route.cluster.name,
                      "the group moves; what is left on the old cluster is handled first");
                self.itinerary.add(route);
                Station::Joined(joined)
            }
            Relation::Reopen => {
                info!(%group, cluster = %route.cluster.name, "the cluster's settings changed; connecting anew");
                self.itinerary.clear();
                self.context.books.stats.rebuilds.one();
                let moved = joined.member.moved;
                let pool = self.leave(joined.member, Instant::now() + SUCCESSION);
                Station::Away(Away { resumes: true, pool: Some(pool), ..Away::towards(route, moved) })
            }
            Relation::Rebound => {
                info!(%group, from = %member.route.topic, to = %route.topic, "the group is bound to another topic");
                self.itinerary.clear();
                drop(self.leave(joined.member, Instant::now()));
                Station::Away(Away::towards(route, false))
            }
        }
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

    fn refused(&mut self, mut away: Away, reason: String) -> Station {
        let stats = &self.context.books.stats;
        stats.open_failures.one();
        if away.failures == 0 {
            let (group, cluster) = (&away.target.group, &away.target.cluster.name);
            error!(%group, %cluster, reason, "no client can be opened; trying again, ever more slowly");
        }
        away.put_off();
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
            self.context.enter(Phase::Running);
        }
        match self.may_leave(&mut joined) {
            Some(leave) => self.depart(*joined, leave),
            None => Station::Joined(joined),
        }
    }

    fn replace(&mut self, joined: Joined, failure: &EngineError) -> Station {
        let Joined { member, since, .. } = joined;
        let (group, cluster) = (&member.route.group, &member.route.cluster.name);
        error!(%group, %cluster, error = %failure, "the client has failed for good; opening another one");
        self.context.books.stats.rebuilds.one();
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
    fn fenced(&mut self, joined: Joined, failure: EngineError) -> Station {
        let member = joined.member;
        let (group, cluster) = (&member.route.group, &member.route.cluster.name);
        let instance = self.options.mode.instance.clone().unwrap_or_default();
        let fault = Fault::Fenced { group: group.clone(), instance, reason: failure.reason };
        error!(%group, %cluster, "{fault}; the subscription ends");
        self.context.view().failure = Some(fault.to_string());
        // Set once: there is no turn after this one.
        let _ = self.context.fault.set(fault);
        self.context.stop.order(Deadline::after(self.options.drain_limit));
        let away = Away::towards(Arc::clone(&member.route), member.moved);
        let (client, pool) = member.into_parts();
        self.closers.close(client, Instant::now());
        Station::Away(Away { pool: Some(pool), ..away })
    }

    fn may_leave(&self, joined: &mut Joined) -> Option<Leave> {
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

    fn depart(&mut self, joined: Joined, leave: Leave) -> Station {
        let Some(next) = self.itinerary.next() else { return Station::Joined(Box::new(joined)) };
        self.count_switch(&joined.member.route, &next, leave);
        let mut member = joined.member;
        self.wind_up(&mut member);
        if !matches!(leave, Leave::Unreachable { .. }) {
            member.last_commit();
        }
        let (client, _) = member.into_parts();
        self.closers.close(client, Instant::now());
        self.context.enter(Phase::Opening);
        Station::Away(Away::towards(next, true))
    }

    fn count_switch(&self, from: &GroupRoute, to: &GroupRoute, leave: Leave) {
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
    fn leave(&mut self, mut member: Member, patience: Instant) -> Pool {
        self.wind_up(&mut member);
        member.last_commit();
        let (client, pool) = member.into_parts();
        self.closers.close(client, patience);
        pool
    }

    fn wind_up(&self, member: &mut Member) {
        let stop = &self.context.stop;
        let limit = Instant::now() + self.options.drain_limit;
        let left = member.wind_up(|| stop.deadline().map_or(limit, |deadline| limit.min(deadline.handlers)));
        if left > 0 {
            self.context.books.stats.drain_timeouts.one();
            warn!(group = %member.route.group, cluster = %member.route.cluster.name, handlers = left,
                  "leaving the cluster while handlers still run; their messages are not committed");
        }
    }

    fn end(mut self, station: Station) -> usize {
        let stop = &self.context.stop;
        let fallback = Instant::now();
        let end = || stop.deadline().map_or(fallback, |deadline| deadline.end);
        let mut left = 0;
        if let Station::Joined(joined) = station {
            let mut member = joined.member;
            left = member.wind_up(|| stop.deadline().map_or(fallback, |deadline| deadline.handlers));
            member.last_commit();
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
        let mut view = self.context.view();
        view.route = self.latest.cluster.name.clone();
        let (route, holdings) = match station {
            Station::Away(away) => (&away.target, None),
            Station::Joined(joined) => (&joined.member.route, Some(&joined.member.holdings)),
        };
        view.cluster = route.cluster.name.clone();
        view.topic = route.topic.clone();
        view.holdings = holdings.cloned();
        if let Station::Joined(joined) = station {
            view.failure = joined.member.failure().map(ToString::to_string);
        }
    }
}

/// Says at its end that the subscription is closed. Whatever ends the poll thread, a panic in a client included, those
/// who wait must learn of it.
pub(super) struct ClosedAtLast {
    context: Arc<Context>,
    running: usize,
}

impl ClosedAtLast {
    pub(super) fn of(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), running: 0 }
    }

    /// Handlers left running.
    pub(super) fn running(&mut self, running: usize) {
        self.running = running;
    }
}

impl Drop for ClosedAtLast {
    fn drop(&mut self) {
        if thread::panicking() {
            error!(group = %self.context.group, "the poll thread panicked; the subscription has ended");
        }
        self.context.orders.close();
        self.context.enter(Phase::Closed(self.running));
    }
}
