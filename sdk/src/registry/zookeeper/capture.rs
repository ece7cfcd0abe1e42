//! Keeps hold of the task that the client library spawns for a session.
//!
//! The library offers no way to stop that task but to drop the client, which ends the session; and while the servers
//! are away it sleeps for ever longer between attempts. With the task in hand, a connection can be given up while its
//! session lives, and the session be taken up again by a new client at once.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Mutex, PoisonError},
};

use spawns_core::{Spawn, Task};
use tokio::task::JoinHandle;

/// Runs `future` with every task that it spawns through the library's spawner put on the current Tokio runtime; the
/// tasks are handed back.
pub(super) async fn capture<F: Future>(future: F) -> (F::Output, Vec<JoinHandle<()>>) {
    let spawner = Spawner::default();
    let mut future = pin!(future);
    // The scope is per thread, and a poll stays on one: hence a scope for each.
    let output = poll_fn(|context| {
        let _scope = spawns_core::enter(&spawner);
        future.as_mut().poll(context)
    })
    .await;
    (output, spawner.0.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[derive(Default)]
struct Spawner(Mutex<Vec<JoinHandle<()>>>);

impl Spawn for Spawner {
    fn spawn(&self, task: Task) {
        let task = tokio::spawn(Box::into_pin(task.future));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
}
