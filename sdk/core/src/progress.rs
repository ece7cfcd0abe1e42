//! What is written beside a committed position: which messages above it are done already.
//!
//! A position alone says that everything below it is done. Where messages end out of order, those done above it would
//! be handled again after a crash; so the commit carries them as a text, its *metadata*. The format is a contract
//! with members of other versions, and `docs/compatibility.md` states it:
//!
//! ```text
//! zms1 start:<id> done:<base64url>
//! ```
//!
//! Words stand apart by spaces. The first names the version; words that a reader does not know are passed over. Other
//! programs may write whatever they like there, and copy what they find to another position or another cluster: text
//! that is not of this format, or not of this position, counts as none. That is always safe, for then the position
//! alone counts, and some messages are handled again.

mod base64;
mod done_set;
mod done_word;

pub use done_set::DoneSet;

/// The first word: the format's version.
const VERSION: &str = "zms1";
const START: &str = "start:";
const DONE: &str = "done:";
/// No text longer than this is looked at. Brokers take 4,096 bytes unless told otherwise.
const LONGEST_TEXT: usize = 64 << 10;

/// What a commit says beside its position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The move that fixed this position as its start. Stands only in the commit that does so.
    pub start: Option<StartTag>,
    /// Offsets above the position that are done.
    pub done: DoneSet,
}

/// The name of a move, as positions carry it: 1 to 64 letters, digits, `.`, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StartTag(String);

/// A text that is no [`StartTag`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a start tag is 1 to 64 letters, digits, '.', '_' or '-'")]
pub struct InvalidStartTag;

impl StartTag {
    const LONGEST: usize = 64;

    /// Checks and wraps a name.
    ///
    /// # Errors
    /// [`InvalidStartTag`] when it is empty, too long, or has another character.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidStartTag> {
        let text = text.into();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > Self::LONGEST || !text.bytes().all(fits) {
            return Err(InvalidStartTag);
        }
        Ok(Self(text))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Progress {
    /// The text to commit with `position`, at most `limit` bytes of ASCII. When not everything fits, it says of as
    /// long a stretch above the position as does; empty when there is nothing to say, or no room for anything.
    pub fn encode(&self, position: i64, limit: usize) -> String {
        let mut text = VERSION.to_owned();
        if let Some(tag) = &self.start {
            text.extend([" ", START, tag.as_str()]);
        }
        if text.len() > limit {
            return String::new();
        }
        let room = (limit - text.len()).saturating_sub(" ".len() + DONE.len());
        match done_word::encode(position, &self.done, room) {
            Some(word) => text.extend([" ", DONE, &word]),
            None if self.start.is_none() => text.clear(),
            None => {}
        }
        text
    }

    /// Reads the text that was committed with `position`; `None` when it is not of this format. A `done:` word that
    /// cannot be read, or belongs to another position, counts as absent.
    pub fn decode(position: i64, text: &str) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some(VERSION) {
            return None;
        }
        let mut progress = Self::default();
        for word in words {
            if let Some(tag) = word.strip_prefix(START) {
                progress.start = Some(StartTag::new(tag).ok()?);
            } else if let Some(content) = word.strip_prefix(DONE) {
                progress.done = done_word::decode(position, content).unwrap_or_default();
            }
        }
        Some(progress)
    }
}

#[cfg(test)]
mod tests;
