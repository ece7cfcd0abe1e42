//! Armed watches of one connection: one for a path, all served by one task.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use zookeeper_client::{EventType, OneshotWatcher, WatchedEvent};

use crate::registry::{listeners::Listeners, port::RegistryError};

use super::error::unavailable;

/// Watchers on their way to the task that serves them; more wait in [`Watches::permit`].
const HANDOVER: usize = 64;

/// The side of the callers. Bookkeeping ends with the connection: callers read again after it.
pub(super) struct Watches {
    armed: Armed,
    handover: mpsc::Sender<(String, OneshotWatcher)>,
}

impl Watches {
    /// The callers' side, and the task's future. The future ends when its connection's events do.
    pub(super) fn new(listeners: Arc<Listeners>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (handover, accept) = mpsc::channel(HANDOVER);
        let armed = Armed::default();
        let pump = pump(accept, armed.clone(), listeners);
        (Self { armed, handover }, pump)
    }

    /// Whether an event for `path` is still to come. One that is on its way counts: it will reach the listeners after
    /// this answer, so that what is read now is read again.
    pub(super) fn is_armed(&self, path: &str) -> bool {
        self.armed.lock().contains(path)
    }

    /// Room for one watcher, taken before the read that arms it: between the answer and [`Permit::hand_over`] nothing
    /// may wait, or a caller that goes away would leave a watch that nobody serves.
    pub(super) async fn permit(&self) -> Result<Permit<'_>, RegistryError> {
        let slot = self.handover.reserve().await.map_err(|_| unavailable("the connection ended"))?;
        Ok(Permit { armed: &self.armed, slot })
    }
}

pub(super) struct Permit<'a> {
    armed: &'a Armed,
    slot: mpsc::Permit<'a, (String, OneshotWatcher)>,
}

impl Permit<'_> {
    /// Serves the watcher, unless another is armed on the path; then this one is given up.
    pub(super) fn hand_over(self, path: &str, watcher: OneshotWatcher) {
        if self.armed.lock().insert(path.to_owned()) {
            self.slot.send((path.to_owned(), watcher));
        }
    }
}

/// Paths with a watcher that has not fired; bounded by the paths that callers ask for.
#[derive(Clone, Default)]
struct Armed(Arc<Mutex<HashSet<String>>>);

impl Armed {
    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Firing = Pin<Box<dyn Future<Output = (String, WatchedEvent)> + Send>>;

/// Tells the listeners of each event, disarmed first: a listener's reader that comes at once arms anew.
async fn pump(mut accept: mpsc::Receiver<(String, OneshotWatcher)>, armed: Armed, listeners: Arc<Listeners>) {
    let mut watchers = FuturesUnordered::<Firing>::new();
    loop {
        tokio::select! {
            Some((path, event)) = watchers.next(), if !watchers.is_empty() => {
                if event.event_type == EventType::Session {
                    return;
                }
                armed.lock().remove(&path);
                for listener in listeners.live() {
                    listener.changed(&path);
                }
            }
            armed = accept.recv() => match armed {
                Some((path, watcher)) => watchers.push(Box::pin(async move { (path, watcher.changed().await) })),
                None => return,
            },
        }
    }
}
