//! Names of clusters, topics and consumer groups: parsed once, valid ever after, cheap to clone.

use std::{borrow::Borrow, fmt, sync::Arc};

/// Kafka's limit on the length of a topic name, in bytes.
pub const MAX_TOPIC_LENGTH: usize = 249;
/// Limit on the length of a cluster or group name, in bytes; they become `ZooKeeper` path segments.
pub const MAX_NAME_LENGTH: usize = 255;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no characters.
    #[error("{what} name is empty")]
    Empty {
        /// `cluster`, `topic` or `group`.
        what: &'static str,
    },
    /// The name is longer than the limit.
    #[error("{what} name has {length} bytes, more than the {limit} allowed")]
    TooLong {
        /// `cluster`, `topic` or `group`.
        what: &'static str,
        /// Length found, in bytes.
        length: usize,
        /// Length allowed, in bytes.
        limit: usize,
    },
    /// The name holds a character that Kafka or `ZooKeeper` does not accept, or is `.` or `..`.
    #[error("{what} name {name:?} has characters that are not allowed; {allowed}")]
    Invalid {
        /// `cluster`, `topic` or `group`.
        what: &'static str,
        /// The name refused.
        name: String,
        /// What is allowed, in words.
        allowed: &'static str,
    },
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $limit:expr, $valid:expr, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Parses a name.
            ///
            /// # Errors
            /// [`NameError`] when the text is empty, too long, or has a character that is not allowed.
            pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
                let name = name.as_ref();
                if name.is_empty() {
                    return Err(NameError::Empty { what: $what });
                }
                if name.len() > $limit {
                    return Err(NameError::TooLong { what: $what, length: name.len(), limit: $limit });
                }
                let valid: fn(char) -> bool = $valid;
                if name == "." || name == ".." || !name.chars().all(valid) {
                    return Err(NameError::Invalid { what: $what, name: name.to_owned(), allowed: $allowed });
                }
                Ok(Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The name as a shared text, without copying it.
            pub fn as_arc(&self) -> &Arc<str> {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
    };
}

name!(
    /// The name under which the registry knows a Kafka cluster.
    ClusterName, "cluster", MAX_NAME_LENGTH, |c| c != '/' && !c.is_control() && !c.is_whitespace(),
    "no '/', white space or control characters"
);
name!(
    /// A topic's name, the same in the registry and on every cluster.
    TopicName, "topic", MAX_TOPIC_LENGTH, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'),
    "ASCII letters, digits, '.', '_' and '-' are"
);
name!(
    /// A consumer group's name, the same in the registry and on every cluster.
    GroupName, "group", MAX_NAME_LENGTH, |c| c != '/' && !c.is_control() && !c.is_whitespace(),
    "no '/', white space or control characters"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_follow_kafkas_rules() {
        assert_eq!(TopicName::new("orders.v1_A-2").unwrap().as_str(), "orders.v1_A-2");
        assert_eq!(TopicName::new(""), Err(NameError::Empty { what: "topic" }));
        assert!(matches!(TopicName::new("a b"), Err(NameError::Invalid { .. })));
        assert!(matches!(TopicName::new(".."), Err(NameError::Invalid { .. })));
        assert!(TopicName::new("x".repeat(249)).is_ok());
        assert!(matches!(TopicName::new("x".repeat(250)), Err(NameError::TooLong { length: 250, .. })));
    }

    #[test]
    fn names_stay_one_path_segment() {
        assert!(matches!(GroupName::new("a/b"), Err(NameError::Invalid { .. })));
        assert!(matches!(ClusterName::new("a\0"), Err(NameError::Invalid { .. })));
        assert!(GroupName::new("计费").is_ok());
    }
}
