//! Changing a topic's route: from the old client to the new one, with order kept and nobody told "closed".

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout_at};
use zms_core::route::{TopicRoute, Traffic};

use super::{
    clients::{ClientKey, Lease, NoClient},
    holding::Why,
    profile::{ProducerConfigError, Settings},
    stats::Counters,
    topic::{Active, Link, Topic},
};

/// What the one that changes a topic's route knows.
#[derive(Default)]
pub(super) struct Turn {
    /// The route adopted last, whether or not it could be followed.
    wanted: Option<Arc<TopicRoute>>,
    /// Messages still in flight on earlier clients.
    left_behind: Vec<Arc<AtomicUsize>>,
}

impl Topic {
    /// Follows a route. Ends when sends do.
    pub(super) async fn adopt(self: Arc<Self>, route: Arc<TopicRoute>) {
        let mut turn = self.turn.lock().await;
        turn.wanted = Some(route.clone());
        if !self.follows(&route) {
            self.follow(&mut turn, route).await;
        }
    }

    /// Tries again to follow the route, if its client failed or could not be opened.
    pub(super) async fn recover(self: Arc<Self>) {
        let mut turn = self.turn.lock().await;
        let Some(route) = turn.wanted.clone() else { return };
        if self.client_has_failed() || !self.follows(&route) {
            self.follow(&mut turn, route).await;
        }
    }

    /// Whether [`recover`](Self::recover) is called for: at once when the client failed, at a `retry` also when the
    /// route could not be followed.
    pub(super) fn needs_recovery(&self, retry: bool) -> bool {
        if self.client_has_failed() {
            return true;
        }
        // Whoever has the turn now is following a route anyway.
        let Some(turn) = self.turn.try_lock().ok().filter(|_| retry) else { return false };
        turn.wanted.as_ref().is_some_and(|route| route.traffic == Traffic::Open && !self.follows(route))
    }

    fn client_has_failed(&self) -> bool {
        self.active.load().as_ref().is_some_and(|active| active.link.lease.has_failed())
    }

    /// Whether sends follow this route already.
    fn follows(&self, route: &TopicRoute) -> bool {
        self.why() == Why::Open && self.active.load().as_ref().is_some_and(|active| *active.route == *route)
    }

    async fn follow(self: &Arc<Self>, turn: &mut Turn, route: Arc<TopicRoute>) {
        if let Traffic::Held { reason } = &route.traffic {
            self.hold(Why::Route(reason.clone()));
            return;
        }
        let settings = match self.settings(&route) {
            Ok(settings) => settings,
            Err(error) => return self.unusable(&route, error.to_string()).await,
        };
        let key = ClientKey { cluster: route.cluster.clone(), properties: settings.properties.clone() };
        match self.core.clients.lease(key).await {
            Ok(lease) => self.change(turn, Active { route, settings, link: self.link(lease) }).await,
            // Nothing is taken or held any more.
            Err(NoClient::Closed) => {}
            Err(error) => self.unusable(&route, error.to_string()).await,
        }
    }

    /// The new client is there; sends move over to it.
    async fn change(self: &Arc<Self>, turn: &mut Turn, next: Active) {
        let current = self.active.load_full();
        if let Some(current) = current.filter(|current| !Arc::ptr_eq(&current.link, &next.link)) {
            self.warm(&next).await;
            self.leave(turn, &current, &next).await;
            Counters::count(&self.core.counters.switches);
        }
        self.account.house(next.cluster());
        self.active.store(Some(Arc::new(next)));
        self.release().await;
    }

    /// Holds new sends and waits until those on the current client have their reports, or none come any more.
    async fn leave(&self, turn: &mut Turn, current: &Active, next: &Active) {
        self.hold(Why::Switching(next.cluster().clone()));
        // Those who wait for room do not wait for the old cluster any more.
        self.account.house(next.cluster());
        turn.left_behind.retain(|count| count.load(Ordering::Acquire) > 0);
        let Err(in_flight) = self.reported(turn, current.settings.linger).await else { return };
        let counters = &self.core.counters;
        Counters::count(&counters.late_switches);
        counters.left_behind.fetch_add(u64::try_from(in_flight).unwrap_or(u64::MAX), Ordering::Relaxed);
        turn.left_behind.push(current.link.in_flight.clone());
        self.account.renew();
        tracing::warn!(
            topic = %self.name, from = %current.cluster(), to = %next.cluster(), in_flight,
            "changing cluster without the reports of all messages: those may be reordered against later ones"
        );
    }

    /// Waits until nothing is in flight on the current client. The number still there when no report has come for
    /// the stall limit, or the whole limit has passed.
    async fn reported(&self, turn: &Turn, linger: Duration) -> Result<(), usize> {
        let options = &self.core.config.options;
        let stall = options.switch_stall + linger;
        let limit = Instant::now() + options.switch_limit.max(stall);
        let (mut least, mut patience) = (usize::MAX, limit);
        loop {
            let report = self.reports.notified();
            tokio::pin!(report);
            report.as_mut().enable();
            let in_flight = self.in_flight_here(turn);
            if in_flight == 0 {
                return Ok(());
            }
            if in_flight < least {
                least = in_flight;
                patience = limit.min(Instant::now() + stall);
            }
            if timeout_at(patience, report).await.is_err() {
                return Err(in_flight);
            }
        }
    }

    /// Messages in flight but for those left behind on earlier clients. The gate is read first: see [`InFlight`].
    ///
    /// [`InFlight`]: super::report::InFlight
    fn in_flight_here(&self, turn: &Turn) -> usize {
        let all = self.gate.in_flight();
        let elsewhere = turn.left_behind.iter().map(|count| count.load(Ordering::Acquire));
        all.saturating_sub(elsewhere.sum::<usize>())
    }

    /// Fetches the topic's metadata by a client, so that the first send through it does not wait for that.
    pub(super) async fn warm(&self, next: &Active) {
        let (client, name) = (next.link.lease.client().clone(), self.name.clone());
        let limit = self.core.config.options.warm_limit;
        let warming = self.core.runtime.spawn_blocking(move || client.warm(&name, limit));
        match timeout_at(Instant::now() + limit * 2, warming).await {
            Ok(Ok(Ok(_))) => {}
            Ok(Ok(Err(error))) => {
                tracing::warn!(topic = %self.name, cluster = %next.cluster(), %error, "the cluster does not know the topic, or does not answer");
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(topic = %self.name, cluster = %next.cluster(), "the cluster's client does not answer");
            }
        }
    }

    /// No client can be had for a route. A client that serves the same cluster goes on; otherwise sends fail, for
    /// on another cluster nobody would look for the messages.
    async fn unusable(self: &Arc<Self>, route: &TopicRoute, reason: String) {
        let cluster = &route.cluster.name;
        let known = matches!(self.why(), Why::Unusable { reason: before, .. } if before == reason);
        let keeps = !self.client_has_failed() && self.cluster().is_some_and(|current| current == *cluster);
        if !known {
            Counters::count(&self.core.counters.unusable);
            tracing::error!(topic = %self.name, %cluster, %reason, keeps_old_client = keeps, "no client can be opened");
        }
        if keeps {
            self.release().await;
        } else {
            self.give_up(cluster, reason);
        }
    }

    fn settings(&self, route: &TopicRoute) -> Result<Settings, ProducerConfigError> {
        let config = &self.core.config;
        let wish = config.options.wish.with_overrides(&route.producer, |name| {
            tracing::warn!(topic = %self.name, name, "the registry has a producer setting that is not known; passed over");
        })?;
        wish.settle(&route.cluster.properties, self.core.pool.largest())
    }

    /// The topic's use of a client: the present one, if it is the same client.
    fn link(&self, lease: Lease) -> Arc<Link> {
        let current = self.active.load();
        match current.as_ref() {
            Some(active) if active.link.lease.same_client(&lease) => active.link.clone(),
            _ => Arc::new(Link { lease, in_flight: Arc::default() }),
        }
    }
}
