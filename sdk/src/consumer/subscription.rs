//! The handle of a running subscription.

use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use super::{
    Failures, Fault, Health, Inspection, NotReady, ResizeError, ShutdownError,
    context::{Context, Phase},
    enrolment::Ending,
    stop::Deadline,
};

/// A running subscription. Dropped without [`shutdown`](Self::shutdown), it ends in the background: running handlers
/// get some seconds, what is done is committed, and the group is left.
pub struct Subscription {
    pub(super) context: Arc<Context>,
    drop_limit: Duration,
}

impl Subscription {
    pub(super) fn new(context: Arc<Context>, drop_limit: Duration) -> Self {
        Self { context, drop_limit }
    }

    /// Waits until the group has given this member its first partitions. A member beyond the number of partitions gets
    /// none until another one leaves, and an unreachable cluster is waited for: put a timeout around it if that is too
    /// long.
    ///
    /// Dropping the future changes nothing; it may be called again.
    ///
    /// # Errors
    /// [`NotReady`] when the client cannot be opened as things are, or the subscription has ended.
    pub async fn ready(&self) -> Result<(), NotReady> {
        let group = || self.context.group.clone();
        let mut phase = self.context.phase.subscribe();
        let settled = phase.wait_for(|phase| !matches!(phase, Phase::Opening | Phase::Joining)).await;
        match settled.as_deref() {
            Ok(Phase::Refused(reason)) => Err(NotReady::Refused { group: group(), reason: reason.clone() }),
            Ok(Phase::Closed(_)) | Err(_) => Err(match self.context.fault.get() {
                Some(fault) => NotReady::Failed(fault.clone()),
                None => NotReady::Closed { group: group() },
            }),
            Ok(_) => Ok(()),
        }
    }

    /// Waits until the subscription has ended, by order or by itself.
    ///
    /// Dropping the future changes nothing; it may be called again.
    ///
    /// # Errors
    /// [`Fault`] when it has ended by itself.
    pub async fn ended(&self) -> Result<(), Fault> {
        // An error would be the end, too.
        let _ = self.context.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Closed(_))).await;
        self.context.fault.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Ends the subscription: nothing is fetched any more, queued messages are left to the next owner, running
    /// handlers get until shortly before the deadline, what is done is committed, and the group is left. Returns
    /// within `deadline`.
    ///
    /// Dropping the future does not take the order back. Calling it again waits for the same end; of several
    /// deadlines the earliest holds. Called from within a handler of this subscription it waits for that very handler
    /// and so returns at its deadline with [`ShutdownError::HandlersRunning`]; spawn a task for it instead.
    ///
    /// # Errors
    /// [`ShutdownError`] when handlers or the broker did not end in time.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), ShutdownError> {
        Ending(Arc::clone(&self.context)).end(deadline).await
    }

    /// Changes the number of workers at once, while messages flow. The order of messages holds. Workers that are too many
    /// end after their present message; with [`Ordering::Partition`](super::Ordering::Partition) a partition moves to its
    /// new worker when its old one has ended that message or some 64 of them. Nothing waits here, but for the starting of
    /// threads. The number stands until the subscription ends, also across clusters.
    ///
    /// # Errors
    /// [`ResizeError`]; the number is what it was.
    pub fn resize(&self, workers: usize) -> Result<(), ResizeError> {
        let group = || self.context.group.clone();
        let Some(workers) = NonZeroUsize::new(workers) else {
            return Err(ResizeError::None { group: group() });
        };
        if self.context.crew.is_adaptive() {
            return Err(ResizeError::Adaptive { group: group() });
        }
        if matches!(*self.context.phase.borrow(), Phase::Closed(_)) {
            return Err(ResizeError::Closed { group: group() });
        }
        self.context.crew.resize(workers).map_err(|source| ResizeError::Thread { group: group(), source })
    }

    /// Whether it works, as a probe wants to know it. As cheap as [`inspect`](Self::inspect).
    pub fn health(&self) -> Health {
        self.context.health()
    }

    /// The failures that last until somebody mends their cause, each once: a client that cannot be opened, one that has
    /// failed for good and is replaced, brokers that refuse this client, its topic or its group, a topic that stays
    /// unknown, and the end of the subscription by itself. It goes on trying in all cases but the last, so that nothing
    /// has to be done here; what repeats is not told again until it has been away for a minute, and what passes is not
    /// told at all.
    ///
    /// A receiver begins with the first failure of the subscription, or with the last 16 of more.
    ///
    /// ```no_run
    /// # async fn tell(subscription: &zms_sdk::Subscription) {
    /// let mut failures = subscription.failures();
    /// while let Some(failure) = failures.next().await {
    ///     eprintln!("{:?} on cluster {}: {}", failure.kind, failure.cluster, failure.reason);
    /// }
    /// # }
    /// ```
    pub fn failures(&self) -> Failures {
        self.context.supervision.failures()
    }

    /// What it is doing now. Cheap enough to ask every second; takes short locks only.
    pub fn inspect(&self) -> Inspection {
        self.context.inspect()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.context.stop.order(Deadline::after(self.drop_limit));
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("group", &self.context.group).finish_non_exhaustive()
    }
}
