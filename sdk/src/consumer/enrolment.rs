//! Where a subscription gets its group from: resolved when the handler is given, given back when the group is left.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;
use zms_core::{name::GroupName, route::GroupRoute};

use super::{
    DeadLetters, Fault, Health, ShutdownError, SubscribeError,
    context::{Context, Phase},
    stop::Deadline,
};
use crate::{engine::port::Engine, registry::port::BoxFuture};

/// What a subscription begins with.
pub(crate) struct Enrolment {
    /// The group.
    pub(crate) group: GroupName,
    /// What opens clients.
    pub(crate) engine: Arc<dyn Engine>,
    /// The group's route, as a latest value.
    pub(crate) route: watch::Receiver<Arc<GroupRoute>>,
    /// What sends dead letters, where there is something.
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
    /// Since when the registry is away; `None` where there is none to ask.
    pub(crate) registry: Option<RegistryAway>,
    /// Kept until the group is left.
    pub(crate) membership: Box<dyn Membership>,
}

/// Tells since when the registry is away, if it is.
pub(crate) type RegistryAway = Arc<dyn Fn() -> Option<SystemTime> + Send + Sync>;

/// A subscription's place among others. Dropped, on the subscription's own thread, when the group is left.
pub(crate) trait Membership: Send {
    /// The subscription runs; this is how to end it.
    fn began(&self, ending: Ending);
}

impl Membership for () {
    fn began(&self, _: Ending) {}
}

/// An [`Enrolment`] that may have to be waited for.
pub(crate) struct Pending(BoxFuture<'static, Result<Enrolment, SubscribeError>>);

impl Pending {
    pub(crate) fn new(
        enrolment: impl Future<Output = Result<Enrolment, SubscribeError>> + Send + 'static,
    ) -> Self {
        Self(Box::pin(enrolment))
    }

    pub(super) async fn resolve(self) -> Result<Enrolment, SubscribeError> {
        self.0.await
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

/// Ends a subscription; any number of holders may.
#[derive(Clone)]
pub(crate) struct Ending(pub(super) Arc<Context>);

impl Ending {
    /// Gives the order to end within `limit`, and does not wait.
    pub(crate) fn order(&self, limit: Duration) {
        self.0.stop.order(Deadline::after(limit));
    }

    /// Its group, or the topic that it reads without one.
    pub(crate) fn group(&self) -> &GroupName {
        &self.0.group
    }

    pub(crate) fn health(&self) -> Health {
        self.0.health()
    }

    /// Why it has ended by itself, if it has.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.0.fault.get().cloned()
    }

    /// Gives the order and waits for the end, at most for `limit`.
    pub(crate) async fn end(&self, limit: Duration) -> Result<(), ShutdownError> {
        self.order(limit);
        let group = || self.0.group.clone();
        let mut phase = self.0.phase.subscribe();
        let closed = phase.wait_for(|phase| matches!(phase, Phase::Closed(_)));
        let Ok(last) = tokio::time::timeout(limit, closed).await else {
            return Err(ShutdownError::Unfinished { group: group(), limit });
        };
        match last.as_deref() {
            Ok(&Phase::Closed(running)) if running > 0 => {
                Err(ShutdownError::HandlersRunning { group: group(), running })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ending of {}", self.0.group)
    }
}
