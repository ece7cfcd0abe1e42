//! Why a name does not lead to a cluster.

use std::time::Duration;

use zms_core::name::NameError;

/// Why a topic or group could not be resolved to a cluster.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The text is no topic or group name, so that the registry cannot know it.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The registry has no such topic.
    #[error(
        "topic {topic} is not in the registry (waited {waited:?}); add it with `zmsctl topic add {topic} --cluster <cluster>`"
    )]
    UnknownTopic {
        /// The topic asked for.
        topic: String,
        /// How long the SDK waited for it to appear.
        waited: Duration,
    },
    /// The registry has no such group.
    #[error(
        "group {group} is not in the registry (waited {waited:?}); add it with `zmsctl group add {group} --topic <topic>`"
    )]
    UnknownGroup {
        /// The group asked for.
        group: String,
        /// How long the SDK waited for it to appear.
        waited: Duration,
    },
    /// A topic or group names a cluster that the registry does not have.
    #[error(
        "{entry} lives on cluster {cluster}, which is not in the registry; add it with `zmsctl cluster add {cluster} --bootstrap <host:port,…>`"
    )]
    UnknownCluster {
        /// `topic orders` or `group billing`.
        entry: String,
        /// The cluster that is missing.
        cluster: String,
    },
    /// A node cannot be understood, and there is no earlier good value.
    #[error("{path} cannot be read: {reason}; look at it with `zmsctl doctor`")]
    Unreadable {
        /// The node's path.
        path: String,
        /// What is wrong with it, with the field.
        reason: String,
    },
    /// The cluster is of a kind that this SDK has no engine for.
    #[error("{entry} lives on cluster {cluster} of type {kind}, which is not supported; only kafka is")]
    UnsupportedBroker {
        /// `topic orders` or `group billing`.
        entry: String,
        /// The cluster.
        cluster: String,
        /// The type that the registry states.
        kind: String,
    },
    /// The registry cannot be reached, and the snapshot on disk does not know the entry.
    #[error("{entry} cannot be resolved: the registry is unavailable ({reason}) and no snapshot knows it")]
    RegistryUnavailable {
        /// `topic orders` or `group billing`.
        entry: String,
        /// What the registry said last.
        reason: String,
    },
    /// The topic's route is not known yet, and the call never waits: it is being fetched now.
    #[error(
        "the route of topic {topic} is still being fetched; send again in a moment, or await `Zms::producer` first, which also says what is wrong if it never comes"
    )]
    NotYet {
        /// The topic.
        topic: String,
    },
    /// The handle was closed.
    #[error("the ZMS handle is closed")]
    Closed,
}
