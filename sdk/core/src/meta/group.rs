//! The node of a consumer group: `/zms/consumergroup/<group>`.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Document, Format, Gate, Key, MetaError, gate::cluster_name};
use crate::{
    name::{ClusterName, TopicName},
    route::ConsumeFrom,
};

const CLUSTER: Key = Key { properties: "clusterName", json: &["cluster"] };
const TYPE: Key = Key { properties: "type", json: &["type"] };
const TOPIC: Key = Key { properties: "bindingTopic", json: &["topic"] };
const BROADCAST: Key = Key { properties: "broadcast", json: &["broadcast"] };
const CONSUME_FROM: Key = Key { properties: "consumeFrom", json: &["consumeFrom"] };
const SUSPEND: Key = Key { properties: "suspend", json: &["suspend"] };
const CONSUMER: Key = Key { properties: "consumer.", json: &["consumer"] };

/// The node of a consumer group. Change its fields and [`encode`](Self::encode) it: all else in the node stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMeta {
    /// The cluster that the group reads from.
    pub cluster: ClusterName,
    /// The one topic that it is bound to. ZMS also allows a list of topics, which is refused here rather than half
    /// read.
    pub topic: TopicName,
    /// Gray release.
    pub gate: Option<Gate>,
    /// Every member gets every message.
    pub broadcast: bool,
    /// Where it begins without a committed position. Java services of ZMS know `earliest` and `latest` only.
    pub consume_from: ConsumeFrom,
    /// Nothing is handled.
    pub suspend: bool,
    /// Consumer overrides, text as found, not yet checked. In `.properties` text their keys begin with `consumer.`;
    /// Java services pass over those.
    pub consumer: BTreeMap<String, String>,
    document: Document,
}

impl GroupMeta {
    /// A group for a node to be created.
    pub fn new(path: &str, format: Format, topic: TopicName, cluster: ClusterName) -> Self {
        let mut document = Document::new(path, format);
        document.set_text(&TOPIC, Some(topic.as_str()));
        document.set_text(&CLUSTER, Some(cluster.as_str()));
        if format == Format::Properties {
            document.set_text(&TYPE, Some("consumergroup"));
        }
        document.set_text(&CONSUME_FROM, Some("earliest"));
        Self {
            cluster,
            topic,
            gate: None,
            broadcast: false,
            consume_from: ConsumeFrom::Earliest,
            suspend: false,
            consumer: BTreeMap::new(),
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
        let topic =
            document.parsed(&TOPIC, "the name of one topic, not a list", |text| TopicName::new(text).ok())?;
        let cluster = cluster_name(&document, &CLUSTER)?;
        let consume_from = document.parsed(&CONSUME_FROM, ConsumeFrom::ACCEPTED, |text| text.parse().ok())?;
        Ok(Self {
            cluster: cluster.ok_or_else(|| document.missing(&CLUSTER, "the name of the group's cluster"))?,
            topic: topic.ok_or_else(|| document.missing(&TOPIC, "the name of the group's topic"))?,
            gate: Gate::read(&document)?,
            broadcast: document.flag(&BROADCAST)?,
            consume_from: consume_from.unwrap_or_default(),
            suspend: document.flag(&SUSPEND)?,
            consumer: document.table(&CONSUMER)?,
            document,
        })
    }

    /// The data to write: in the format of the node, with every field that is not known here.
    pub fn encode(&self) -> Bytes {
        let mut document = self.document.clone();
        document.set_text(&CLUSTER, Some(self.cluster.as_str()));
        document.set_text(&TOPIC, Some(self.topic.as_str()));
        Gate::write(self.gate.as_ref(), &mut document);
        document.set_flag(&BROADCAST, self.broadcast);
        document.set_flag(&SUSPEND, self.suspend);
        let found: Option<ConsumeFrom> =
            document.parsed(&CONSUME_FROM, "", |text| text.parse().ok()).ok().flatten();
        if found.unwrap_or_default() != self.consume_from {
            document.set_text(&CONSUME_FROM, Some(&self.consume_from.to_string()));
        }
        document.set_table(&CONSUMER, &self.consumer);
        document.encode()
    }

    /// The node's format.
    pub fn format(&self) -> Format {
        self.document.format()
    }
}
