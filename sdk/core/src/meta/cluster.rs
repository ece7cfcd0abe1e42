//! The node of a cluster: `/zms/cluster/<cluster>`.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;

use super::{Document, Format, Key, MetaError};

const BOOTSTRAP: Key = Key { properties: "bootAddr", json: &["bootstrap"] };
const BROKER: Key = Key { properties: "brokerType", json: &["broker"] };
const KAFKA_ID: Key = Key { properties: "clusterId", json: &["clusterId"] };
const PROPERTIES: Key = Key { properties: "properties.", json: &["properties"] };

/// What kind of broker a cluster runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BrokerKind {
    /// Apache Kafka, or what speaks its protocol. Also what a node means that says nothing.
    #[default]
    Kafka,
    /// Apache `RocketMQ`. ZMS knows it; this SDK has no engine for it.
    RocketMq,
    /// Anything else, as found.
    Other(String),
}

impl BrokerKind {
    fn from_text(text: Option<&str>) -> Self {
        match text {
            None => Self::Kafka,
            Some(text) if text.eq_ignore_ascii_case("kafka") => Self::Kafka,
            Some(text) if text.eq_ignore_ascii_case("rocketmq") => Self::RocketMq,
            Some(text) => Self::Other(text.to_owned()),
        }
    }

    /// The kind as the registry spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Kafka => "kafka",
            Self::RocketMq => "rocketmq",
            Self::Other(text) => text,
        }
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The node of a cluster. Change its fields and [`encode`](Self::encode) it: all else in the node stays.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterMeta {
    /// Bootstrap servers as found, `host:port` separated by commas; empty if the node names none.
    pub bootstrap: String,
    /// The kind of broker.
    pub broker: BrokerKind,
    /// Kafka's own cluster id, if stated (`clusterId`).
    pub kafka_id: Option<String>,
    /// librdkafka properties, not yet checked against the allow-list. In `.properties` text their keys begin with
    /// `properties.`; Java services pass over those.
    pub properties: BTreeMap<String, String>,
    document: Document,
}

impl ClusterMeta {
    /// A Kafka cluster for a node to be created.
    pub fn new(path: &str, format: Format, bootstrap: impl Into<String>) -> Self {
        let mut document = Document::new(path, format);
        document.set_text(&BROKER, Some(BrokerKind::Kafka.as_str()));
        Self {
            bootstrap: bootstrap.into(),
            broker: BrokerKind::Kafka,
            kafka_id: None,
            properties: BTreeMap::new(),
            document,
        }
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
        Ok(Self {
            bootstrap: document.text(&BOOTSTRAP)?.unwrap_or_default(),
            broker: BrokerKind::from_text(document.text(&BROKER)?.as_deref()),
            kafka_id: document.text(&KAFKA_ID)?,
            properties: document.table(&PROPERTIES)?,
            document,
        })
    }

    /// The data to write: in the format of the node, with every field that is not known here.
    pub fn encode(&self) -> Bytes {
        let mut document = self.document.clone();
        document.set_text(&BOOTSTRAP, Some(self.bootstrap.trim()).filter(|text| !text.is_empty()));
        let found = document.text(&BROKER).ok().flatten();
        if BrokerKind::from_text(found.as_deref()) != self.broker {
            document.set_text(&BROKER, Some(self.broker.as_str()));
        }
        document.set_text(&KAFKA_ID, self.kafka_id.as_deref());
        document.set_table(&PROPERTIES, &self.properties);
        document.encode()
    }

    /// The node's format.
    pub fn format(&self) -> Format {
        self.document.format()
    }
}

impl fmt::Debug for ClusterMeta {
    /// Property values are left out: a careless registry may hold a secret in plain text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMeta")
            .field("bootstrap", &self.bootstrap)
            .field("broker", &self.broker)
            .field("kafka_id", &self.kafka_id)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
