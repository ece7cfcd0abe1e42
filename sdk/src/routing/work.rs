//! Whether an entry has work, and whether somebody is at it: events only mark, at most one task works.

/// One entry's work. The calls of its task, in order: [`Work::begin`] before it reads anything, [`Work::finish`] after
/// the round; it ends when that says so. Whoever learns of a change calls [`Work::mark`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing to do, no task.
    #[default]
    Idle,
    /// A task is at it, and has begun after the last mark.
    Running,
    /// A task is at it, and what it read may be out of date.
    RunningAgain,
}

impl Work {
    /// Something changed. True when the caller has to start a task.
    #[must_use]
    pub(super) fn mark(&mut self) -> bool {
        let start = *self == Self::Idle;
        *self = Self::RunningAgain;
        start
    }

    /// A round begins: marks up to here are served by it.
    pub(super) fn begin(&mut self) {
        *self = Self::Running;
    }

    /// The round ended. True when there is another one to do; otherwise the task has to end.
    #[must_use]
    pub(super) fn finish(&mut self) -> bool {
        let again = *self == Self::RunningAgain;
        if !again {
            *self = Self::Idle;
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mark_during_a_round_costs_one_more_round_however_often_it_comes() {
        let mut work = Work::default();
        assert!(work.mark());
        work.begin();
        assert!(!work.mark());
        assert!(!work.mark());
        assert!(work.finish());
        work.begin();
        assert!(!work.finish());
        assert_eq!(work, Work::Idle);
    }

    proptest! {
        /// Any interleaving of marks with a task's steps: there is at most one task, and when none runs, a round has
        /// begun after the last mark.
        #[test]
        fn no_mark_is_lost_and_no_second_task_starts(steps in prop::collection::vec(any::<bool>(), 0..200)) {
            let (mut work, mut tasks, mut in_round) = (Work::default(), 0, false);
            let mut unserved = false;
            for is_mark in steps {
                if is_mark {
                    unserved = true;
                    tasks += u32::from(work.mark());
                } else if tasks > 0 && !in_round {
                    work.begin();
                    (in_round, unserved) = (true, false);
                } else if tasks > 0 {
                    in_round = false;
                    tasks -= u32::from(!work.finish());
                }
                prop_assert!(tasks <= 1);
                prop_assert!(tasks == 1 || !unserved);
            }
        }
    }
}
