//! The buffer pool: one number of bytes that all sends share, and the line of those who wait for some.
//!
//! [`Ledger`] is the accounting, without locks or wakers; [`Pool`] puts it behind a lock and lets futures and threads
//! wait for their turn. Neither makes a thread or reads a clock.
//!
//! Who may take how much:
//! - All together: `total`. A request for more than could ever be served fails at once.
//! - One topic: a share of it ([`Shares::topic_cap`]). A topic that has used it up keeps only its own senders waiting.
//! - One cluster: at most [`Shares::cluster_ceiling`], and [`Shares::cluster_floor`] is kept for it. The sum of what
//!   each cluster has, or of its floor where that is more, never exceeds the total. So a request that fits into the
//!   unused rest of its cluster's floor, with nobody of its cluster before it, never waits for another's messages.
//!   What lies above the floors is borrowed by whoever comes first.
//!
//! Whose turn it is: the line is first in, first out. Nobody of a topic overtakes another of that topic; nobody of a
//! cluster overtakes one who waits for the cluster's ceiling or for the pool; and nobody borrows while somebody before
//! them waits for the pool, so a large request is not starved by small ones. Requests within the floor of another
//! cluster go past it: they take nothing that it could have had.

mod accounts;
mod ledger;
mod line;
#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom)))]
mod oracle;
mod shared;
mod shares;

pub use accounts::{ClusterUse, Level, TopicKey, Usage};
pub use ledger::{Bound, Cause, Charge, Grant, Ledger, Outcome, Refusal, Shortage};
pub use line::WaiterId;
pub use shared::{Answer, NoRoom, Pool, Waiting};
pub use shares::{Percent, Shares};
