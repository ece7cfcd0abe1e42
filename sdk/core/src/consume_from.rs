//! Where a new group begins.

use std::{fmt, str::FromStr};

use crate::rfc3339::parse_millis;

/// Where a group begins on a partition that it has no position on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConsumeFrom {
    /// The oldest message still there.
    #[default]
    Earliest,
    /// Only messages sent after the first assignment.
    Latest,
    /// The first message whose timestamp is not before this one, in milliseconds since the Unix epoch; where there is
    /// none, messages sent after the first assignment.
    Timestamp(i64),
}

/// A text that says no place to begin at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a place to begin at: {text:?}; use {expected}",
    expected = ConsumeFrom::ACCEPTED
)]
pub struct NotAStart {
    text: String,
}

impl ConsumeFrom {
    /// What is accepted as text, in words.
    pub const ACCEPTED: &str =
        "earliest, latest, a time such as 2024-05-01T12:00:00Z, or timestamp:<milliseconds since 1970>";
}

impl FromStr for ConsumeFrom {
    type Err = NotAStart;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let time = || match lower.strip_prefix("timestamp:") {
            // A minus is refused: to the broker such numbers mean other things than times.
            Some(millis) => millis.trim().parse().ok().filter(|millis| *millis >= 0),
            None => parse_millis(&lower).filter(|millis| *millis >= 0),
        };
        match lower.as_str() {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            _ => {
                time().map(Self::Timestamp).ok_or_else(|| NotAStart { text: text.chars().take(64).collect() })
            }
        }
    }
}

impl fmt::Display for ConsumeFrom {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::Timestamp(millis) => write!(f, "timestamp:{millis}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        for from in
            [ConsumeFrom::Earliest, ConsumeFrom::Latest, ConsumeFrom::Timestamp(0), ConsumeFrom::Timestamp(7)]
        {
            assert_eq!(from.to_string().parse(), Ok(from));
        }
        assert_eq!("LATEST".parse(), Ok(ConsumeFrom::Latest));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(ConsumeFrom::Timestamp(1000)));
    }

    #[test]
    fn other_texts_are_refused_with_what_is_accepted() {
        for text in ["", "middle", "timestamp:", "timestamp:-1", "timestamp:soon", "1969-01-01T00:00:00Z"] {
            let refused = text.parse::<ConsumeFrom>().unwrap_err().to_string();
            assert!(refused.contains("earliest, latest"), "{refused}");
        }
    }
}
