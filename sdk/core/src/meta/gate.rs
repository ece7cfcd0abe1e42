//! Gray release: named clients use another cluster.

use std::net::IpAddr;

use super::{Document, Key, MetaError};
use crate::name::ClusterName;

const ADDRESSES: Key = Key { properties: "gatedIps", json: &["gate", "addresses"] };
const CLUSTER: Key = Key { properties: "gatedCluster", json: &["gate", "cluster"] };

/// Clients at these addresses use this cluster in place of the node's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Addresses of clients.
    pub addresses: Vec<String>,
    /// The cluster that they use.
    pub cluster: ClusterName,
}

impl Gate {
    /// Whether a client with these addresses is meant: one of them is exactly one of the gate's entries.
    pub fn admits(&self, own: &[String]) -> bool {
        self.addresses.iter().any(|entry| own.iter().any(|address| same_address(entry, address)))
    }

    /// Reads a gate. One without addresses or without a cluster is none.
    pub(super) fn read(document: &Document) -> Result<Option<Self>, MetaError> {
        let addresses = document.list(&ADDRESSES)?;
        let cluster = cluster_name(document, &CLUSTER)?;
        Ok(cluster.filter(|_| !addresses.is_empty()).map(|cluster| Self { addresses, cluster }))
    }

    pub(super) fn write(gate: Option<&Self>, document: &mut Document) {
        if Self::read(document).is_ok_and(|found| found.as_ref() == gate) {
            return;
        }
        document.set_list(&ADDRESSES, gate.map_or(&[], |gate| &gate.addresses));
        document.set_text(&CLUSTER, gate.map(|gate| gate.cluster.as_str()));
    }
}

/// Reads a cluster's name.
pub(super) fn cluster_name(document: &Document, key: &Key) -> Result<Option<ClusterName>, MetaError> {
    document.parsed(key, "a cluster's name: no '/', no white space", |text| ClusterName::new(text).ok())
}

/// Texts that are the same address: equal, or two spellings of one IP address (`::1` and `0:0:0:0:0:0:0:1`).
fn same_address(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    if one.eq_ignore_ascii_case(other) {
        return !one.is_empty();
    }
    matches!((one.parse::<IpAddr>(), other.parse::<IpAddr>()), (Ok(one), Ok(other)) if one == other)
}
