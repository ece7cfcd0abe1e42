//! Why an edit of the registry was not made.

use zms_core::{meta::MetaError, property::Dropped};

use crate::registry::port::RegistryError;

/// Why an edit of the registry was not made, or a question not answered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The registry did not do it. After [`RegistryError::Unavailable`] a write may have taken effect: look again.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A node cannot be understood. Mend it by hand, or remove it by force and add it again.
    #[error("{0}; mend the node, or remove it with --force and add it again")]
    Unreadable(#[from] MetaError),
    /// There is no such entry.
    #[error("{what} {name} is not in the registry; `zmsctl {what} list` shows what is")]
    Missing {
        /// `cluster`, `topic` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// An entry to add is there already.
    #[error("{what} {name} exists already; change it with `zmsctl {what} set {name}`")]
    Exists {
        /// `cluster`, `topic` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something depends on the entry.
    #[error("{what} {name} is in use by {}; end that first, or use --force", users.join(", "))]
    InUse {
        /// `cluster`, `topic` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
        /// What depends on it: `topic orders`, `client 10.0.0.1||…`; the first few.
        users: Vec<String>,
    },
    /// A group would read from a cluster on which its topic does not live.
    #[error(
        "group {group} would read {topic} from cluster {cluster}, but the topic lives on {lives_on}; use {lives_on}, or --force"
    )]
    Misplaced {
        /// The group.
        group: String,
        /// Its topic.
        topic: String,
        /// The cluster asked for.
        cluster: String,
        /// The topic's cluster.
        lives_on: String,
    },
    /// A migration of the topic is running, which this edit would disturb.
    #[error("topic {topic} is being moved ({state}); wait for the end of the move or abort it")]
    Moving {
        /// The topic.
        topic: String,
        /// The move's id and phase.
        state: String,
    },
    /// A value is not one that can work.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong with it, and what is accepted.
        reason: String,
    },
    /// A secret in plain text.
    #[error(
        "property {property} is a secret: write ${{env:NAME}} or ${{file:/path}}, which each client resolves for itself"
    )]
    Secret {
        /// The property.
        property: String,
    },
    /// Others kept changing the node.
    #[error("{what} {name} was changed by others {attempts} times in a row; try again")]
    Contended {
        /// `cluster`, `topic` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
        /// How often the edit was tried.
        attempts: usize,
    },
}

impl From<Dropped> for AdminError {
    fn from(dropped: Dropped) -> Self {
        Self::Invalid { field: format!("property {}", dropped.name), reason: dropped.reason }
    }
}
