//! G2.

use std::collections::BTreeMap;

use zms_core::sequence::NumberSet;

use super::{Guarantee, Record, Violations};

/// The committed position of a partition is never above a message that is not done, and never goes back.
#[derive(Debug, Default)]
pub(super) struct AtLeastOnce {
    partitions: BTreeMap<(String, i32), Partition>,
    violations: Violations,
}

#[derive(Debug, Default)]
struct Partition {
    /// Offsets that are known to hold a message: acknowledged to a sender, or delivered.
    known: NumberSet,
    done: NumberSet,
    committed: u64,
}

impl Guarantee for AtLeastOnce {
    fn name(&self) -> &'static str {
        "G2 at least once"
    }

    /// An acknowledgement may be heard of after the position passed the message: that is fine if it was done.
    fn acknowledged(&mut self, record: &Record) {
        let Some(offset) = record.offset() else { return };
        let partition = self.partitions.entry((record.at.cluster.clone(), record.at.partition)).or_default();
        partition.known.insert(offset);
        if offset < partition.committed && !partition.done.contains(offset) {
            let committed = partition.committed;
            self.violations.add(|| format!("{record} was not done when position {committed} was committed"));
        }
    }

    fn started(&mut self, record: &Record) {
        if let Some(offset) = record.offset() {
            self.partition(&record.at.cluster, record.at.partition).known.insert(offset);
        }
    }

    fn ended(&mut self, record: &Record, done: bool) {
        if let Some(offset) = record.offset().filter(|_| done) {
            self.partition(&record.at.cluster, record.at.partition).done.insert(offset);
        }
    }

    fn committed(&mut self, cluster: &str, number: i32, position: i64) {
        let Ok(position) = u64::try_from(position) else { return };
        let partition = self.partitions.entry((cluster.to_owned(), number)).or_default();
        let before = partition.committed;
        partition.committed = position.max(before);
        if position < before {
            self.violations
                .add(|| format!("{cluster}/{number}: position {position} was committed after {before}"));
        }
        if let Some(unfinished) = partition.known.first_missing_below(position, &partition.done) {
            let how = || {
                format!(
                    "{cluster}/{number}: position {position} was committed when {unfinished} was not done"
                )
            };
            self.violations.add(how);
        }
    }

    fn verdict(&self) -> Result<(), String> {
        self.violations.verdict()
    }
}

impl AtLeastOnce {
    fn partition(&mut self, cluster: &str, partition: i32) -> &mut Partition {
        self.partitions.entry((cluster.to_owned(), partition)).or_default()
    }
}
