//! Workers: threads or tasks that take turns from the run queue.

use std::{io, sync::Arc, thread, time::Instant};

use tokio::{sync::Notify, task::AbortHandle};
use zms_core::run_queue::{Next, Seat};

use super::{
    bell::{Bell, ThreadBell},
    handlers::{Blocking, Waiting},
    piece::Entry,
    shared::Shared,
    turn::Turn,
};

/// A task lets others have its thread after so many calls of handlers that never waited.
const YIELD_AFTER: usize = 64;

/// Starts workers. What kind of handler they call is known only here.
pub(in super::super) trait Runner: Send + Sync {
    fn bell(&self) -> Bell;

    /// Starts a worker; how to cancel it, where that is possible. One that cannot be started comes back.
    fn start(&self, worker: Box<Worker>) -> Result<Option<AbortHandle>, (Box<Worker>, io::Error)>;
}

/// Workers for handlers that block: a thread each.
pub(in super::super) struct Threads<H> {
    pub(in super::super) name: String,
    pub(in super::super) handler: Arc<H>,
}

/// Workers for handlers that are futures: a task each.
pub(in super::super) struct Tasks<H> {
    pub(in super::super) runtime: tokio::runtime::Handle,
    pub(in super::super) handler: Arc<H>,
}

/// One worker's side of the pool.
pub(in super::super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) bell: Arc<Bell>,
    pub(super) seat: Seat<Entry>,
    pub(super) turn: Turn,
    /// Workers to wake; empty between calls.
    pub(super) wake: Vec<usize>,
}

enum Step {
    /// A turn is open; whether others were woken for more.
    Turn {
        others: bool,
    },
    Wait(Option<Instant>),
    End,
}

impl Worker {
    fn step(&mut self, clock: impl Fn() -> Instant) -> Step {
        loop {
            let next = self.shared.queue.next(&mut self.seat, &clock, &mut self.wake);
            let others = !self.wake.is_empty();
            self.shared.ring(&mut self.wake);
            match next {
                Next::Run(entry) => {
                    if self.turn.open(entry, &self.shared.strands, self.shared.grab) {
                        return Step::Turn { others };
                    }
                }
                Next::Sleep(until) => return Step::Wait(until),
                Next::End => return Step::End,
            }
        }
    }

    fn close_turn(&mut self, clock: impl Fn() -> Instant) {
        let left = self.shared.settle(self.turn.close(), clock);
        if let Some(entry) = left {
            self.shared.queue.put_back(&self.seat, entry, &mut self.wake);
            self.shared.ring(&mut self.wake);
        }
        if let Some(until) = self.turn.take_held() {
            self.shared.queue.hold(&mut self.seat, until, &mut self.wake);
            self.shared.ring(&mut self.wake);
        }
        if let Some(workers) = self.turn.take_workers() {
            self.shared.adapt(workers);
        }
    }
}

impl<H: Blocking> Runner for Threads<H> {
    fn bell(&self) -> Bell {
        Bell::Thread(ThreadBell::default())
    }

    fn start(&self, worker: Box<Worker>) -> Result<Option<AbortHandle>, (Box<Worker>, io::Error)> {
        let handler = Arc::clone(&self.handler);
        // A thread that cannot be started must not take the worker with it.
        let (hand_over, taken) = crossbeam_channel::bounded::<Box<Worker>>(1);
        let name = format!("{}-{}", self.name, worker.seat.index());
        let started = thread::Builder::new().name(name).spawn(move || {
            if let Ok(worker) = taken.recv() {
                work(worker, &*handler);
            }
        });
        match started {
            Ok(_) => {
                // The thread holds the other end, and there is room for one.
                drop(hand_over.send(worker));
                Ok(None)
            }
            Err(error) => Err((worker, error)),
        }
    }
}

fn work(mut worker: Box<Worker>, handler: &impl Blocking) {
    loop {
        match worker.step(Instant::now) {
            Step::Turn { .. } => {
                handler.handle(&mut worker.turn);
                worker.close_turn(Instant::now);
            }
            Step::Wait(until) => worker.bell.wait_blocking(until),
            Step::End => return,
        }
    }
}

impl<H: Waiting> Runner for Tasks<H> {
    fn bell(&self) -> Bell {
        Bell::Task(Notify::new())
    }

    fn start(&self, worker: Box<Worker>) -> Result<Option<AbortHandle>, (Box<Worker>, io::Error)> {
        let handler = Arc::clone(&self.handler);
        let task = self.runtime.spawn(async move { work_as_task(worker, &*handler).await });
        Ok(Some(task.abort_handle()))
    }
}

async fn work_as_task(mut worker: Box<Worker>, handler: &impl Waiting) {
    // The runtime's clock, which its tests may stop.
    let clock = || tokio::time::Instant::now().into_std();
    let mut calls = 0;
    loop {
        match worker.step(clock) {
            Step::Turn { others } => {
                if others {
                    // A task that this one has woken may be bound to this thread until it is free.
                    tokio::task::yield_now().await;
                }
                handler.handle(&mut worker.turn).await;
                worker.close_turn(clock);
                calls += worker.turn.take_calls();
                if calls >= YIELD_AFTER {
                    calls = 0;
                    tokio::task::yield_now().await;
                }
            }
            Step::Wait(until) => {
                calls = 0;
                worker.bell.wait(until).await;
            }
            Step::End => return,
        }
    }
}
