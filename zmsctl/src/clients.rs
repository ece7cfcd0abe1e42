//! `zmsctl clients`: who is connected.

use clap::Args;
use serde_json::{Value, json};
use zms_sdk::{
    GroupName, TopicName,
    admin::{Admin, AdminError, LiveClient},
};

use crate::{failure::Failure, view::View};

const COLUMNS: &[&str] = &["role", "of", "ip", "instance", "version", "started", "data"];

/// Without arguments: the clients of all topics and groups.
#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    /// The producers of a topic.
    #[arg(long)]
    topic: Vec<TopicName>,
    /// The members of a group.
    #[arg(long)]
    group: Vec<GroupName>,
}

impl ClientsArgs {
    pub(crate) async fn run(mut self, admin: &Admin) -> Result<View, Failure> {
        let all = self.topic.is_empty() && self.group.is_empty();
        if all {
            let topics = admin.topics().await?;
            let groups = admin.groups().await?;
            self.topic = topics.iter().filter_map(|entry| TopicName::new(&entry.name).ok()).collect();
            self.group = groups.iter().filter_map(|entry| GroupName::new(&entry.name).ok()).collect();
        }
        let mut rows = Vec::new();
        for topic in &self.topic {
            collect(&mut rows, ("producer", topic.as_str()), admin.producers(topic).await, all)?;
        }
        for group in &self.group {
            collect(&mut rows, ("member", group.as_str()), admin.members(group).await, all)?;
        }
        Ok(View::Many { columns: COLUMNS, rows })
    }
}

/// Adds the clients of one entry. Among all of them, one that was removed meanwhile has none.
fn collect(
    rows: &mut Vec<Value>,
    of: (&str, &str),
    clients: Result<Vec<LiveClient>, AdminError>,
    all: bool,
) -> Result<(), Failure> {
    let clients = match clients {
        Err(AdminError::Missing { .. }) if all => Vec::new(),
        clients => clients?,
    };
    rows.extend(clients.iter().map(|client| row(of, client)));
    Ok(())
}

fn row((role, of): (&str, &str), client: &LiveClient) -> Value {
    json!({
        "role": role,
        "of": of,
        "ip": client.ip,
        "instance": client.instance,
        "version": client.version,
        "started": client.started,
        "proto": client.proto,
        "data": client.data,
        "node": client.node,
    })
}
