//! Senders that wait for room end the linger of the clients whose reports make it.
//!
//! A buffer that is full of messages that linger would otherwise pass one buffer for each linger. Batches stay as large as
//! they are where waits are short: nobody is hurried before [`PACE`] has passed.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{runtime::Handle, time::sleep};
use zms_core::pool::Cause;

use super::{Producer, clients::Slot};

/// The least time between two orders to a client, and before the first.
const PACE: Duration = Duration::from_millis(10);
/// How long one order holds, if the client still has messages.
const ORDER: Duration = Duration::from_millis(20);

/// Who waits for a client, and whether somebody hurries it.
#[derive(Debug, Default)]
pub(super) struct Urgency {
    waiting: AtomicUsize,
    hurried: AtomicBool,
}

/// A sender that waits for a client; dropped when it has its room, or gives up.
#[derive(Debug)]
pub(super) struct Impatient(Arc<Slot>);

impl Impatient {
    pub(super) fn new(slot: Arc<Slot>, runtime: &Handle) -> Self {
        slot.urgency.waiting.fetch_add(1, Ordering::SeqCst);
        if !slot.urgency.hurried.swap(true, Ordering::SeqCst) {
            drop(runtime.spawn(hurry(slot.clone())));
        }
        Self(slot)
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        self.0.urgency.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Producer {
    /// Waits for something that needs room. It is tried first: most sends do not wait, and cost nothing here.
    pub(super) async fn patiently<T>(&self, bytes: usize, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        if let Some(at_once) = wait.as_mut().now_or_never() {
            return at_once;
        }
        let _hurry = self.hurry(bytes);
        wait.await
    }

    /// Hurries whose reports make the room that is waited for, until the answer is dropped: the topic's own client, or
    /// where others' messages stand in the way those of the cluster, or all.
    pub(super) fn hurry(&self, bytes: usize) -> Vec<Impatient> {
        let core = &self.topic.core;
        match self.topic.account.cause(bytes) {
            Cause::Topic { .. } => {
                let active = self.topic.active.load();
                active.iter().map(|active| active.link.lease.hurry(&core.runtime)).collect()
            }
            Cause::Cluster { cluster, .. } => core.clients.hurry(cluster.as_ref()),
            _ => core.clients.hurry(None),
        }
    }
}

/// Until nobody waits for the client any more.
async fn hurry(slot: Arc<Slot>) {
    loop {
        sleep(PACE).await;
        let waited_for = || slot.urgency.waiting.load(Ordering::SeqCst) > 0;
        if waited_for() {
            let client = slot.clone();
            // One that panicked is no reason to leave the others waiting.
            drop(tokio::task::spawn_blocking(move || client.hurry(ORDER)).await);
            continue;
        }
        slot.urgency.hurried.store(false, Ordering::SeqCst);
        // Somebody who came in between saw it as hurried.
        if !waited_for() || slot.urgency.hurried.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}
