//! Which messages keep their order.

/// Which messages are handled one at a time and in the order of their offsets. The order holds across retries, changes of
/// the number of workers, rebalances and replaced clients; what may be handled at the same time is handled by whichever
/// number of workers there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ordering {
    /// Those of a partition. A partition belongs to worker `partition % workers`, which handles about 64 of its messages
    /// and then goes on to its next partition; more workers than partitions are of no use. A partition whose message waits
    /// for a retry does not hold up the others of its worker.
    #[default]
    Partition,
    /// Those of a partition that have the same key, on any worker: no two keys hold each other up while a worker is
    /// free, and a message that waits for a retry holds up its key alone. Messages without a key have no order among
    /// themselves; an empty key is a key. Two keys share an order once in about 2^64 pairs.
    ///
    /// Offsets behind an unfinished one are handled, but the position to commit stays before it; see
    /// [`Inspection`](crate::consumer::Inspection).
    Key,
    /// None. Each message is handled on its own, by any worker.
    Unordered,
}
