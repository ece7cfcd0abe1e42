//! What a handful of runs says: median, spread, and whether the goal is met.

use std::{fmt, time::Duration};

/// The middle value, or the mean of the two in the middle; `None` of no values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// The smallest of the sorted values that is not exceeded by `percent` of them; zero of no values.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Where the values of several runs lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    /// Their median.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
}

impl Range {
    /// `None` without a value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        Some(Self {
            median: median(&values)?,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Of the ratios of neighbouring runs, ours by the incumbent's.
    pub(crate) fn of_ratios(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        Self::of(pairs.into_iter().map(|(ours, incumbent)| ours / incumbent))
    }
}

/// What a figure of ours, or its ratio by an incumbent's, should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Where more is better.
    AtLeast(f64),
    /// Where less is better.
    AtMost(f64),
}

impl Goal {
    /// `ok` or `short`, by the median.
    pub(crate) fn verdict(self, range: Range) -> &'static str {
        let met = match self {
            Self::AtLeast(goal) => range.median >= goal,
            Self::AtMost(goal) => range.median <= goal,
        };
        if met { "ok" } else { "short" }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(goal) => write!(f, ">={goal:.2}"),
            Self::AtMost(goal) => write!(f, "<={goal:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert!(close(median(&[9.0, 1.0, 2.0]).unwrap(), 2.0));
        assert!(close(median(&[4.0, 1.0, 2.0, 9.0]).unwrap(), 3.0));
        assert!(close(median(&[7.0]).unwrap(), 7.0));
        assert!(median(&[]).is_none());
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        assert_eq!(percentile(&sorted, 50), Duration::from_micros(100));
        assert_eq!(percentile(&sorted, 99), Duration::from_micros(198));
        assert_eq!(percentile(&sorted, 100), Duration::from_micros(200));
        assert_eq!(percentile(&sorted[..1], 99), Duration::from_micros(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn the_ratio_pairs_neighbours_and_does_not_divide_medians() {
        let ratio = Range::of_ratios([(10.0, 10.0), (30.0, 20.0), (2.0, 1.0)]).unwrap();
        assert!(close(ratio.median, 1.5), "{ratio:?}");
        assert!(close(ratio.min, 1.0) && close(ratio.max, 2.0), "{ratio:?}");
        assert!(Range::of_ratios([]).is_none());
    }

    #[test]
    fn the_verdict_follows_the_median_not_the_luckiest_run() {
        let ratio = Range { median: 0.99, min: 0.5, max: 3.0 };
        assert_eq!(Goal::AtLeast(1.0).verdict(ratio), "short");
        assert_eq!(Goal::AtLeast(0.99).verdict(ratio), "ok");
        assert_eq!(Goal::AtMost(0.99).verdict(ratio), "ok");
        assert_eq!(Goal::AtMost(0.98).verdict(ratio), "short");
    }

    #[test]
    fn what_was_not_measured_meets_no_goal() {
        let nothing = Range::of([f64::NAN]).unwrap();
        assert_eq!(Goal::AtLeast(0.0).verdict(nothing), "short");
        assert_eq!(Goal::AtMost(0.0).verdict(nothing), "short");
    }

    #[test]
    fn goals_read_as_conditions() {
        assert_eq!(Goal::AtLeast(1.0).to_string(), ">=1.00");
        assert_eq!(Goal::AtMost(1.1).to_string(), "<=1.10");
    }
}
