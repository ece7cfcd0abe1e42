//! The migration record of a topic, as far as clients that only follow it read it.
//!
//! Whoever coordinates a move writes more into the record than is read here. A client that does not understand a
//! record must not guess: an unknown schema or phase is a value, [`Phase::Unknown`], on which traffic is held.

use std::fmt;

use crate::{
    meta::{Document, Key, MetaError},
    name::ClusterName,
};

const ID: Key = Key { properties: "id", json: &["id"] };
const PHASE: Key = Key { properties: "phase", json: &["phase"] };
const MODE: Key = Key { properties: "mode", json: &["mode"] };
const ROUND: Key = Key { properties: "round", json: &["round"] };
const FROM: Key = Key { properties: "from", json: &["from"] };
const TO: Key = Key { properties: "to", json: &["to"] };
const TAIL: Key = Key { properties: "tail", json: &["tail"] };

/// The highest schema that this version follows.
pub const SCHEMA: u64 = 1;

/// How far a move is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// No move is running.
    Idle,
    /// Start positions on the target are being fixed.
    Init,
    /// Clients make ready for the target.
    Prepare,
    /// Producers hold new sends and finish what is in flight.
    Fence,
    /// Strict mode: the source is being closed and its ends are read.
    Cut,
    /// Fast mode: producers leave the source.
    Settle,
    /// Groups handle the source up to its marks, then move.
    Drain,
    /// The cluster left behind is closed and its final end handled.
    Closing,
    /// Something that this version does not know: a phase, or a schema.
    Unknown(String),
}

impl Phase {
    fn from_text(text: &str) -> Self {
        match text {
            "idle" => Self::Idle,
            "init" => Self::Init,
            "prepare" => Self::Prepare,
            "fence" => Self::Fence,
            "cut" => Self::Cut,
            "settle" => Self::Settle,
            "drain" => Self::Drain,
            "closing" => Self::Closing,
            other => Self::Unknown(format!("phase {other:?}")),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Init => "init",
            Self::Prepare => "prepare",
            Self::Fence => "fence",
            Self::Cut => "cut",
            Self::Settle => "settle",
            Self::Drain => "drain",
            Self::Closing => "closing",
            Self::Unknown(what) => return write!(f, "unknown {what}"),
        })
    }
}

/// What a move promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Order per key, as long as no producer loses its session.
    Ordered,
    /// Order always: the source is closed at the broker before its ends are read.
    Strict,
    /// Order per producer, without holding sends.
    Fast,
    /// The source is dead.
    Forced,
    /// Something that this version does not know. Which phases a move has does not depend on it for a follower.
    Unknown(String),
}

impl Mode {
    fn from_text(text: &str) -> Self {
        match text {
            "ordered" => Self::Ordered,
            "strict" => Self::Strict,
            "fast" => Self::Fast,
            "forced" => Self::Forced,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// The record of a topic's present or last move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationRecord {
    /// The move's id; empty if the record names none.
    pub id: String,
    /// How far it is.
    pub phase: Phase,
    /// What it promises.
    pub mode: Mode,
    /// Counts fences within the move.
    pub round: u64,
    /// The cluster that the topic leaves.
    pub from: Option<ClusterName>,
    /// The cluster that it goes to.
    pub to: Option<ClusterName>,
    /// In [`Phase::Closing`], the cluster that is being closed.
    pub tail: Option<ClusterName>,
}

impl MigrationRecord {
    /// Reads the record's data; `None` if it is empty: created and not yet filled.
    ///
    /// # Errors
    /// [`MetaError`] if it is no record at all: too large, not JSON, or a field of the wrong type. An unknown schema,
    /// phase or mode is not an error.
    pub fn parse(path: &str, data: &[u8]) -> Result<Option<Self>, MetaError> {
        let Some(document) = Document::parse(path, data)? else { return Ok(None) };
        document.require_json()?;
        match document.schema()? {
            Some(schema) if schema > SCHEMA => Ok(Some(Self::of_unknown_schema(schema))),
            _ => Self::read(&document).map(Some),
        }
    }

    /// Whether a move is running, or may be.
    pub fn is_running(&self) -> bool {
        self.phase != Phase::Idle
    }

    fn read(document: &Document) -> Result<Self, MetaError> {
        let phase = document.text(&PHASE)?;
        let cluster = |key| document.parsed(key, "a cluster's name", |text| ClusterName::new(text).ok());
        Ok(Self {
            id: document.text(&ID)?.unwrap_or_default(),
            phase: Phase::from_text(&phase.ok_or_else(|| document.missing(&PHASE, "a phase such as idle"))?),
            mode: Mode::from_text(document.text(&MODE)?.as_deref().unwrap_or("ordered")),
            round: document.number(&ROUND)?,
            from: cluster(&FROM)?,
            to: cluster(&TO)?,
            tail: cluster(&TAIL)?,
        })
    }

    /// A record whose other fields may mean anything.
    fn of_unknown_schema(schema: u64) -> Self {
        let what = format!("schema {schema}");
        Self {
            id: String::new(),
            phase: Phase::Unknown(what.clone()),
            mode: Mode::Unknown(what),
            round: 0,
            from: None,
            to: None,
            tail: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATH: &str = "/zms/migration/orders";

    #[test]
    fn a_record_is_read_with_what_followers_need() {
        let data = br#"{"schema":1,"id":"m7","phase":"closing","mode":"strict","round":3,"from":"a","to":"b",
            "tail":"a","closed":{"from":true},"history":[1]}"#;
        let record = MigrationRecord::parse(PATH, data).unwrap().unwrap();
        let name = |name| Some(ClusterName::new(name).unwrap());
        let expected = MigrationRecord {
            id: "m7".to_owned(),
            phase: Phase::Closing,
            mode: Mode::Strict,
            round: 3,
            from: name("a"),
            to: name("b"),
            tail: name("a"),
        };
        assert_eq!(record, expected);
    }

    #[test]
    fn an_idle_record_and_an_empty_node_run_no_move() {
        let record = MigrationRecord::parse(PATH, br#"{"schema":1,"phase":"idle"}"#).unwrap().unwrap();
        assert!(!record.is_running());
        assert_eq!(MigrationRecord::parse(PATH, b""), Ok(None));
    }

    #[test]
    fn an_unknown_phase_or_schema_is_a_value() {
        let record = MigrationRecord::parse(PATH, br#"{"schema":1,"phase":"warp"}"#).unwrap().unwrap();
        assert_eq!(record.phase, Phase::Unknown("phase \"warp\"".to_owned()));
        let record =
            MigrationRecord::parse(PATH, br#"{"schema":2,"phase":{"new":"shape"}}"#).unwrap().unwrap();
        assert_eq!(record.phase, Phase::Unknown("schema 2".to_owned()));
        assert!(record.is_running());
    }

    #[test]
    fn what_is_no_record_is_an_error_with_the_field() {
        assert!(matches!(MigrationRecord::parse(PATH, b"phase=idle"), Err(MetaError::Syntax { .. })));
        let error = MigrationRecord::parse(PATH, br#"{"schema":1}"#).unwrap_err().to_string();
        assert!(error.contains("phase") && error.contains(PATH), "{error}");
        let error = MigrationRecord::parse(PATH, br#"{"schema":1,"phase":"fence","round":-1}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("round"), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = MigrationRecord::parse(PATH, &bytes);
        }
    }
}
