//! One line on the terminal that tells how far a run is.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
};

use tokio::{task::JoinHandle, time::interval};

use super::{LOOK, Shared};

/// Shown as long as it is kept; nothing at all where stderr is no terminal.
pub(super) struct ProgressLine {
    task: Option<JoinHandle<()>>,
}

impl ProgressLine {
    pub(super) fn show(shared: &Arc<Shared>, count: u64) -> Self {
        if !io::stderr().is_terminal() {
            return Self { task: None };
        }
        let shared = Arc::clone(shared);
        let show = async move {
            let mut look = interval(LOOK);
            loop {
                look.tick().await;
                let now = shared.tally().progress();
                let (sent, acknowledged, handled) = (now.sent, now.acknowledged, now.handled);
                let line = format!("sent {sent} of {count}, acknowledged {acknowledged}, handled {handled}");
                let _ = write!(io::stderr(), "\r\x1b[K{line}");
            }
        };
        Self { task: Some(tokio::spawn(show)) }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
