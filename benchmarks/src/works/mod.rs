//! The works: what is measured, against whom, and with which goal.

mod bookkeeping;
mod consume;
mod feed;
mod fill;
mod java;
mod payload;
mod produce;
mod roundtrip;
mod schedule;
mod stuck;
mod tally;
mod waits;

use std::time::Duration;

use zms_sdk::{Subscriber, Zms};

use crate::{
    Failure,
    job::Job,
    settings::{self, Settings},
    statistics::Goal,
    stopwatch::Sample,
};

pub(crate) use feed::feed;
pub(crate) use fill::fill;

/// Everything that can be measured.
pub(crate) const ALL: &[Work] = &[
    roundtrip::WORK,
    produce::WORK,
    consume::BY_PARTITION,
    consume::BY_KEY,
    waits::BLOCKING,
    waits::ASYNC,
    stuck::WORK,
    bookkeeping::IN_ORDER,
    bookkeeping::OUT_OF_ORDER,
];

/// The name of our side.
pub(crate) const OURS: &str = "ours";

/// Carries a job out in this process.
pub(crate) type Measure = fn(&Job) -> Result<Sample, Failure>;

/// Makes ready what a side needs.
pub(crate) type Prepare = fn(&Preparation) -> Result<(), Failure>;

/// One thing that services do.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    /// In words for `list`.
    pub(crate) what: &'static str,
    /// What sides are compared by.
    pub(crate) metric: Metric,
    pub(crate) stage: Stage,
    /// Messages of one measurement, unless the user says otherwise.
    pub(crate) messages: u64,
    /// The most that the mock cluster can carry.
    pub(crate) mock_limit: u64,
    /// The librdkafka settings of both sides, by role.
    pub(crate) settings: &'static [(&'static str, Settings)],
    /// The SDK's producer profile with these settings.
    pub(crate) profile: &'static str,
    /// What else its heading tells, by the number of messages.
    pub(crate) note: Option<fn(u64) -> String>,
    pub(crate) ours: Measure,
    /// What our side should reach whatever the incumbents do.
    pub(crate) standards: &'static [Standard],
    pub(crate) incumbents: &'static [Incumbent],
}

/// What a work needs to stand ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No cluster: nothing is sent.
    Nowhere,
    /// A topic of its own for each measurement, empty.
    Fresh { partitions: i32 },
    /// One topic that all measurements read, filled before the first one.
    Filled {
        partitions: i32,
        /// How many keys its messages have; without one, they have none.
        keys: Option<u64>,
    },
}

/// What a service would use without the SDK.
pub(crate) struct Incumbent {
    pub(crate) name: &'static str,
    /// In words for `list`.
    pub(crate) what: &'static str,
    /// What ours by its figure should be.
    pub(crate) goal: Goal,
    /// What our CPU time per message by its own should be.
    pub(crate) cpu_goal: Option<Goal>,
    /// Fetches what it needs, or says why it cannot be measured here.
    pub(crate) prepare: Option<Prepare>,
    pub(crate) measure: Measure,
}

/// What is known before the first measurement.
pub(crate) struct Preparation {
    /// Whether the cluster is librdkafka's mock.
    pub(crate) mock: bool,
}

/// A figure of our side alone, and what it should be.
pub(crate) struct Standard {
    pub(crate) name: &'static str,
    pub(crate) of: fn(&Sample) -> f64,
    pub(crate) goal: Goal,
}

/// What sides are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Messages per second.
    Rate,
    /// The median latency of single messages.
    Latency,
}

impl Metric {
    /// The figure to compare; the unit is of no importance, since only ratios are taken.
    pub(crate) fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Rate => sample.rate(),
            Self::Latency => sample.latency.map_or(f64::NAN, |latency| latency.p50.as_secs_f64()),
        }
    }
}

impl Work {
    pub(crate) fn named(name: &str) -> Result<&'static Self, Failure> {
        ALL.iter()
            .find(|work| work.name == name)
            .ok_or_else(|| format!("no work is named {name}; `bench list` shows them").into())
    }

    /// How a side is measured.
    pub(crate) fn measure(&self, side: &str) -> Result<Measure, Failure> {
        if side == OURS {
            return Ok(self.ours);
        }
        let incumbent = self.incumbents.iter().find(|incumbent| incumbent.name == side);
        Ok(incumbent.ok_or_else(|| format!("{} has no incumbent {side}", self.name))?.measure)
    }

    /// Messages of one measurement.
    pub(crate) fn messages(&self, wanted: Option<u64>, mock: bool) -> Result<u64, Failure> {
        match wanted {
            Some(wanted) if mock && wanted > self.mock_limit => {
                let limit = self.mock_limit;
                Err(format!("{} against the mock cluster is limited to {limit} messages", self.name).into())
            }
            Some(wanted) => Ok(wanted),
            None if mock => Ok(self.messages.min(self.mock_limit)),
            None => Ok(self.messages),
        }
    }
}

/// How long our side may take to stop, after the measurement.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// The runtime that `#[tokio::main]` makes, for either side.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Our side's handle.
async fn connect(job: &Job) -> Result<Zms, Failure> {
    let registry = job.registry.as_deref().ok_or("our side needs a registry")?;
    Ok(Zms::builder().zookeeper(registry).without_snapshot().connect().await?)
}

/// Our side's subscription.
fn subscriber(zms: &Zms, job: &Job) -> Subscriber {
    let settings = settings::of_subscribers(job.mock);
    settings.iter().fold(zms.subscribe(&job.group), |with, (name, value)| with.property(*name, *value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_is_found_by_its_name_and_nothing_else_is() {
        for work in ALL {
            let found = Work::named(work.name).unwrap();
            for incumbent in work.incumbents {
                assert!(found.measure(incumbent.name).is_ok(), "{} {}", work.name, incumbent.name);
            }
            assert!(found.measure("nobody").is_err());
        }
        assert!(Work::named("nothing").is_err());
    }

    #[test]
    fn more_messages_than_the_mock_keeps_are_refused_not_lost() {
        let work = Work::named("consume").unwrap();
        assert!(work.mock_limit < work.messages);
        assert_eq!(work.messages(None, false).unwrap(), work.messages);
        assert_eq!(work.messages(None, true).unwrap(), work.mock_limit);
        assert_eq!(work.messages(Some(3), true).unwrap(), 3);
        assert!(work.messages(Some(work.mock_limit + 1), true).is_err());
    }
}
