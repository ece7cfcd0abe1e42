//! G4.

use zms_core::sequence::Checker;

use super::{Guarantee, Record};

/// Nothing is done twice: neither delivered again after it was done, nor stored twice.
#[derive(Debug, Default)]
pub(super) struct NoDuplicates {
    checker: Checker,
}

impl Guarantee for NoDuplicates {
    fn name(&self) -> &'static str {
        "G4 no duplicates"
    }

    fn ended(&mut self, record: &Record, done: bool) {
        if done {
            self.checker.handled(&record.stream, record.number, &record.at);
        }
    }

    fn verdict(&self) -> Result<(), String> {
        let report = self.checker.report();
        if report.redelivered.count + report.copied.count == 0 { Ok(()) } else { Err(report.to_string()) }
    }
}
