//! `zmsctl group lag`.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use zms_sdk::{
    ClusterName, GroupName, TopicName,
    admin::Admin,
    engine::port::{ClusterAdmin, EngineError, FailureKind, GroupMember, LogRange, Position},
};

use crate::{
    context::{ask, open_cluster},
    failure::Failure,
    print::note,
    view::View,
};

const COLUMNS: &[&str] = &["partition", "committed", "end", "lag", "member", "clientId", "host"];

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn run(
    admin: &Admin,
    name: GroupName,
    cluster: Option<ClusterName>,
    limit: Duration,
) -> Result<View, Failure> {
    let group = admin.group(&name).await?;
    let cluster = cluster.unwrap_or_else(|| group.cluster.clone());
    let client = open_cluster(&cluster, &admin.cluster(&cluster).await?)?;
    if group.broadcast {
        note(&format!(
            "{name} is a broadcast group: its instances keep positions of their own, not the group's"
        ));
    }
    let topic = group.topic.clone();
    let (on, what) = (cluster.clone(), format!("the lag of group {name} on topic {topic} is not known"));
    let found = ask(move || {
        Found::ask(&client, &name, &topic, limit).map_err(|error| Failure::Cluster {
            cluster: on,
            what,
            error,
        })
    })
    .await?;
    let rows = found.rows();
    let total: i64 = rows.iter().filter_map(|row| row["lag"].as_i64()).sum();
    note(&format!("topic {} on cluster {cluster}: {total} messages behind in all", group.topic));
    Ok(View::Many { columns: COLUMNS, rows })
}

/// What the cluster told.
struct Found {
    committed: BTreeMap<i32, i64>,
    logs: Vec<LogRange>,
    members: Vec<GroupMember>,
}

impl Found {
    /// Blocking. Positions before ends, so that a group that keeps up is never ahead of its log.
    fn ask(
        client: &Arc<dyn ClusterAdmin>,
        group: &GroupName,
        topic: &TopicName,
        limit: Duration,
    ) -> Result<Self, EngineError> {
        let committed = patiently(limit, || client.committed(group, topic, limit))?;
        let logs = client.log_ranges(topic, limit)?;
        let members = client.members(group, topic, limit).unwrap_or_else(|error| {
            note(&format!("members are left out: {error}"));
            Vec::new()
        });
        let committed = committed.into_iter().map(|Position { partition, offset, .. }| (partition, offset));
        Ok(Self { committed: committed.collect(), logs, members })
    }

    fn rows(&self) -> Vec<Value> {
        (0..).zip(&self.logs).map(|(partition, log)| self.row(partition, *log)).collect()
    }

    fn row(&self, partition: i32, log: LogRange) -> Value {
        let committed = self.committed.get(&partition).copied();
        // Messages deleted meanwhile are not to be handled any more. Without a position all that is there counts.
        let from = committed.unwrap_or(log.low).max(log.low);
        let member = self.members.iter().find(|member| member.partitions.contains(&partition));
        json!({
            "partition": partition,
            "committed": committed,
            "end": log.high,
            "lag": (log.high - from).max(0),
            "member": member.map(|member| &member.id),
            "clientId": member.map(|member| &member.client_id),
            "host": member.map(|member| &member.host),
        })
    }
}

/// A cluster that looks for a group's coordinator for the first time says for some moments that there is none.
fn patiently<T>(limit: Duration, ask: impl Fn() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let until = Instant::now() + limit;
    loop {
        match ask() {
            Err(error) if error.kind == FailureKind::Other && Instant::now() < until => {
                std::thread::sleep(AGAIN);
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_counts_what_is_there_and_not_handled() {
        let log = |low, high| LogRange { low, high };
        let member = GroupMember {
            id: "m-1".to_owned(),
            client_id: "billing".to_owned(),
            host: "/10.0.0.1".to_owned(),
            partitions: vec![0, 1],
        };
        let found = Found {
            committed: [(0, 5), (1, 2), (2, 9)].into(),
            logs: vec![log(0, 12), log(4, 10), log(0, 8), log(3, 7)],
            members: vec![member],
        };
        let rows = found.rows();
        let lags: Vec<i64> = rows.iter().map(|row| row["lag"].as_i64().unwrap()).collect();
        assert_eq!(lags, [7, 6, 0, 4], "behind, partly deleted, the log started over, no position");
        assert_eq!((&rows[1]["member"], &rows[1]["clientId"]), (&json!("m-1"), &json!("billing")));
        assert!(rows[2]["member"].is_null() && rows[3]["committed"].is_null());
    }
}
