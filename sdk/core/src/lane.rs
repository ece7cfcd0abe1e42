//! Which worker handles a message.

use std::num::NonZeroUsize;

/// The lane of a partition among `lanes` lanes of one topic on one cluster. All messages of a partition share a lane,
/// which is what keeps their order.
pub fn of_partition(partition: i32, lanes: NonZeroUsize) -> usize {
    usize::try_from(partition.unsigned_abs()).unwrap_or(0) % lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_spread_evenly() {
        let lanes = NonZeroUsize::new(3).unwrap();
        let spread: Vec<usize> = (0..7).map(|p| of_partition(p, lanes)).collect();
        assert_eq!(spread, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn an_odd_partition_number_still_has_a_lane() {
        let lanes = NonZeroUsize::new(4).unwrap();
        assert!(of_partition(i32::MIN, lanes) < 4);
        assert!(of_partition(i32::MAX, lanes) < 4);
    }
}
