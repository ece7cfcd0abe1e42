//! The only place that commits.

use std::sync::Arc;

use tracing::debug;

use super::{assignment::Assignment, stats::Stats};
use crate::engine::port::{ConsumerControl, EngineError, Position};

/// Commits what is due of these assignments, in one request, and waits for the answer. After a failure everything is
/// still due, so that the next call commits the newest positions.
pub(super) fn commit_due(
    control: &dyn ConsumerControl,
    assignments: &[Arc<Assignment>],
    stats: &Stats,
) -> Result<(), EngineError> {
    let due: Vec<(&Arc<Assignment>, i64)> =
        assignments.iter().filter_map(|a| Some((a, a.book().tracker.due()?))).collect();
    if due.is_empty() {
        return Ok(());
    }
    let positions: Vec<Position> = due.iter().map(|(a, offset)| position(a.partition, *offset)).collect();
    if let Err(error) = control.commit(&positions) {
        stats.commit_failures.one();
        debug!(%error, partitions = positions.len(), "commit failed; the newest positions are committed again");
        return Err(error);
    }
    stats.commits.one();
    for (assignment, offset) in due {
        assignment.book().tracker.committed_to(offset);
    }
    Ok(())
}

fn position(partition: i32, offset: i64) -> Position {
    Position { partition, offset, metadata: String::new() }
}
