//! Whether a subscription works, for probes and for whoever has to be told.

use std::time::SystemTime;

use serde::Serialize;
use zms_core::name::ClusterName;

use super::Fault;
use crate::serial;

/// Whether a subscription works.
///
/// As JSON: `{"status":"degraded","causes":[{"cause":"broker","reason":"…","sinceMs":1700000000000}]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Health {
    /// It has not had its first assignment yet. `causes` tells what it waits for beside the group, such as a cluster
    /// that does not answer.
    Starting {
        /// What is in the way, if anything.
        causes: Vec<Cause>,
    },
    /// All is well, also while the application or the registry has it paused. How long a handler may take is not judged:
    /// for one that hangs look at [`OldestView::age`](super::OldestView::age).
    Healthy,
    /// It works on, but not with everything.
    Degraded {
        /// Why; at least one.
        causes: Vec<Cause>,
    },
    /// It does not work, and will not until somebody mends the cause; it goes on trying, ever more slowly.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// It is being shut down, or has ended.
    Stopped {
        /// Why, if it has ended by itself.
        #[serde(serialize_with = "serial::some_text")]
        fault: Option<Fault>,
    },
}

impl Health {
    /// For a readiness probe: it handles messages, or would if there were any.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Healthy | Self::Degraded { .. })
    }

    /// For a liveness probe. Only a subscription that has ended by itself is not alive; a restart mends nothing of the
    /// rest, and one that failed opens its client anew, as a restart would.
    pub fn is_alive(&self) -> bool {
        !matches!(self, Self::Stopped { fault: Some(_) })
    }
}

/// Why a subscription works only in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Cause {
    /// The client reports errors that may pass: brokers that do not answer, a topic that is not there.
    Broker {
        /// The last one, in words.
        reason: String,
        /// When the first of them came; as JSON `sinceMs`, since the Unix epoch.
        #[serde(rename = "sinceMs", serialize_with = "serial::time")]
        since: SystemTime,
    },
    /// Partitions in which a message has used up its attempts, or its dead letter is not taken; what is behind it in order
    /// waits. [`Inspection`](super::Inspection) shows the messages.
    Blocked {
        /// Their numbers, in order.
        partitions: Vec<i32>,
    },
    /// It holds no assignment now: its client is being opened anew, or the group is forming.
    Joining {
        /// Since when.
        #[serde(rename = "sinceMs", serialize_with = "serial::time")]
        since: SystemTime,
    },
    /// The registry is away. Messages flow; changes of the route are not seen.
    RegistryAway {
        /// Since when.
        #[serde(rename = "sinceMs", serialize_with = "serial::time")]
        since: SystemTime,
    },
    /// The thread that polls has not come round for long: a call to the client does not return.
    Stalled {
        /// When it was last seen.
        #[serde(rename = "sinceMs", serialize_with = "serial::time")]
        since: SystemTime,
    },
}

/// A failure that lasts until somebody mends its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Failure {
    /// Counts the failures of the subscription, from 1; a gap between two that were received was too fast for the
    /// receiver.
    pub number: u64,
    /// What kind.
    pub kind: LastingKind,
    /// The cluster.
    #[serde(serialize_with = "serial::text")]
    pub cluster: ClusterName,
    /// What the client reports.
    pub reason: String,
    /// When it came first; as JSON `sinceMs`, since the Unix epoch.
    #[serde(rename = "sinceMs", serialize_with = "serial::time")]
    pub since: SystemTime,
}

/// What kind of failure lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum LastingKind {
    /// No client can be opened: a property is refused, a secret cannot be read, or the cluster is another one than the
    /// registry states. It is tried again with growing pauses.
    Refused,
    /// The brokers do not know this client, or do not allow it the topic or the group. It goes on asking.
    Denied,
    /// The brokers do not take the client as it is set. It goes on asking.
    Unsuited,
    /// The topic does not exist on its cluster, for half a minute already. It goes on looking.
    UnknownTopic,
    /// The client had failed for good and was replaced; repeated, with growing pauses.
    Fatal,
    /// The subscription has ended by itself.
    Ended,
}
