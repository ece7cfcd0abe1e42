//! Routes of both kinds, as the reconciler handles them.

use std::sync::Arc;

use zms_core::{
    name::ClusterName,
    route::{ChangeId, ClusterSpec, GroupRoute, Source, TopicRoute},
};

use super::snapshot::Nodes;

/// What one complete reading of an entry came to.
#[derive(Debug, Clone)]
pub(super) struct Resolution {
    pub(super) route: Route,
    /// All nodes read for it; `None` for one that does not exist and need not.
    pub(super) nodes: Nodes,
    /// A move of the topic is running.
    pub(super) moving: bool,
}

/// A topic's or a group's route.
#[derive(Debug, Clone)]
pub(super) enum Route {
    Topic(Arc<TopicRoute>),
    Group(Arc<GroupRoute>),
}

impl Route {
    pub(super) fn cluster(&self) -> &ClusterName {
        &self.spec().name
    }

    pub(super) fn changed(&self) -> ChangeId {
        match self {
            Self::Topic(route) => route.changed,
            Self::Group(route) => route.changed,
        }
    }

    pub(super) fn source(&self) -> Source {
        match self {
            Self::Topic(route) => route.source,
            Self::Group(route) => route.source,
        }
    }

    /// Whether whoever follows `self` has nothing to learn from `other`: all is equal but the changes they stem from.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let same_way = self.spec().same_client(other.spec()) && self.source() == other.source();
        same_way
            && match (self, other) {
                (Self::Topic(a), Self::Topic(b)) => {
                    a.topic == b.topic && a.traffic == b.traffic && a.producer == b.producer
                }
                (Self::Group(a), Self::Group(b)) => same_group(a, b),
                _ => false,
            }
    }

    fn spec(&self) -> &ClusterSpec {
        match self {
            Self::Topic(route) => &route.cluster,
            Self::Group(route) => &route.cluster,
        }
    }
}

/// Taken apart field by field, so that a new field cannot be forgotten here.
fn same_group(a: &GroupRoute, b: &GroupRoute) -> bool {
    let GroupRoute {
        group,
        topic,
        cluster: _,
        consume_from,
        broadcast,
        suspended,
        consumer,
        changed: _,
        source: _,
    } = a;
    *group == b.group
        && *topic == b.topic
        && *consume_from == b.consume_from
        && *broadcast == b.broadcast
        && *suspended == b.suspended
        && *consumer == b.consumer
}
