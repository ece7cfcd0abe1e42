//! The verdict of a run, and how it is shown.

use std::time::Duration;

use serde_json::{Value, json};

use super::{VerifyArgs, tally::Summary};
use crate::{
    failure::Failure,
    text::{counted, visible},
    view::{View, fields},
};

/// What a run comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Clean,
    Loss,
    Duplicates,
    Reordering,
    Several,
    Unfinished,
    NotAcknowledged,
}

impl Verdict {
    fn of(summary: &Summary) -> Self {
        let kinds = [
            (summary.lost > 0, Self::Loss),
            (duplicates(summary) > 0, Self::Duplicates),
            (summary.report.reordered.count > 0, Self::Reordering),
        ];
        let mut broken = kinds.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, verdict)| verdict);
        match (broken.next(), broken.next()) {
            (Some(_), Some(_)) => Self::Several,
            (Some(one), None) => one,
            _ if summary.unfinished > 0 => Self::Unfinished,
            _ if summary.not_sent + summary.unknown > 0 => Self::NotAcknowledged,
            _ => Self::Clean,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Loss => "loss",
            Self::Duplicates => "duplicates",
            Self::Reordering => "reordering",
            Self::Several => "several",
            Self::Unfinished => "unfinished",
            Self::NotAcknowledged => "not acknowledged",
        }
    }

    fn failure(self, summary: &Summary) -> Option<Failure> {
        let found = |what: String, code| Some(Failure::Found { what, code });
        let messages = |number, what: &str| format!("{} {what}", counted(number, "message"));
        match self {
            Self::Clean => None,
            Self::Loss => found(messages(summary.lost, "lost"), 10),
            Self::Duplicates => found(messages(duplicates(summary), "handled twice"), 11),
            Self::Reordering => found(messages(summary.report.reordered.count, "handled out of order"), 12),
            Self::Several => {
                let (duplicates, reordered) = (duplicates(summary), summary.report.reordered.count);
                let lost = messages(summary.lost, "lost");
                found(format!("{lost}, {duplicates} handled twice, {reordered} out of order"), 13)
            }
            Self::Unfinished => found(messages(summary.unfinished, "not handled in time"), 14),
            Self::NotAcknowledged => {
                let reason = summary.first_failure.as_deref().unwrap_or("no reason given");
                let failed = counted(summary.not_sent + summary.unknown, "message");
                Some(Failure::NotAcknowledged(format!("{failed} not acknowledged; the first: {reason}")))
            }
        }
    }
}

fn duplicates(summary: &Summary) -> u64 {
    summary.report.redelivered.count + summary.report.copied.count
}

pub(super) fn view(args: &VerifyArgs, summary: &Summary, took: Duration) -> View {
    let verdict = Verdict::of(summary);
    let value = json!({
        "verdict": verdict.name(),
        "topic": args.topic.as_str(),
        "group": args.group.as_str(),
        "clusters": summary.clusters,
        "sent": summary.sent,
        "acknowledged": summary.report.acknowledged,
        "notSent": summary.not_sent,
        "unknown": summary.unknown,
        "handled": summary.report.handled,
        "lost": summary.lost,
        "handledAgain": summary.report.redelivered.count,
        "storedTwice": summary.report.copied.count,
        "reordered": summary.report.reordered.count,
        "unfinished": summary.unfinished,
        "foreign": summary.foreign,
        "milliseconds": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "examples": summary.examples,
    });
    View::Report { text: text(&value, summary), failure: verdict.failure(summary), value }
}

fn text(value: &Value, summary: &Summary) -> String {
    let mut shown = value.clone();
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("examples");
    }
    let examples = summary.examples.iter().map(|example| visible(example) + "\n");
    examples.fold(fields(&shown), |text, example| text + &example)
}

#[cfg(test)]
mod tests {
    use zms_core::sequence::Report;

    use super::*;

    fn summary() -> Summary {
        Summary {
            sent: 1,
            not_sent: 0,
            unknown: 0,
            foreign: 0,
            lost: 0,
            unfinished: 0,
            report: Report::default(),
            first_failure: None,
            clusters: std::collections::BTreeSet::new(),
            examples: Vec::new(),
        }
    }

    fn code(change: impl FnOnce(&mut Summary)) -> Option<u8> {
        let mut summary = summary();
        change(&mut summary);
        Verdict::of(&summary).failure(&summary).map(|failure| failure.code())
    }

    #[test]
    fn each_kind_has_its_exit_code_and_several_have_one_too() {
        assert_eq!(code(|_| ()), None);
        assert_eq!(code(|summary| summary.foreign = 7), None);
        assert_eq!(code(|summary| summary.lost = 1), Some(10));
        assert_eq!(code(|summary| summary.report.redelivered.count = 1), Some(11));
        assert_eq!(code(|summary| summary.report.copied.count = 1), Some(11));
        assert_eq!(code(|summary| summary.report.reordered.count = 1), Some(12));
        assert_eq!(code(|summary| (summary.lost, summary.report.reordered.count) = (1, 1)), Some(13));
        assert_eq!(code(|summary| summary.unfinished = 1), Some(14));
        assert_eq!(code(|summary| (summary.unfinished, summary.lost) = (1, 1)), Some(10));
        assert_eq!(code(|summary| summary.not_sent = 1), Some(9));
    }
}
