//! What a change of the group's route means.

use std::{sync::Arc, time::Instant};

use tracing::info;
use zms_core::route::GroupRoute;

use super::{Driver, Joined, Station};
use crate::consumer::{closing::SUCCESSION, itinerary::Relation, opening::Away};

impl Driver {
    pub(super) fn news(&mut self) -> Option<Arc<GroupRoute>> {
        // A registry handle that is gone brings no news; the last route stands.
        if !self.route.has_changed().unwrap_or(false) {
            return None;
        }
        let route = Arc::clone(&self.route.borrow_and_update());
        self.latest = Arc::clone(&route);
        Some(route)
    }

    pub(super) fn reroute(&mut self, station: Station, route: Arc<GroupRoute>) -> Station {
        match station {
            Station::Away(away) => Station::Away(self.redirect(away, route)),
            Station::Joined(joined) => self.reconsider(joined, route),
        }
    }

    pub(super) fn redirect(&mut self, away: Away, route: Arc<GroupRoute>) -> Away {
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

    pub(super) fn reconsider(&mut self, mut joined: Box<Joined>, route: Arc<GroupRoute>) -> Station {
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
}
