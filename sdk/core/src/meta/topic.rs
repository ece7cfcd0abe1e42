//! The node of a topic: `/zms/topic/<topic>`.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Document, Format, Gate, Key, MetaError, gate::cluster_name};
use crate::name::ClusterName;

const CLUSTER: Key = Key { properties: "clusterName", json: &["cluster"] };
const TYPE: Key = Key { properties: "type", json: &["type"] };
const STATISTICS: Key = Key { properties: "statisticsLogger", json: &["statisticsLogger"] };
const PRODUCER: Key = Key { properties: "producer.", json: &["producer"] };

/// Where a topic's clients send their statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StatisticsLogger {
    /// To a statistics topic.
    #[default]
    Message,
    /// To a log.
    Disk,
    /// Anything else, as found; to be treated like [`StatisticsLogger::Message`].
    Other(String),
}

impl StatisticsLogger {
    fn from_text(text: Option<&str>) -> Self {
        match text {
            None => Self::Message,
            Some(text) if text.eq_ignore_ascii_case("message") => Self::Message,
            Some(text) if text.eq_ignore_ascii_case("disk") => Self::Disk,
            Some(text) => Self::Other(text.to_owned()),
        }
    }

    /// The setting as the registry spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Message => "message",
            Self::Disk => "disk",
            Self::Other(text) => text,
        }
    }
}

/// The node of a topic. Change its fields and [`encode`](Self::encode) it: all else in the node stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMeta {
    /// The cluster that the topic lives on.
    pub cluster: ClusterName,
    /// Gray release.
    pub gate: Option<Gate>,
    /// Where clients send their statistics.
    pub statistics: StatisticsLogger,
    /// Producer overrides (`profile`, `linger`, …), text as found, not yet checked. In `.properties` text their keys
    /// begin with `producer.`; Java services pass over those.
    pub producer: BTreeMap<String, String>,
    document: Document,
}

impl TopicMeta {
    /// A topic for a node to be created.
    pub fn new(path: &str, format: Format, cluster: ClusterName) -> Self {
        let mut document = Document::new(path, format);
        document.set_text(&CLUSTER, Some(cluster.as_str()));
        if format == Format::Properties {
            document.set_text(&TYPE, Some("topic"));
        }
        let (statistics, producer) = (StatisticsLogger::default(), BTreeMap::new());
        Self { cluster, gate: None, statistics, producer, document }
    }

    /// Reads a node's data; `None` if it is empty: created and not yet filled.
    ///
    /// # Errors
    /// [`MetaError`] with the path and field.
    pub fn parse(path: &str, data: &[u8]) -> Result<Option<Self>, MetaError> {
        Document::parse(path, data)?.map(Self::read).transpose()
    }

    fn read(document: Document) -> Result<Self, MetaError> {
        document.check_schema()?;
        let cluster = cluster_name(&document, &CLUSTER)?;
        Ok(Self {
            cluster: cluster.ok_or_else(|| document.missing(&CLUSTER, "the name of the topic's cluster"))?,
            gate: Gate::read(&document)?,
            statistics: StatisticsLogger::from_text(document.text(&STATISTICS)?.as_deref()),
            producer: document.table(&PRODUCER)?,
            document,
        })
    }

    /// The data to write: in the format of the node, with every field that is not known here.
    pub fn encode(&self) -> Bytes {
        let mut document = self.document.clone();
        document.set_text(&CLUSTER, Some(self.cluster.as_str()));
        Gate::write(self.gate.as_ref(), &mut document);
        let found = document.text(&STATISTICS).ok().flatten();
        if StatisticsLogger::from_text(found.as_deref()) != self.statistics {
            document.set_text(&STATISTICS, Some(self.statistics.as_str()));
        }
        document.set_table(&PRODUCER, &self.producer);
        document.encode()
    }

    /// The node's format.
    pub fn format(&self) -> Format {
        self.document.format()
    }
}
