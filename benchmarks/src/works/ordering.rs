//! Stands in for the orders that the SDK does not have yet: everything runs in the order of its partition.

use zms_sdk::Subscriber;

#[derive(Debug, Clone, Copy)]
pub(super) enum Ordering {
    Partition,
    Key,
}

pub(super) trait Ordered {
    fn ordering(self, ordering: Ordering) -> Self;
}

impl Ordered for Subscriber {
    fn ordering(self, _: Ordering) -> Self {
        self
    }
}
