//! One measurement, as the frame hands it to the process that carries it out.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;

/// What one process measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// The work's name.
    pub(crate) work: String,
    /// The side's name: `ours`, or an incumbent.
    pub(crate) side: String,
    /// Bootstrap servers of the cluster.
    pub(crate) bootstrap: String,
    /// Connect string of the registry that knows the topic and the group.
    pub(crate) registry: Option<String>,
    /// The topic, which exists and is empty or holds exactly `messages`.
    pub(crate) topic: String,
    /// A group that nobody used before.
    pub(crate) group: String,
    /// Messages to measure.
    pub(crate) messages: u64,
    /// Whether the cluster is librdkafka's mock.
    pub(crate) mock: bool,
    /// How long one partition is stuck, in the work that is about that.
    pub(crate) stuck: Duration,
}

impl Job {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "work": self.work,
            "side": self.side,
            "bootstrap": self.bootstrap,
            "registry": self.registry,
            "topic": self.topic,
            "group": self.group,
            "messages": self.messages,
            "mock": self.mock,
            "stuck_secs": self.stuck.as_secs(),
        })
    }

    pub(crate) fn from_json(text: &str) -> Result<Self, Failure> {
        let value: Value = serde_json::from_str(text)?;
        let text = |field: &str| {
            value[field].as_str().map(str::to_owned).ok_or_else(|| format!("a job without {field}"))
        };
        Ok(Self {
            work: text("work")?,
            side: text("side")?,
            bootstrap: text("bootstrap")?,
            registry: value["registry"].as_str().map(str::to_owned),
            topic: text("topic")?,
            group: text("group")?,
            messages: value["messages"].as_u64().ok_or("a job without messages")?,
            mock: value["mock"].as_bool().ok_or("a job without mock")?,
            stuck: Duration::from_secs(value["stuck_secs"].as_u64().ok_or("a job without stuck_secs")?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_way_to_its_process() {
        let job = Job {
            work: "produce".to_owned(),
            side: "ours".to_owned(),
            bootstrap: "127.0.0.1:9092".to_owned(),
            registry: None,
            topic: "t".to_owned(),
            group: "g".to_owned(),
            messages: 7,
            mock: true,
            stuck: Duration::from_secs(60),
        };
        assert_eq!(Job::from_json(&job.to_json().to_string()).unwrap(), job);
    }

    #[test]
    fn a_job_that_lacks_a_field_is_refused_by_name() {
        let failure = Job::from_json(r#"{"work":"produce"}"#).unwrap_err();
        assert!(failure.to_string().contains("side"), "{failure}");
    }
}
