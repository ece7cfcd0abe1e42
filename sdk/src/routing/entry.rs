//! One topic or group in use.

use std::{
    ops::Deref,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{Notify, watch};
use zms_core::route::Source;

use super::{
    adoption::Adoption, interests::EntryId, refusal::Refusal, registration::Registration, route::Route,
    subject::Subject, work::Work,
};

/// Everything of one entry. Each lease has its own, so that leases of one name never get into each other's way.
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) subject: Subject,
    /// Held across registry calls.
    pub(super) registration: tokio::sync::Mutex<Registration>,
    /// Held while a route is pushed, so that routes of one entry are adopted one after another.
    pub(super) adoption: tokio::sync::Mutex<Adoption>,
    progress: watch::Sender<Progress>,
    /// Short: one comparison.
    work: Mutex<Work>,
    wake: Notify,
    retired: AtomicBool,
}

/// How far an entry has come; for those who wait for its first route, and for inspection.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// The route in force.
    pub(super) route: Option<Route>,
    /// A first route is being pushed.
    pub(super) adopting: bool,
    /// Why what was read last cannot be adopted.
    pub(super) refusal: Option<Refusal>,
    /// What the registry said when it did not answer; cleared by an answer.
    pub(super) silence: Option<String>,
    /// The registry has answered once.
    pub(super) answered: bool,
}

/// A first route is being pushed, until this is dropped: also when the task that pushes ends early. Whoever waits for it
/// has no time limit meanwhile.
pub(super) struct Adopting<E: Deref<Target = Entry>>(pub(super) E);

impl<E: Deref<Target = Entry>> Adopting<E> {
    pub(super) fn begin(entry: E) -> Self {
        entry.update(|progress| progress.adopting = true);
        Self(entry)
    }
}

impl<E: Deref<Target = Entry>> Drop for Adopting<E> {
    fn drop(&mut self) {
        self.0.update(|progress| progress.adopting = false);
    }
}

impl Entry {
    pub(super) fn new(id: EntryId, subject: Subject, registration: Registration) -> Self {
        Self {
            id,
            subject,
            registration: tokio::sync::Mutex::new(registration),
            adoption: tokio::sync::Mutex::default(),
            progress: watch::Sender::default(),
            work: Mutex::default(),
            wake: Notify::new(),
            retired: AtomicBool::new(false),
        }
    }

    /// Something that it rests on may have changed. True when the caller has to start its task.
    pub(super) fn mark(&self) -> bool {
        let start = self.work().mark();
        if !start {
            self.wake.notify_one();
        }
        start
    }

    /// A round of the task begins.
    pub(super) fn begin(&self) {
        self.work().begin();
    }

    /// A round of the task ended; true when there is another.
    pub(super) fn finish(&self) -> bool {
        self.work().finish()
    }

    /// Waits for the next mark.
    pub(super) async fn marked(&self) {
        self.wake.notified().await;
    }

    /// Nobody uses it any more.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }

    /// `route` is in force.
    pub(super) fn in_force(&self, route: &Route) {
        self.update(|progress| {
            progress.answered |= route.source() == Source::Registry;
            progress.route = Some(route.clone());
            progress.refusal = None;
        });
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// A panic elsewhere leaves the machine whole: each change is one assignment.
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
