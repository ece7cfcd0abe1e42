//! Arguments that several nouns share.

use std::collections::BTreeMap;

use clap::Args;
use zms_sdk::{
    ClusterName,
    admin::{Format, Gate, Safety},
};

/// How a new node is written.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum FormatArg {
    /// For estates without Java services of ZMS.
    #[default]
    Json,
    /// What Java services of ZMS read too.
    Properties,
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// How the node is written; later changes keep it.
    #[arg(long, value_enum, default_value_t, env = "ZMS_FORMAT")]
    format: FormatArg,
}

impl NewArgs {
    pub(crate) fn format(&self) -> Format {
        match self.format {
            FormatArg::Json => Format::Json,
            FormatArg::Properties => Format::Properties,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ForceArgs {
    /// Does it although something depends on it. A running migration is respected even so.
    #[arg(long)]
    force: bool,
}

impl ForceArgs {
    pub(crate) fn safety(&self) -> Safety {
        if self.force { Safety::Forced } else { Safety::Checked }
    }
}

/// Gray release.
#[derive(Debug, Args)]
pub(crate) struct GateArgs {
    /// Addresses of the clients that use another cluster.
    #[arg(long, value_delimiter = ',', requires = "gate_cluster", value_name = "ADDRESS,…")]
    gate_addresses: Vec<String>,
    /// The cluster that those clients use.
    #[arg(long, requires = "gate_addresses", value_name = "CLUSTER")]
    gate_cluster: Option<ClusterName>,
}

impl GateArgs {
    pub(crate) fn apply(&self, gate: &mut Option<Gate>) {
        if let Some(cluster) = &self.gate_cluster {
            *gate = Some(Gate { addresses: self.gate_addresses.clone(), cluster: cluster.clone() });
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct GateChangeArgs {
    #[command(flatten)]
    gate: GateArgs,
    /// Ends the gray release.
    #[arg(long, conflicts_with_all = ["gate_addresses", "gate_cluster"])]
    no_gate: bool,
}

impl GateChangeArgs {
    pub(crate) fn apply(&self, gate: &mut Option<Gate>) {
        if self.no_gate {
            *gate = None;
        }
        self.gate.apply(gate);
    }
}

/// Sets and removes settings.
pub(crate) fn apply(settings: &mut BTreeMap<String, String>, set: &[(String, String)], unset: &[String]) {
    settings.retain(|name, _| !unset.contains(name));
    settings.extend(set.iter().cloned());
}

/// Parses `name=value`.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("expected name=value".to_owned()),
    }
}

/// A gate for programs and people.
pub(crate) fn gate_json(gate: Option<&Gate>) -> serde_json::Value {
    gate.map_or(
        serde_json::Value::Null,
        |gate| serde_json::json!({ "addresses": gate.addresses, "cluster": gate.cluster.as_str() }),
    )
}
