//! What the registry tests share; each uses some of it.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use spawns_core::{Spawn, Task};
use tokio::{sync::watch, time::timeout};
use zms_sdk::registry::port::{ChangeListener, Registry, Session, SharedRegistry};
use zookeeper_client::{Acls, Client, CreateMode};

/// Generous: reached only by a test that fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Keeps the paths that changed, in order.
pub(crate) struct Recorder {
    events: Mutex<Vec<String>>,
    count: watch::Sender<usize>,
}

impl Recorder {
    pub(crate) fn listening_to(registry: &dyn Registry) -> Arc<Self> {
        let recorder = Arc::new(Self { events: Mutex::default(), count: watch::Sender::new(0) });
        let weak = Arc::downgrade(&recorder);
        registry.listen(weak);
        recorder
    }

    /// Waits for the events so far to be at least as many, and takes them all.
    pub(crate) async fn take(&self, at_least: usize) -> Vec<String> {
        let mut count = self.count.subscribe();
        let arrived = timeout(LIMIT, count.wait_for(|count| *count >= at_least)).await.is_ok();
        let mut events = self.events.lock().unwrap();
        assert!(arrived, "waited for {at_least} events in vain, got {events:?}");
        self.count.send_replace(0);
        std::mem::take(&mut *events)
    }
}

impl ChangeListener for Recorder {
    fn changed(&self, path: &str) {
        let mut events = self.events.lock().unwrap();
        events.push(path.to_owned());
        self.count.send_replace(events.len());
    }
}

/// Waits for a state of the session.
pub(crate) async fn session(registry: &SharedRegistry, wanted: impl FnMut(&Session) -> bool) -> Session {
    let mut session = registry.session();
    let Ok(found) = timeout(LIMIT, session.wait_for(wanted)).await else {
        panic!("waited in vain, the session is {:?}", registry.session().borrow());
    };
    *found.expect("the handle lives")
}

/// Makes a node that only this user may touch.
pub(crate) async fn create_protected(server: &str, path: &str, (user, password): (&str, &str)) {
    let identity = format!("{user}:{password}");
    let mut client = pin!(Client::connector().with_auth("digest", identity.as_bytes()).connect(server));
    let client = poll_fn(|context| {
        let _scope = spawns_core::enter(&OnTokio);
        client.as_mut().poll(context)
    });
    let options = CreateMode::Persistent.with_acls(Acls::creator_all());
    client.await.unwrap().create(path, b"", &options).await.unwrap();
}

struct OnTokio;

impl Spawn for OnTokio {
    fn spawn(&self, task: Task) {
        tokio::spawn(Box::into_pin(task.future));
    }
}
