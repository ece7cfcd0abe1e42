//! The routing driver against a real `ZooKeeper`, through a connection that can be cut.

#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use zms_core::{
    name::{GroupName, TopicName},
    route::{Source, TopicRoute},
};
use zms_integration_tests::{
    proxy::Proxy,
    services::{ZooKeeperServer, require_services},
};
use zms_sdk::{
    registry::{
        ZooKeeper, ZooKeeperOptions,
        port::{Registry, RegistryError, SharedRegistry},
    },
    routing::{
        ResolveError,
        probe::{Probe, ProbedTopic},
    },
};

const LIMIT: Duration = Duration::from_secs(60);
/// A busy machine must not lose sessions that are to last, and some are to expire.
const SESSION: Duration = Duration::from_secs(8);

/// A server, an operator beside it, and a client behind a proxy.
struct Estate {
    server: ZooKeeperServer,
    proxy: Proxy,
    operator: ZooKeeper,
}

impl Estate {
    async fn start() -> Self {
        let (server, proxy) = tokio::task::spawn_blocking(|| {
            let server = ZooKeeperServer::start().unwrap();
            let proxy = Proxy::start(server.port()).unwrap();
            (server, proxy)
        })
        .await
        .unwrap();
        let operator = ZooKeeper::connect(ZooKeeperOptions::new(server.connect_string())).await.unwrap();
        let estate = Self { server, proxy, operator };
        estate.put("/zms/cluster/a", "bootAddr=a:9092\nbrokerType=kafka").await;
        estate.put("/zms/cluster/b", "bootAddr=b:9092\nbrokerType=kafka").await;
        estate
    }

    /// Connects in the background, as a process does that must come up without the registry.
    fn client(&self) -> SharedRegistry {
        let options = ZooKeeperOptions::new(self.proxy.address()).session_timeout(SESSION);
        Arc::new(ZooKeeper::start(options).unwrap())
    }

    fn probe(&self) -> Probe {
        Probe::start(self.client(), &self.proxy.address(), None)
    }

    fn keeping(&self, snapshot: &Path) -> Probe {
        Probe::start(self.client(), &self.proxy.address(), Some(snapshot.to_owned()))
    }

    async fn put(&self, path: &str, data: &str) {
        let data = data.to_owned().into_bytes();
        match self.operator.read(path).await.unwrap() {
            Some(node) => drop(self.operator.set(path, data.into(), node.version).await.unwrap()),
            None => self.operator.create(path, data.into()).await.unwrap(),
        }
    }

    async fn topic_on(&self, cluster: &str) {
        self.put("/zms/topic/orders", &format!("clusterName={cluster}\ntype=topic")).await;
    }

    async fn delete_topic(&self) {
        for child in self.registrations().await {
            self.operator.unregister(&format!("/zms/topic/orders/{child}")).await.unwrap();
        }
        let version = self.operator.read("/zms/topic/orders").await.unwrap().expect("exists").version;
        self.operator.delete("/zms/topic/orders", version).await.unwrap();
    }

    async fn registrations(&self) -> Vec<String> {
        self.operator.children("/zms/topic/orders").await.unwrap().unwrap_or_default()
    }

    /// Waits until the only registration is not `earlier`, and gives its change.
    async fn registered_since(&self, earlier: i64) -> i64 {
        let wait = async {
            loop {
                if let [name] = &self.registrations().await[..]
                    && let Some(node) =
                        self.operator.read(&format!("/zms/topic/orders/{name}")).await.unwrap()
                    && node.changed.0 > earlier
                {
                    return node.changed.0;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(LIMIT, wait).await.expect("a registration")
    }

    /// Waits until the server has ended the client's session.
    async fn no_registration_is_left(&self) {
        let wait = async {
            while !self.registrations().await.is_empty() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(LIMIT, wait).await.expect("the old session ended");
    }
}

fn orders() -> TopicName {
    TopicName::new("orders").unwrap()
}

async fn comes_to(topic: &mut ProbedTopic, cluster: &str) -> Arc<TopicRoute> {
    let on = |route: &Option<Arc<TopicRoute>>| {
        route.as_ref().is_some_and(|route| route.cluster.name.as_str() == cluster)
    };
    let found = timeout(LIMIT, topic.routes.wait_for(on)).await;
    found.unwrap_or_else(|_| panic!("the route never led to {cluster}")).unwrap().clone().expect("just seen")
}

#[tokio::test]
async fn a_topic_is_followed_through_deletions_and_new_creations() {
    if !require_services() {
        return;
    }
    let estate = Estate::start().await;
    estate.put("/zms/topic", "").await;
    let probe = estate.probe();
    let error = probe.topic(&orders()).await.unwrap_err();
    assert!(matches!(error, ResolveError::UnknownTopic { .. }), "{error}");

    estate.topic_on("a").await;
    let mut topic = probe.topic(&orders()).await.unwrap();
    comes_to(&mut topic, "a").await;
    for cluster in ["b", "a", "b", "a"] {
        estate.delete_topic().await;
        estate.topic_on(cluster).await;
        comes_to(&mut topic, cluster).await;
        estate.registered_since(0).await;
    }
    probe.close(LIMIT).await;
    assert!(estate.registrations().await.is_empty());
}

#[tokio::test]
async fn a_change_during_a_cut_within_the_session_is_adopted_and_the_registration_stays() {
    if !require_services() {
        return;
    }
    let estate = Estate::start().await;
    estate.topic_on("a").await;
    let probe = estate.probe();
    let mut topic = probe.topic(&orders()).await.unwrap();
    let registered = estate.registered_since(0).await;

    estate.proxy.cut();
    estate.topic_on("b").await;
    sleep(SESSION / 8).await;
    assert_eq!(topic.routes.borrow().as_ref().unwrap().cluster.name.as_str(), "a");
    estate.proxy.restore().unwrap();
    comes_to(&mut topic, "b").await;
    assert!(probe.reconnects() >= 1);
    assert_eq!(estate.registered_since(0).await, registered, "neither deleted nor created");
}

#[tokio::test]
async fn an_expired_session_is_followed_by_a_registration_that_lasts() {
    if !require_services() {
        return;
    }
    let estate = Estate::start().await;
    estate.topic_on("a").await;
    let probe = estate.probe();
    let mut topic = probe.topic(&orders()).await.unwrap();
    let registered = estate.registered_since(0).await;

    estate.proxy.cut();
    estate.no_registration_is_left().await;
    estate.topic_on("b").await;
    estate.proxy.restore().unwrap();
    comes_to(&mut topic, "b").await;
    let again = estate.registered_since(registered).await;
    // Were it a leftover of the old session, the server would remove it in this time.
    sleep(SESSION * 2).await;
    assert_eq!(estate.registered_since(0).await, again);
}

#[tokio::test]
async fn a_start_without_zookeeper_uses_the_snapshot_and_catches_up() {
    if !require_services() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let snapshot = dir.path().join("snapshot.json");
    let estate = Estate::start().await;
    estate.topic_on("a").await;
    estate.put("/zms/consumergroup/billing", "clusterName=a\nbindingTopic=orders").await;
    let group = GroupName::new("billing").unwrap();

    let earlier = estate.keeping(&snapshot);
    let topic = earlier.topic(&orders()).await.unwrap();
    let member = earlier.group(&group).await.unwrap();
    earlier.close(LIMIT).await;
    drop((topic, member, earlier));

    estate.server.kill();
    let probe = estate.keeping(&snapshot);
    let mut topic = probe.topic(&orders()).await.unwrap();
    let mut member = probe.group(&group).await.unwrap();
    assert!(matches!(comes_to(&mut topic, "a").await.source, Source::Snapshot { .. }));
    assert!(matches!(member.routes.borrow_and_update().source, Source::Snapshot { .. }));

    let server = estate.server.clone();
    tokio::task::spawn_blocking(move || server.restart().unwrap()).await.unwrap();
    timeout(LIMIT, async {
        let write = async || -> Result<(), RegistryError> {
            let node = estate.operator.read("/zms/topic/orders").await?.expect("survived");
            let data = "clusterName=b\ntype=topic".into();
            estate.operator.set("/zms/topic/orders", data, node.version).await.map(drop)
        };
        while write().await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("the operator is connected again");
    let route = comes_to(&mut topic, "b").await;
    assert_eq!(route.source, Source::Registry);
    let registry = |route: &Arc<zms_core::route::GroupRoute>| route.source == Source::Registry;
    timeout(LIMIT, member.routes.wait_for(registry)).await.expect("the group catches up").unwrap();
    estate.registered_since(0).await;
}

#[tokio::test]
async fn a_registry_that_stops_answering_keeps_routes_until_it_is_back() {
    if !require_services() {
        return;
    }
    let estate = Estate::start().await;
    estate.topic_on("a").await;
    let probe = estate.probe();
    let mut topic = probe.topic(&orders()).await.unwrap();
    estate.proxy.hang().unwrap();
    estate.topic_on("b").await;
    sleep(SESSION * 2).await;
    assert_eq!(topic.routes.borrow().as_ref().unwrap().cluster.name.as_str(), "a");
    estate.proxy.restore().unwrap();
    comes_to(&mut topic, "b").await;
    estate.registered_since(0).await;
}
