//! Closing clients without waiting for them longer than wanted.

use std::{
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use tracing::warn;

use crate::engine::port::ConsumerClient;

/// Clients that are being closed, each on a thread of its own: with its cluster down a client takes many seconds.
#[derive(Default)]
pub(super) struct Closers(Vec<Receiver<()>>);

impl Closers {
    /// How many may be closing at a time before a new client has to wait.
    const MOST: usize = 4;

    /// Closes a client, and waits for it at most until `patience` ends. It goes on closing after that.
    pub(super) fn close(&mut self, client: Box<dyn ConsumerClient>, patience: Instant) {
        let (closed, ended) = bounded::<()>(1);
        let spawned = thread::Builder::new().name("zms-closing".to_owned()).spawn(move || {
            client.close();
            drop(closed);
        });
        if let Err(error) = spawned {
            warn!(%error, "no thread to close a consumer client; it was dropped instead");
        }
        // The end of the channel is the news; nothing is ever sent.
        let _ = ended.recv_deadline(patience);
        self.0.push(ended);
        self.have_room();
    }

    /// Whether another client may be opened.
    pub(super) fn have_room(&mut self) -> bool {
        self.0.retain(|ended| ended.try_recv() == Err(TryRecvError::Empty));
        self.0.len() < Self::MOST
    }

    /// Waits for all clients at most until `patience` ends; whether all are closed.
    pub(super) fn finish(mut self, patience: Instant) -> bool {
        for ended in &self.0 {
            let _ = ended.recv_deadline(patience);
        }
        self.have_room();
        self.0.is_empty()
    }
}

/// How long to wait before the successor of a client on the same cluster joins: two members of one process would
/// share the partitions until the first is gone.
pub(super) const SUCCESSION: Duration = Duration::from_secs(5);
