//! The end of the poll thread.

use std::{sync::Arc, thread};

use tracing::error;

use crate::consumer::{
    context::{Context, Phase},
    error::Fault,
};

/// Says at its end that the subscription is closed. Whatever ends the poll thread, a panic in a client included, those
/// who wait must learn of it.
pub(in crate::consumer) struct ClosedAtLast {
    context: Arc<Context>,
    running: usize,
}

impl ClosedAtLast {
    pub(in crate::consumer) fn of(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), running: 0 }
    }

    /// Handlers left running.
    pub(in crate::consumer) fn running(&mut self, running: usize) {
        self.running = running;
    }
}

impl Drop for ClosedAtLast {
    fn drop(&mut self) {
        if thread::panicking() {
            error!(group = %self.context.group, "the poll thread panicked; the subscription has ended");
            self.context.fail(Fault::Panicked { group: self.context.group.clone() });
        }
        self.context.orders.close();
        self.context.supervision.end();
        self.context.enter(Phase::Closed(self.running));
    }
}
