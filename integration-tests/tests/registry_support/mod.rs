//! What the registry tests share; each uses some of it.

#![allow(dead_code)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};
use zms_sdk::registry::port::{ChangeListener, Registry, Session, SharedRegistry};

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
    let found = timeout(LIMIT, session.wait_for(wanted)).await;
    match found {
        Ok(session) => *session.expect("the handle lives"),
        Err(_) => panic!("waited in vain, the session is {:?}", registry.session().borrow()),
    }
}
