use std::time::Duration;

use super::*;

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Work {
    Of(usize),
    Any(usize),
}

impl Homed for Work {
    fn home(&self) -> Option<usize> {
        match self {
            Self::Of(home) => Some(*home),
            Self::Any(_) => None,
        }
    }
}

/// A queue, its workers' seats, and whom it wanted to wake.
struct Crew {
    queue: RunQueue<Work>,
    seats: Vec<Seat<Work>>,
    wake: Vec<usize>,
    now: Instant,
}

impl Crew {
    fn new(workers: usize) -> Self {
        let queue = RunQueue::default();
        let seats = queue.resize(NonZeroUsize::MIN.saturating_add(workers - 1), &mut Vec::new());
        #[expect(clippy::disallowed_methods, reason = "any moment to count from")]
        let now = Instant::now();
        Self { queue, seats, wake: Vec::new(), now }
    }

    fn put(&mut self, work: impl IntoIterator<Item = Work>) {
        self.queue.put(&mut work.into_iter().collect(), &mut self.wake);
    }

    fn next(&mut self, worker: usize) -> Next<Work> {
        self.queue.next(&mut self.seats[worker], || self.now, &mut self.wake)
    }

    fn run(&mut self, worker: usize) -> Option<Work> {
        match self.next(worker) {
            Next::Run(work) => Some(work),
            Next::Sleep(_) | Next::End => None,
        }
    }

    fn sleep(&mut self, worker: usize) -> Option<Instant> {
        match self.next(worker) {
            Next::Sleep(until) => until,
            other => panic!("worker {worker}: {other:?}"),
        }
    }

    fn woken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.wake)
    }

    fn resize(&mut self, workers: usize) {
        let seats = self.queue.resize(NonZeroUsize::MIN.saturating_add(workers - 1), &mut self.wake);
        for seat in seats {
            let index = seat.index();
            if index < self.seats.len() {
                self.seats[index] = seat;
            } else {
                self.seats.push(seat);
            }
        }
    }
}

const SOON: Duration = Duration::from_secs(1);

#[test]
fn work_with_a_home_goes_to_its_worker_alone() {
    let mut crew = Crew::new(3);
    crew.put((0..7).map(Work::Of));
    let mut runs = |worker| std::iter::from_fn(|| crew.run(worker)).collect::<Vec<_>>();
    assert_eq!(runs(0), [0, 3, 6].map(Work::Of));
    assert_eq!(runs(1), [1, 4].map(Work::Of));
    assert_eq!(runs(2), [2, 5].map(Work::Of));
}

#[test]
fn all_work_goes_round_whoever_takes_it() {
    let mut crew = Crew::new(3);
    crew.put((0..200).map(Work::Any));
    let mut seen: Vec<Work> = (0..).map_while(|turn| crew.run(turn % 3)).collect();
    seen.sort_by_key(|work| if let Work::Any(n) = work { *n } else { 0 });
    assert_eq!(seen, (0..200).map(Work::Any).collect::<Vec<_>>());
}

#[test]
fn what_lies_before_a_busy_worker_is_taken_by_others() {
    let mut crew = Crew::new(2);
    crew.put((0..100).map(Work::Any));
    // The first takes many, runs one, and is not heard of again.
    assert_eq!(crew.run(0), Some(Work::Any(0)));
    let others = std::iter::from_fn(|| crew.run(1)).count();
    assert_eq!(others, 99);
}

#[test]
fn only_sleepers_are_woken_one_after_the_other_as_long_as_there_is_work() {
    let mut crew = Crew::new(4);
    (0..3).for_each(|worker| assert_eq!(crew.sleep(worker), None));
    crew.put((0..3).map(Work::Any));
    assert_eq!(crew.woken(), [2], "one is on its way");
    crew.put([Work::Any(3)]);
    assert_eq!(crew.woken(), [0; 0]);
    assert!(crew.run(2).is_some());
    assert_eq!(crew.woken(), [1], "and wakes the next");
    assert!(crew.run(3).is_some());
    assert!(crew.run(1).is_some());
    assert_eq!(crew.woken(), [0]);
    assert!(crew.run(0).is_some());
    assert_eq!(crew.woken(), [0; 0], "no work, no sleeper");
}

#[test]
fn what_was_put_back_does_not_overtake_the_rest_for_ever() {
    let mut crew = Crew::new(1);
    crew.put((0..3).map(Work::Any));
    let mut seen = Vec::new();
    for _ in 0..100 {
        let work = crew.run(0).unwrap();
        seen.push(work);
        crew.queue.put_back(&crew.seats[0], work, &mut crew.wake);
    }
    for n in 0..3 {
        let runs = seen.iter().filter(|work| **work == Work::Any(n)).count();
        assert!((30..=40).contains(&runs), "{n} ran {runs} times");
    }
}

#[test]
fn parked_work_waits_for_its_time_and_one_sleeper_keeps_watch() {
    let mut crew = Crew::new(2);
    let (now, due) = (crew.now, crew.now + SOON);
    crew.queue.park(due, Work::Any(1), &mut crew.wake);
    assert_eq!(crew.sleep(0), Some(due));
    assert_eq!(crew.sleep(1), None, "one is enough");
    crew.queue.park(now + SOON / 2, Work::Any(2), &mut crew.wake);
    assert_eq!(crew.woken(), [0], "the watch is to be earlier");
    assert_eq!(crew.sleep(0), Some(now + SOON / 2));
    crew.put([Work::Any(3)]);
    assert_eq!(crew.woken(), [1], "who keeps no watch is woken first");
    assert_eq!(crew.run(1), Some(Work::Any(3)));
    crew.put([Work::Any(4)]);
    assert_eq!(crew.woken(), [0]);
    assert_eq!(crew.run(0), Some(Work::Any(4)));
    assert_eq!(crew.sleep(1), Some(now + SOON / 2), "the watch is taken over");
    crew.now = due;
    assert_eq!(crew.run(1), Some(Work::Any(2)));
    assert_eq!(crew.run(0), Some(Work::Any(1)));
}

#[test]
fn while_it_is_held_nothing_is_handed_out() {
    let mut crew = Crew::new(2);
    let until = crew.now + SOON;
    crew.put([Work::Any(1), Work::Any(2)]);
    assert_eq!(crew.run(0), Some(Work::Any(1)));
    crew.queue.put_back(&crew.seats[0], Work::Any(1), &mut crew.wake);
    crew.queue.hold(&mut crew.seats[0], until, &mut crew.wake);
    assert_eq!(crew.sleep(0), Some(until));
    assert_eq!(crew.sleep(1), None);
    crew.put([Work::Any(3)]);
    assert_eq!(crew.woken(), [0; 0]);
    crew.now = until;
    assert!(crew.run(0).is_some());
    assert_eq!(crew.woken(), [1]);
}

#[test]
fn after_a_hold_all_who_have_work_of_their_own_are_woken() {
    let mut crew = Crew::new(3);
    let until = crew.now + SOON;
    crew.put((0..3).map(Work::Of));
    crew.queue.hold(&mut crew.seats[0], until, &mut crew.wake);
    assert_eq!(crew.sleep(0), Some(until));
    assert_eq!((crew.sleep(1), crew.sleep(2)), (None, None));
    crew.now = until;
    assert_eq!(crew.run(0), Some(Work::Of(0)));
    assert_eq!(crew.woken(), [1, 2]);
}

#[test]
fn fewer_workers_leave_their_work_to_the_others() {
    let mut crew = Crew::new(4);
    crew.put((0..8).map(Work::Of));
    crew.put((0..100).map(Work::Any));
    assert_eq!(crew.run(3), Some(Work::Of(3)));
    assert_eq!(crew.run(3), Some(Work::Of(7)));
    assert!(matches!(crew.run(3), Some(Work::Any(_))), "and many lie before it");
    crew.resize(1);
    assert!(matches!(crew.next(3), Next::End));
    let left = std::iter::from_fn(|| crew.run(0)).count();
    assert_eq!(left, 6 + 99);
}

#[test]
fn a_number_is_not_given_twice_while_its_worker_has_not_ended() {
    let mut crew = Crew::new(2);
    crew.put([Work::Of(1), Work::Of(1)]);
    assert!(crew.run(1).is_some());
    crew.resize(1);
    let seats = crew.queue.resize(NonZeroUsize::MIN.saturating_add(1), &mut crew.wake);
    assert!(seats.is_empty(), "the second worker runs on");
    assert!(crew.run(1).is_some());
    crew.resize(1);
    assert!(matches!(crew.next(1), Next::End));
    let seats = crew.queue.resize(NonZeroUsize::MIN.saturating_add(1), &mut crew.wake);
    assert_eq!(seats.iter().map(Seat::index).collect::<Vec<_>>(), [1]);
}

#[test]
fn sleeping_workers_are_woken_to_end() {
    let mut crew = Crew::new(3);
    (0..3).for_each(|worker| assert_eq!(crew.sleep(worker), None));
    crew.resize(1);
    assert_eq!(crew.woken(), [1, 2]);
    crew.queue.close(&mut crew.wake);
    assert_eq!(crew.woken(), [0]);
    (0..3).for_each(|worker| assert!(matches!(crew.next(worker), Next::End)));
    crew.put([Work::Any(1), Work::Of(1)]);
    crew.queue.park(crew.now, Work::Any(1), &mut crew.wake);
    assert!(matches!(crew.next(0), Next::End));
}

#[test]
fn dropped_work_is_gone_wherever_it_lies() {
    let mut crew = Crew::new(2);
    crew.put((0..100).map(Work::Any));
    crew.put((0..4).map(Work::Of));
    crew.queue.park(crew.now, Work::Any(7), &mut crew.wake);
    assert_eq!(crew.run(0), Some(Work::Of(0)));
    assert_eq!(crew.run(0), Some(Work::Of(2)));
    assert!(crew.run(0).is_some(), "and many lie before it");
    crew.queue.retain(|_| false);
    assert_eq!((crew.run(0), crew.run(1)), (None, None));
}
