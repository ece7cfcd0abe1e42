//! What an entry is about: a topic with the producers that follow it, a topic that is read without a group, or a group
//! with its subscription.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::sync::watch;
use zms_core::{
    name::{GroupName, TopicName},
    path,
    registration::Role,
    route::{ConsumeFrom, GroupRoute, TopicRoute},
};

use super::{ResolveError, route::Route};
use crate::producer::sink::TopicSink;

pub(super) enum Subject {
    Topic {
        topic: TopicName,
        sink: Arc<dyn TopicSink>,
    },
    Group {
        group: GroupName,
        /// Set by the first adoption, so that whoever has the receiver always finds a route in it.
        routes: OnceLock<watch::Sender<Arc<GroupRoute>>>,
    },
    /// Not registered: no move of the topic waits for such a reader.
    Reader {
        topic: TopicName,
        /// What stands for the group: a name of its own, which no entry of the registry has to have.
        group: GroupName,
        /// As of a group.
        routes: OnceLock<watch::Sender<Arc<GroupRoute>>>,
    },
}

impl Subject {
    pub(super) fn topic(topic: TopicName, sink: Arc<dyn TopicSink>) -> Self {
        Self::Topic { topic, sink }
    }

    pub(super) fn group(group: GroupName) -> Self {
        Self::Group { group, routes: OnceLock::new() }
    }

    pub(super) fn reader(topic: TopicName, group: GroupName) -> Self {
        Self::Reader { topic, group, routes: OnceLock::new() }
    }

    /// Hands a route of this subject's kind over; ends when it is in force.
    pub(super) async fn push(&self, route: &Route) {
        match (self, route) {
            (Self::Topic { sink, .. }, Route::Topic(route)) => {
                Arc::clone(sink).adopt(Arc::clone(route)).await;
            }
            (Self::Group { routes, .. }, Route::Group(route)) => {
                show(routes, Arc::clone(route));
            }
            (Self::Reader { group, routes, .. }, Route::Topic(route)) => {
                show(routes, Arc::new(read_alone(group, route)));
            }
            _ => debug_assert!(false, "a subject is resolved to routes of its own kind"),
        }
    }

    /// Where a subscription finds its routes.
    pub(super) fn routes(&self) -> Option<watch::Receiver<Arc<GroupRoute>>> {
        match self {
            Self::Topic { .. } => None,
            Self::Group { routes, .. } | Self::Reader { routes, .. } => Some(routes.get()?.subscribe()),
        }
    }

    /// Whether operators see its client in the registry.
    pub(super) fn is_visible(&self) -> bool {
        !matches!(self, Self::Reader { .. })
    }

    /// The path of its node.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Topic { topic, .. } | Self::Reader { topic, .. } => path::topic(topic),
            Self::Group { group, .. } => path::group(group),
        }
    }

    /// Its name in the registry.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Topic { topic, .. } | Self::Reader { topic, .. } => topic.as_str(),
            Self::Group { group, .. } => group.as_str(),
        }
    }

    /// What its client does.
    pub(super) fn role(&self) -> Role {
        match self {
            Self::Topic { .. } => Role::Producer,
            Self::Group { .. } | Self::Reader { .. } => Role::Member,
        }
    }

    pub(super) fn unknown(&self, waited: Duration) -> ResolveError {
        match self {
            Self::Topic { topic, .. } | Self::Reader { topic, .. } => {
                ResolveError::UnknownTopic { topic: topic.to_string(), waited }
            }
            Self::Group { group, .. } => ResolveError::UnknownGroup { group: group.to_string(), waited },
        }
    }
}

fn show(routes: &OnceLock<watch::Sender<Arc<GroupRoute>>>, route: Arc<GroupRoute>) {
    let sender = routes.get_or_init(|| watch::channel(Arc::clone(&route)).0);
    sender.send_replace(route);
}

/// A topic's route as a group's that reads it and has no entry: whatever its producers do now, what is there is read.
fn read_alone(group: &GroupName, route: &TopicRoute) -> GroupRoute {
    GroupRoute {
        group: group.clone(),
        topic: route.topic.clone(),
        cluster: Arc::clone(&route.cluster),
        consume_from: ConsumeFrom::Earliest,
        broadcast: false,
        suspended: false,
        consumer: BTreeMap::new(),
        changed: route.changed,
        source: route.source,
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic { topic, .. } | Self::Reader { topic, .. } => write!(f, "topic {topic}"),
            Self::Group { group, .. } => write!(f, "group {group}"),
        }
    }
}
