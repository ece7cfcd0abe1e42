//! Under every interleaving.

use ::loom::{
    sync::{Arc, Condvar, Mutex, atomic::AtomicUsize},
    thread,
};

use super::*;

struct Any;

impl Homed for Any {
    fn home(&self) -> Option<usize> {
        None
    }
}

/// A queue, a bell for each worker, and how much is left to run.
struct Crew {
    queue: RunQueue<Any>,
    bells: Vec<(Mutex<bool>, Condvar)>,
    runs: AtomicUsize,
    /// How many have begun to run, and at how many they go on.
    inside: (Mutex<usize>, Condvar),
    meet: usize,
}

impl Crew {
    fn meet(&self) {
        let (inside, changed) = &self.inside;
        let mut inside = inside.lock().unwrap();
        *inside += 1;
        changed.notify_all();
        while *inside < self.meet {
            inside = changed.wait(inside).unwrap();
        }
    }

    fn ring(&self, wake: &mut Vec<usize>) {
        for worker in wake.drain(..) {
            *self.bells[worker].0.lock().unwrap() = true;
            self.bells[worker].1.notify_one();
        }
    }

    fn wait(&self, worker: usize) {
        let (rung, changed) = &self.bells[worker];
        let mut rung = rung.lock().unwrap();
        while !*rung {
            rung = changed.wait(rung).unwrap();
        }
        *rung = false;
    }

    fn work(&self, mut seat: Seat<Any>) {
        let mut wake = Vec::new();
        loop {
            let next = self.queue.next(&mut seat, || unreachable!("nothing is parked"), &mut wake);
            self.ring(&mut wake);
            match next {
                Next::Run(Any) => {
                    self.meet();
                    // The last run ends it all. Until then a worker that sleeps for ever is a deadlock, which loom
                    // reports.
                    if self.runs.fetch_sub(1, Relaxed) == 1 {
                        self.queue.close(&mut wake);
                        self.ring(&mut wake);
                    }
                }
                Next::Sleep(_) => self.wait(seat.index()),
                Next::End => return,
            }
        }
    }
}

/// Whoever runs work waits inside for `meet` others that do so too.
fn model(workers: usize, meet: usize, puts: &'static [usize]) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let crew = Arc::new(Crew {
            queue: RunQueue::default(),
            bells: (0..workers).map(|_| (Mutex::new(false), Condvar::new())).collect(),
            runs: AtomicUsize::new(puts.iter().sum()),
            inside: (Mutex::new(0), Condvar::new()),
            meet,
        });
        let mut wake = Vec::new();
        let seats = crew.queue.resize(NonZeroUsize::MIN.saturating_add(workers - 1), &mut wake);
        let threads: Vec<_> = seats
            .into_iter()
            .map(|seat| {
                let crew = Arc::clone(&crew);
                thread::spawn(move || crew.work(seat))
            })
            .collect();
        for &count in puts {
            crew.queue.put(&mut (0..count).map(|_| Any).collect(), &mut wake);
            crew.ring(&mut wake);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn no_wake_up_is_lost() {
    model(2, 1, &[1, 1]);
}

#[test]
fn what_lies_before_a_stuck_worker_is_run_by_the_other() {
    model(2, 2, &[2]);
}

#[test]
fn what_comes_while_a_worker_is_stuck_is_run_by_the_other() {
    model(2, 2, &[1, 1]);
}
