//! The routing driver by itself, for tests that run it against a real registry. No part of the product's interface.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::watch;
use zms_core::{
    name::{GroupName, TopicName},
    route::{GroupRoute, TopicRoute},
};

use super::{GroupLease, ResolveError, Router, RoutingConfig, TopicLease};
use crate::{
    producer::sink::TopicSink,
    registry::port::{BoxFuture, SharedRegistry},
};

/// Follows a registry and shows the routes that would be followed.
#[derive(Debug)]
pub struct Probe {
    router: Arc<Router>,
}

impl Probe {
    /// Starts with short limits.
    pub fn start(registry: SharedRegistry, connect: &str, snapshot: Option<PathBuf>) -> Self {
        let config = RoutingConfig {
            addresses: vec!["10.0.0.1".to_owned()],
            resolve_timeout: Duration::from_secs(15),
            offline_grace: Duration::from_secs(1),
            // Out of the way: what is to be seen must not come from it.
            reread_every: Duration::from_secs(3600),
            snapshot,
            ..RoutingConfig::new(connect, "probe")
        };
        Self { router: Router::start(registry, config) }
    }

    /// As a producer of the topic.
    ///
    /// # Errors
    /// [`ResolveError`], as a producer gets it.
    pub async fn topic(&self, topic: &TopicName) -> Result<ProbedTopic, ResolveError> {
        let sink = Arc::new(Shown { routes: watch::Sender::new(None) });
        let routes = sink.routes.subscribe();
        let lease = self.router.topic(topic, sink).await?;
        Ok(ProbedTopic { routes, _lease: lease })
    }

    /// As a member of the group.
    ///
    /// # Errors
    /// [`ResolveError`], as a subscription gets it.
    pub async fn group(&self, group: &GroupName) -> Result<ProbedGroup, ResolveError> {
        let lease = self.router.group(group).await?;
        Ok(ProbedGroup { routes: lease.routes.clone(), _lease: lease })
    }

    /// Connections after the first.
    pub fn reconnects(&self) -> u64 {
        self.router.inspect().counters.reconnects
    }

    /// Leaves the registry and writes the snapshot.
    pub async fn close(&self, limit: Duration) {
        self.router.close(limit).await;
    }
}

/// A topic in use. Dropping it leaves the registry in the background.
#[derive(Debug)]
pub struct ProbedTopic {
    /// The route adopted last.
    pub routes: watch::Receiver<Option<Arc<TopicRoute>>>,
    _lease: TopicLease,
}

/// A group in use. Dropping it leaves the registry in the background.
#[derive(Debug)]
pub struct ProbedGroup {
    /// The route adopted last.
    pub routes: watch::Receiver<Arc<GroupRoute>>,
    _lease: GroupLease,
}

struct Shown {
    routes: watch::Sender<Option<Arc<TopicRoute>>>,
}

impl TopicSink for Shown {
    fn adopt(self: Arc<Self>, route: Arc<TopicRoute>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.routes.send_replace(Some(route));
        })
    }
}
