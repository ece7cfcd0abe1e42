//! What the client library's safe crate does not offer, or offers with a panic. The only unsafe code of this crate.
#![allow(unsafe_code)]

mod list;
#[cfg(feature = "testing")]
mod mock;
mod queue;
mod record;
mod unparsed;

use std::time::Duration;

#[cfg(feature = "testing")]
pub(crate) use self::mock::MockHandle;
#[cfg(all(test, feature = "testing"))]
pub(super) use self::record::send_foreign;
pub(super) use self::{
    list::{Commit, End, ListEntry, LogEnds, ask_log_ends, commit, entries},
    queue::{Messages, Wake, WatchedQueue},
    record::{MessageRef, Persistence, flush_slice, persistence},
};

fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)
}
