//! A registry whose every call can be seen and spoilt, sinks that record, and waiting on conditions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, watch};
use zms_core::{
    name::{GroupName, TopicName},
    route::TopicRoute,
};

use crate::{
    producer::sink::TopicSink,
    registry::{
        MemoryRegistry,
        port::{BoxFuture, ChangeListener, Node, Op, Registry, RegistryError, Session, SharedRegistry},
    },
    routing::{Router, RoutingConfig},
};

pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `condition` holds; fails the test when it does not in two minutes of virtual time.
pub(super) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, wait).await.is_ok(), "never came: {what}");
}

/// Lets everything run that can run without anything happening outside, short of the periodic re-read.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

pub(super) fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

pub(super) fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

pub(super) fn config() -> RoutingConfig {
    RoutingConfig { addresses: vec!["10.0.0.1".to_owned()], ..RoutingConfig::new("memory", "tests") }
}

/// An operator who writes nodes whatever stands there.
pub(super) struct Operator(pub(super) MemoryRegistry);

impl Operator {
    /// An operator of a registry with clusters `a` and `b`.
    pub(super) async fn with_clusters() -> Self {
        let operator = Self(MemoryRegistry::new());
        operator.put("/zms/cluster/a", "bootAddr=a:9092\nbrokerType=kafka").await;
        operator.put("/zms/cluster/b", "bootAddr=b:9092\nbrokerType=kafka").await;
        operator.put("/zms/topic", "").await;
        operator.put("/zms/consumergroup", "").await;
        operator
    }

    pub(super) async fn put(&self, path: &str, data: &str) {
        let data = Bytes::copy_from_slice(data.as_bytes());
        match self.0.read(path).await.unwrap() {
            Some(node) => drop(self.0.set(path, data, node.version).await.unwrap()),
            None => self.0.create(path, data).await.unwrap(),
        }
    }

    pub(super) async fn topic_on(&self, name: &str, cluster: &str) {
        self.put(&format!("/zms/topic/{name}"), &format!("clusterName={cluster}\ntype=topic")).await;
    }

    /// Deletes a node with all its children.
    pub(super) async fn delete(&self, path: &str) {
        for child in self.children(path).await {
            self.0.unregister(&format!("{path}/{child}")).await.unwrap();
        }
        let version = self.0.read(path).await.unwrap().expect("to be deleted").version;
        self.0.delete(path, version).await.unwrap();
    }

    pub(super) async fn children(&self, path: &str) -> Vec<String> {
        self.0.children(path).await.unwrap().unwrap_or_default()
    }

    /// Waits until a node has this many children.
    pub(super) async fn sees_children(&self, path: &str, number: usize) -> Vec<String> {
        let wait = async {
            loop {
                let children = self.children(path).await;
                if children.len() == number {
                    return children;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, wait)
            .await
            .unwrap_or_else(|_| panic!("{path} never had {number} children"))
    }

    /// A client with a session of its own, all calls of which can be spoilt.
    pub(super) fn client(&self) -> Arc<Spoilt> {
        Spoilt::new(self.0.connect())
    }
}

/// Passes all calls on, but for what a test ordered.
#[derive(Debug)]
pub(super) struct Spoilt {
    pub(super) inner: MemoryRegistry,
    calls: Mutex<Vec<String>>,
    stalled: Mutex<BTreeSet<String>>,
    answers: Mutex<BTreeMap<String, Result<Option<Node>, RegistryError>>>,
    expire_at: Mutex<Option<(String, String)>>,
    refuse_registration: AtomicBool,
    lose_events: AtomicBool,
    released: Notify,
    pub(super) under_way: AtomicUsize,
    pub(super) most_under_way: AtomicUsize,
}

impl Spoilt {
    pub(super) fn new(inner: MemoryRegistry) -> Arc<Self> {
        Arc::new(Self {
            inner,
            calls: Mutex::default(),
            stalled: Mutex::default(),
            answers: Mutex::default(),
            expire_at: Mutex::default(),
            refuse_registration: AtomicBool::new(false),
            lose_events: AtomicBool::new(false),
            released: Notify::new(),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
        })
    }

    pub(super) fn router(self: &Arc<Self>, config: RoutingConfig) -> Arc<Router> {
        Router::start(Arc::clone(self) as SharedRegistry, config)
    }

    /// Calls so far, as `watch /zms/topic/t`; the name of a registration is left out.
    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(super) fn forget_calls(&self) {
        self.calls.lock().unwrap().clear();
    }

    /// Reads of `path` wait until [`Spoilt::release`].
    pub(super) fn stall(&self, path: &str) {
        self.stalled.lock().unwrap().insert(path.to_owned());
    }

    pub(super) fn release(&self) {
        self.stalled.lock().unwrap().clear();
        self.released.notify_waiters();
    }

    /// Reads of `path` answer this, as a server that lags or fails does.
    pub(super) fn answer(&self, path: &str, answer: Result<Option<Node>, RegistryError>) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    pub(super) fn answer_truly(&self) {
        self.answers.lock().unwrap().clear();
    }

    /// The session expires right before the next read of `path`, and reads of `stalled` wait from then on.
    pub(super) fn expire_at(&self, path: &str, stalled: &str) {
        *self.expire_at.lock().unwrap() = Some((path.to_owned(), stalled.to_owned()));
    }

    pub(super) fn refuse_registration(&self, refuse: bool) {
        self.refuse_registration.store(refuse, Ordering::SeqCst);
    }

    /// Listeners that come from now on never hear anything.
    pub(super) fn lose_events(&self) {
        self.lose_events.store(true, Ordering::SeqCst);
    }

    fn note(&self, call: &str, path: &str) {
        self.calls.lock().unwrap().push(format!("{call} {path}"));
    }

    async fn wait_while_stalled(&self, path: &str) {
        loop {
            let released = self.released.notified();
            if !self.stalled.lock().unwrap().contains(path) {
                return;
            }
            released.await;
        }
    }

    async fn spoilt_read(&self, path: &str) -> Result<Option<Node>, RegistryError> {
        self.note("watch", path);
        let expired = self.expire_at.lock().unwrap().take_if(|(at, _)| at == path);
        if let Some((_, stalled)) = expired {
            self.inner.expire_session();
            self.stall(&stalled);
        }
        self.wait_while_stalled(path).await;
        tokio::task::yield_now().await;
        let read = self.inner.watch(path).await;
        let answer = self.answers.lock().unwrap().get(path).cloned();
        answer.unwrap_or(read)
    }
}

impl Registry for Spoilt {
    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        self.note("read", path);
        self.inner.read(path)
    }

    fn watch<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Node>, RegistryError>> {
        Box::pin(async move {
            let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_under_way.fetch_max(under_way, Ordering::SeqCst);
            let answer = self.spoilt_read(path).await;
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            answer
        })
    }

    fn children<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Vec<String>>, RegistryError>> {
        self.inner.children(path)
    }

    fn create<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<(), RegistryError>> {
        self.inner.create(path, data)
    }

    fn set<'a>(
        &'a self,
        path: &'a str,
        data: Bytes,
        version: i32,
    ) -> BoxFuture<'a, Result<i32, RegistryError>> {
        self.inner.set(path, data, version)
    }

    fn delete<'a>(&'a self, path: &'a str, version: i32) -> BoxFuture<'a, Result<(), RegistryError>> {
        self.inner.delete(path, version)
    }

    fn commit(&self, ops: Vec<Op>) -> BoxFuture<'_, Result<(), RegistryError>> {
        self.inner.commit(ops)
    }

    fn register<'a>(&'a self, path: &'a str, data: Bytes) -> BoxFuture<'a, Result<u64, RegistryError>> {
        let parent = path.rsplit_once('/').expect("a path").0;
        self.note("register", parent);
        if self.refuse_registration.load(Ordering::SeqCst) {
            return Box::pin(async move { Err(RegistryError::Denied { path: path.to_owned() }) });
        }
        self.inner.register(path, data)
    }

    fn unregister<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        self.note("unregister", path.rsplit_once('/').expect("a path").0);
        Box::pin(async move {
            self.wait_while_stalled("unregister").await;
            self.inner.unregister(path).await
        })
    }

    fn listen(&self, listener: std::sync::Weak<dyn ChangeListener>) {
        if !self.lose_events.load(Ordering::SeqCst) {
            self.inner.listen(listener);
        }
    }

    fn session(&self) -> watch::Receiver<Session> {
        self.inner.session()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

/// Keeps what it adopted; may be told to wait or to panic.
#[derive(Debug)]
pub(super) struct Sink {
    routes: Mutex<Vec<Arc<TopicRoute>>>,
    permits: Semaphore,
    panics: AtomicBool,
    pub(super) waiting: AtomicUsize,
}

impl Sink {
    pub(super) fn new() -> Arc<Self> {
        Self::with_permits(Semaphore::MAX_PERMITS)
    }

    /// Adopts this many routes at once; each one after that waits for a permit.
    pub(super) fn with_permits(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            routes: Mutex::default(),
            permits: Semaphore::new(permits),
            panics: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        })
    }

    pub(super) fn permit_one(&self) {
        self.permits.add_permits(1);
    }

    pub(super) fn panic_next(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    pub(super) fn routes(&self) -> Vec<Arc<TopicRoute>> {
        self.routes.lock().unwrap().clone()
    }

    /// Clusters adopted, in order.
    pub(super) fn clusters(&self) -> Vec<String> {
        self.routes().iter().map(|route| route.cluster.name.to_string()).collect()
    }

    pub(super) fn last(&self) -> Arc<TopicRoute> {
        self.routes().pop().expect("a route was adopted")
    }

    pub(super) async fn comes_to(&self, cluster: &str) {
        let on = || self.clusters().last().is_some_and(|last| last == cluster);
        eventually(&format!("a route to {cluster}"), on).await;
    }
}

impl TopicSink for Sink {
    fn adopt(self: Arc<Self>, route: Arc<TopicRoute>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            assert!(!self.panics.swap(false, Ordering::SeqCst), "told to panic");
            self.waiting.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.unwrap().forget();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            self.routes.lock().unwrap().push(route);
        })
    }
}
