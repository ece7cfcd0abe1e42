//! How the pool is divided.

/// A part of the pool in percent, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// `None` above 100.
    pub const fn new(percent: u8) -> Option<Self> {
        if percent <= 100 { Some(Self(percent)) } else { None }
    }

    /// This part of a number, rounded down.
    pub fn of(self, whole: usize) -> usize {
        let percent = usize::from(self.0);
        whole / 100 * percent + whole % 100 * percent / 100
    }

    /// The number, 0 to 100.
    pub fn value(self) -> u8 {
        self.0
    }
}

/// Parts of the pool: of a topic, and of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// The most that one topic may have.
    pub topic_cap: Percent,
    /// What is kept for each cluster in use. All floors together take half of the pool at most: with more clusters
    /// than fit, each is kept an equal part of that half.
    pub cluster_floor: Percent,
    /// The most that one cluster may have.
    pub cluster_ceiling: Percent,
}

/// The same in bytes, for one total and one number of clusters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) total: usize,
    pub(super) cap: usize,
    pub(super) ceiling: usize,
    pub(super) floor: usize,
    /// All floors together.
    pub(super) reserved: usize,
}

impl Limits {
    pub(super) fn new(shares: Shares, total: usize, clusters: usize) -> Self {
        let fair = (total / 2).checked_div(clusters).unwrap_or(0);
        let ceiling = shares.cluster_ceiling.of(total);
        let floor = shares.cluster_floor.of(total).min(fair).min(ceiling);
        Self { total, cap: shares.topic_cap.of(total), ceiling, floor, reserved: floor * clusters }
    }
}
