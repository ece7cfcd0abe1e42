//! Why a node's data was not understood.

use super::Format;

/// Why a node's data was not understood. Carries the node's path and, where one is at fault, the field as the node
/// spells it. Values of librdkafka properties are never part of it: they may be secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// The data is larger than [`MAX_SIZE`](super::MAX_SIZE).
    #[error("{path}: {size} bytes, more than the {limit} accepted")]
    TooLarge {
        /// The node.
        path: String,
        /// Size found, in bytes.
        size: usize,
        /// Size accepted, in bytes.
        limit: usize,
    },
    /// The data is neither readable `.properties` text nor a JSON object.
    #[error("{path}: not readable as {format}: {reason}")]
    Syntax {
        /// The node.
        path: String,
        /// What it was read as; JSON if its first character is `{`.
        format: Format,
        /// What is wrong and where.
        reason: String,
    },
    /// A JSON node of a schema that this version does not know. A newer SDK may.
    #[error("{path}: schema {found} is not supported; this version reads schema {supported}")]
    Schema {
        /// The node.
        path: String,
        /// The schema found.
        found: String,
        /// The highest schema supported.
        supported: u64,
    },
    /// A field without which the node says nothing is missing or empty.
    #[error("{path}: field {field} is missing or empty; expected {accepted}")]
    Missing {
        /// The node.
        path: String,
        /// The field.
        field: String,
        /// What belongs there.
        accepted: String,
    },
    /// A field holds something that is not accepted.
    #[error("{path}: field {field} {found}; accepted is {accepted}")]
    Invalid {
        /// The node.
        path: String,
        /// The field.
        field: String,
        /// What was found, as a verb phrase (`is "maybe"`); without the value where that may be a secret.
        found: String,
        /// What is accepted.
        accepted: String,
    },
}

/// A value as an error shows it: quoted, and not longer than a line.
pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 60;
    let short: String = value.chars().take(LONGEST).collect();
    if short.len() < value.len() { format!("is {short:?}…") } else { format!("is {short:?}") }
}
