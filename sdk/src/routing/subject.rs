//! What an entry is about: a topic with the producers that follow it, or a group with its subscription.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::sync::watch;
use zms_core::{
    name::{GroupName, TopicName},
    path,
    registration::Role,
    route::GroupRoute,
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
}

impl Subject {
    pub(super) fn topic(topic: TopicName, sink: Arc<dyn TopicSink>) -> Self {
        Self::Topic { topic, sink }
    }

    pub(super) fn group(group: GroupName) -> Self {
        Self::Group { group, routes: OnceLock::new() }
    }

    /// Hands a route of this subject's kind over; ends when it is in force.
    pub(super) async fn push(&self, route: &Route) {
        match (self, route) {
            (Self::Topic { sink, .. }, Route::Topic(route)) => {
                Arc::clone(sink).adopt(Arc::clone(route)).await;
            }
            (Self::Group { routes, .. }, Route::Group(route)) => {
                let sender = routes.get_or_init(|| watch::channel(Arc::clone(route)).0);
                sender.send_replace(Arc::clone(route));
            }
            _ => debug_assert!(false, "a subject is resolved to routes of its own kind"),
        }
    }

    /// The path of its node.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Topic { topic, .. } => path::topic(topic),
            Self::Group { group, .. } => path::group(group),
        }
    }

    /// Its name in the registry.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Topic { topic, .. } => topic.as_str(),
            Self::Group { group, .. } => group.as_str(),
        }
    }

    /// What its client does.
    pub(super) fn role(&self) -> Role {
        match self {
            Self::Topic { .. } => Role::Producer,
            Self::Group { .. } => Role::Member,
        }
    }

    pub(super) fn unknown(&self, waited: Duration) -> ResolveError {
        match self {
            Self::Topic { topic, .. } => ResolveError::UnknownTopic { topic: topic.to_string(), waited },
            Self::Group { group, .. } => ResolveError::UnknownGroup { group: group.to_string(), waited },
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic { topic, .. } => write!(f, "topic {topic}"),
            Self::Group { group, .. } => write!(f, "group {group}"),
        }
    }
}
