//! Why a subscription could not begin or did not end as asked.

use std::{io, time::Duration};

use zms_core::name::{GroupName, NameError};

use crate::routing::ResolveError;

/// Why a subscription could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The name is not one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The group does not lead to a cluster. Register it, or restore the registry.
    #[error(transparent)]
    Unresolved(#[from] ResolveError),
    /// This handle subscribes to the group already. More workers on that subscription do what a second one would;
    /// or shut it down first.
    #[error(
        "group {group} is subscribed to already by this handle (or that subscription is still ending); use more workers, or await its shutdown first"
    )]
    AlreadySubscribed {
        /// The group.
        group: GroupName,
    },
    /// An option is out of range, or two do not fit one another.
    #[error("group {group}: {reason}")]
    Option {
        /// The group.
        group: GroupName,
        /// Which option, its value, and what is allowed.
        reason: String,
    },
    /// A handler that is a future needs a Tokio runtime, and none runs here.
    #[error("group {group}: subscribe from within a Tokio runtime")]
    NoRuntime {
        /// The group.
        group: GroupName,
    },
    /// A thread could not be started.
    #[error("group {group}: no thread for the subscription: {source}")]
    Thread {
        /// The group.
        group: GroupName,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Why a subscription is not ready.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// The client cannot be opened as things are. The subscription goes on trying; waiting again is useful once the
    /// cause is mended.
    #[error("group {group} cannot join: {reason}")]
    Refused {
        /// The group.
        group: GroupName,
        /// Why, with the cluster.
        reason: String,
    },
    /// The subscription has ended.
    #[error("group {group}: the subscription is closed")]
    Closed {
        /// The group.
        group: GroupName,
    },
    /// The subscription has ended by itself.
    #[error(transparent)]
    Failed(#[from] Fault),
}

/// Why a subscription ended by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Another member has joined with the same instance id, and this one is out. Joining again would throw that one out in
    /// turn, so this subscription ends. Give each instance an id of its own; while one instance takes the place of
    /// another, this is how the earlier one ends.
    #[error(
        "group {group}: another member has joined as instance {instance}, and took this one's place: {reason}"
    )]
    Fenced {
        /// The group.
        group: GroupName,
        /// The instance id.
        instance: String,
        /// What the client reports.
        reason: String,
    },
    /// The subscription's own thread has panicked; its messages are left to the group's other members. A defect of the SDK or
    /// of its client library: please report it, with the panic's words from the log.
    #[error("group {group}: the subscription's thread panicked")]
    Panicked {
        /// The group.
        group: GroupName,
    },
}

/// Why a shutdown was not clean. The subscription has ended all the same, or goes on ending in the background.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// Handlers did not end in time; their messages are not committed and will be handled again.
    #[error(
        "group {group}: {running} handlers still ran at the deadline; their messages will be handled again"
    )]
    HandlersRunning {
        /// The group.
        group: GroupName,
        /// How many.
        running: usize,
    },
    /// The broker did not answer in time to commit and leave; this goes on in the background.
    #[error("group {group}: not closed within {limit:?}; closing goes on in the background")]
    Unfinished {
        /// The group.
        group: GroupName,
        /// The deadline given.
        limit: Duration,
    },
}
