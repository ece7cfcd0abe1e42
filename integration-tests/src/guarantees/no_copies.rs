//! Half of G4: what holds for an idempotent sender even where deliveries may repeat.

use zms_core::sequence::Checker;

use super::{Guarantee, Record};

/// Nothing is stored twice.
#[derive(Debug, Default)]
pub(super) struct NoCopies {
    checker: Checker,
}

impl Guarantee for NoCopies {
    fn name(&self) -> &'static str {
        "G4 nothing stored twice"
    }

    fn ended(&mut self, record: &Record, done: bool) {
        if done {
            self.checker.handled(&record.stream, record.number, &record.at);
        }
    }

    fn verdict(&self) -> Result<(), String> {
        let report = self.checker.report();
        if report.copied.count == 0 { Ok(()) } else { Err(report.to_string()) }
    }
}
