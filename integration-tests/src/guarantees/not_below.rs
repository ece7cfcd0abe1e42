//! The bound of what may be delivered again after a crash.

use std::collections::{BTreeMap, BTreeSet};

use super::{Guarantee, Record, Violations};

/// What lies below a committed position, or is noted as done beside one, is not delivered again.
#[derive(Debug, Default)]
pub(super) struct NotBelowCommitted {
    committed: BTreeMap<(String, i32), i64>,
    noted: BTreeMap<(String, i32), BTreeSet<i64>>,
    violations: Violations,
}

impl Guarantee for NotBelowCommitted {
    fn name(&self) -> &'static str {
        "G4 nothing again that was committed"
    }

    fn started(&mut self, record: &Record) {
        let place = (record.at.cluster.clone(), record.at.partition);
        if let Some(committed) = self.committed.get(&place).filter(|position| record.at.offset < **position) {
            self.violations
                .add(|| format!("{record} was delivered after position {committed} was committed"));
        }
        if self.noted.get(&place).is_some_and(|noted| noted.contains(&record.at.offset)) {
            self.violations.add(|| format!("{record} was delivered after it was noted as done"));
        }
    }

    fn noted(&mut self, cluster: &str, partition: i32, offset: i64) {
        self.noted.entry((cluster.to_owned(), partition)).or_default().insert(offset);
    }

    fn committed(&mut self, cluster: &str, partition: i32, position: i64) {
        let known = self.committed.entry((cluster.to_owned(), partition)).or_default();
        *known = position.max(*known);
    }

    fn verdict(&self) -> Result<(), String> {
        self.violations.verdict()
    }
}
