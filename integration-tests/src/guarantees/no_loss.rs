//! G1.

use zms_core::sequence::Checker;

use super::{Guarantee, Record};

/// What was acknowledged to a sender is handled.
#[derive(Debug, Default)]
pub(super) struct NoLoss {
    checker: Checker,
}

impl Guarantee for NoLoss {
    fn name(&self) -> &'static str {
        "G1 no loss"
    }

    fn acknowledged(&mut self, record: &Record) {
        self.checker.acknowledged(&record.stream, record.number);
    }

    fn ended(&mut self, record: &Record, done: bool) {
        if done {
            self.checker.handled(&record.stream, record.number, &record.at);
        }
    }

    fn outstanding(&self) -> u64 {
        self.checker.outstanding()
    }

    fn verdict(&self) -> Result<(), String> {
        let report = self.checker.report();
        if report.lost.count == 0 { Ok(()) } else { Err(report.to_string()) }
    }
}
