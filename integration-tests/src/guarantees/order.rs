//! G3.

use std::collections::BTreeMap;

use zms_core::sequence::Order;

use super::{Guarantee, Record, Violations};

/// Calls of one lane come one at a time and in order.
#[derive(Debug)]
pub(super) struct OrderOf {
    name: &'static str,
    /// The lane that a message belongs to, and its number there.
    place: fn(&Record) -> Option<(String, u64)>,
    lanes: BTreeMap<String, Order>,
    violations: Violations,
}

impl OrderOf {
    /// Lanes are partitions, numbered by offset.
    pub(super) fn partitions() -> Self {
        Self::new("G3 order of partitions", |record| {
            Some((format!("{}/{}", record.at.cluster, record.at.partition), record.offset()?))
        })
    }

    /// Lanes are the keys of one sender, numbered by it: across partitions and clusters.
    pub(super) fn keys() -> Self {
        Self::new("G3 order of keys", |record| {
            Some((format!("key `{}` from `{}`", record.stream.key, record.stream.producer), record.number))
        })
    }

    fn new(name: &'static str, place: fn(&Record) -> Option<(String, u64)>) -> Self {
        Self { name, place, lanes: BTreeMap::new(), violations: Violations::default() }
    }
}

impl Guarantee for OrderOf {
    fn name(&self) -> &'static str {
        self.name
    }

    fn started(&mut self, record: &Record) {
        let Some((lane, number)) = (self.place)(record) else { return };
        if let Err(how) = self.lanes.entry(lane.clone()).or_default().start(number) {
            self.violations.add(|| format!("{lane}: {how} ({record})"));
        }
    }

    fn ended(&mut self, record: &Record, done: bool) {
        let Some((lane, number)) = (self.place)(record) else { return };
        self.lanes.entry(lane).or_default().end(number, done);
    }

    fn verdict(&self) -> Result<(), String> {
        self.violations.verdict()
    }
}
