//! `zmsctl doctor`: what is wrong, what it means, what to do.

mod estate;
mod finding;
mod kafka;
mod limits;
mod registry;
mod topic;

use clap::Args;
use serde_json::{Value, json};
use zms_sdk::{ClusterName, TopicName};

use self::{
    estate::{Estate, Scope},
    finding::{Finding, Severity},
};
use crate::{context::Context, failure::Failure, text::counted, view::View};

pub(crate) const ABOUT: &str = "\
Checks that entries can be read, refer to things that exist and agree with one another; that every cluster answers and
is the one that is meant; that clients can be opened with the settings of every topic and group; and that every topic
exists on its cluster, has leaders, and has limits that fit: those of brokers, topics, and producers by the registry.
Nothing is changed.

Clusters are asked in parallel, each with --wait for an answer, so that dead ones cost that time once.

Exit codes: 0 when there is no error (there may be warnings and notes), 20 with at least one error, 6 when the registry
itself does not answer.

Examples:
  zmsctl doctor
  zmsctl doctor --topic orders
  zmsctl doctor --cluster b --wait 3s
  zmsctl doctor --output json | jq '.findings[] | select(.severity == \"error\")'
";

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct DoctorArgs {
    /// Only this cluster, with the topics and groups on it.
    #[arg(long)]
    cluster: Option<ClusterName>,
    /// Only this topic, with its clusters and groups.
    #[arg(long)]
    topic: Option<TopicName>,
}

impl DoctorArgs {
    pub(crate) async fn run(self, context: &Context) -> Result<View, Failure> {
        match self.examine(context).await {
            Ok((scope, findings)) => Ok(report(&scope, &findings)),
            Err(failure) if failure.code() == 6 => Ok(no_registry(failure)),
            Err(failure) => Err(failure),
        }
    }

    async fn examine(&self, context: &Context) -> Result<(Scope, Vec<Finding>), Failure> {
        let admin = context.admin().await?;
        let (estate, mut findings) = Estate::read(&admin, self).await?;
        findings.extend(registry::check(&estate));
        findings.extend(kafka::check(&estate, context.wait()).await);
        findings.sort_by(|one, other| (one.severity, &one.subject).cmp(&(other.severity, &other.subject)));
        Ok((estate.scope, findings))
    }
}

fn report(scope: &Scope, findings: &[Finding]) -> View {
    let number = |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let (errors, warnings, notes) =
        (number(Severity::Error), number(Severity::Warning), number(Severity::Note));
    let (clusters, topics, groups) = (scope.clusters.len(), scope.topics.len(), scope.groups.len());
    let value = json!({
        "findings": findings.iter().map(Finding::json).collect::<Vec<Value>>(),
        "errors": errors,
        "warnings": warnings,
        "notes": notes,
        "checked": { "clusters": clusters, "topics": topics, "groups": groups },
    });
    let found =
        format!("{}, {}, {}", counted(errors, "error"), counted(warnings, "warning"), counted(notes, "note"));
    let checked = format!(
        "{}, {}, {}",
        counted(clusters as u64, "cluster"),
        counted(topics as u64, "topic"),
        counted(groups as u64, "group")
    );
    let listed: String = findings
        .iter()
        .map(|finding| {
            finding.text()
                + "
"
        })
        .collect();
    let text = format!(
        "{listed}{found}; checked {checked}
"
    );
    let failure = (errors > 0)
        .then(|| Failure::Found { what: format!("the doctor found {}", counted(errors, "error")), code: 20 });
    View::Report { value, text, failure }
}

/// Without the registry nothing can be checked; programs get the shape that they know.
fn no_registry(failure: Failure) -> View {
    let finding = Finding::error("registry", failure.to_string())
        .means("running clients go on with what they know; changes do not reach them, and new clients may not start")
        .todo("look whether ZooKeeper runs and whether --zk names its servers; --wait gives it more time");
    let View::Report { value, text, .. } = report(&Scope::default(), &[finding]) else {
        return View::Printed;
    };
    View::Report { value, text, failure: Some(failure) }
}
