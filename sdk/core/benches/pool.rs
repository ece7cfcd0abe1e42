//! What the buffer pool costs: `cargo bench -p zms-core --bench pool`. Prints one line for each measurement.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it measures threads and time"
)]

use std::{
    future::Future,
    hint::black_box,
    pin::Pin,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use zms_core::{
    name::ClusterName,
    pool::{Answer, Charge, Percent, Pool, Shares, TopicKey},
};

/// Waiters note the turn in which they began to wait.
type Shared = Pool<BytesMut, u64>;

const THREADS: usize = 8;

/// As the SDK's: returned when dropped.
struct Room(Arc<Shared>, Option<Charge>);

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(charge) = self.1.take() {
            self.0.give_back(charge);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn pool(total: usize) -> (Arc<Shared>, Vec<TopicKey>) {
    let part = |percent| Percent::new(percent).unwrap();
    let shares = Shares { topic_cap: part(100), cluster_floor: part(12), cluster_ceiling: part(100) };
    let pool = Arc::new(Pool::new(total, 16 << 10, shares));
    let topics = (0..THREADS).map(|topic| {
        let key = pool.open();
        pool.house(key, &ClusterName::new(format!("c{}", topic % 2)).unwrap());
        key
    });
    let topics = topics.collect();
    (pool, topics)
}

fn take(pool: &Arc<Shared>, topic: TopicKey, bytes: usize) -> Room {
    Room(pool.clone(), pool.try_take(topic, bytes).ok())
}

/// Waits in line, as a thread.
fn wait(pool: &Arc<Shared>, topic: TopicKey, bytes: usize, since: impl FnOnce() -> u64) -> Room {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let charge = match pool.take(topic, bytes, since).unwrap() {
        Answer::Taken(charge) => charge,
        Answer::Wait(mut waiting) => loop {
            match Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(charge) => break charge.unwrap(),
                Poll::Pending => thread::park(),
            }
        },
    };
    Room(pool.clone(), Some(charge))
}

/// Nanoseconds of one round: the median of many short series, so that being interrupted does not count.
fn each(mut round: impl FnMut()) -> f64 {
    const SERIES: u32 = 200;
    let mut times: Vec<_> = (0..5_000)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..SERIES {
                round();
            }
            started.elapsed().as_secs_f64() * 1e9 / f64::from(SERIES)
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Nanoseconds of each round of each thread, sorted, the clock's own time included.
fn on_threads(round: impl Fn(usize) + Sync) -> Vec<u64> {
    let start = Barrier::new(THREADS);
    let mut all: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (start, round) = (&start, &round);
                scope.spawn(move || {
                    let mut times = Vec::with_capacity(200_000);
                    start.wait();
                    for _ in 0..200_000 {
                        let started = Instant::now();
                        round(number);
                        times.push(u64::try_from(started.elapsed().as_nanos()).unwrap());
                    }
                    times
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable();
    all
}

fn contended() {
    let nothing = on_threads(|_| ());
    println!("8 threads: the clock alone: median {} ns", nothing[nothing.len() / 2]);
    let (shared, topics) = pool(1 << 30);
    let times = on_threads(|number| drop(black_box(take(&shared, topics[number], 356))));
    let at = |percent: usize| times[times.len() * percent / 100];
    println!(
        "8 threads: acquire + release: median {} ns, 90 % {} ns, 99 % {} ns (the clock included)",
        at(50),
        at(90),
        at(99)
    );
}

/// Room for one of eight threads, each of which asks again at once.
fn fifo() {
    let (shared, topics) = pool(1_000);
    let turn = AtomicU64::new(0);
    let waits: Vec<(u64, u64)> = thread::scope(|scope| {
        let (shared, topics, turn) = (&shared, &topics, &turn);
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(move || {
                    let (mut waits, mut before) = (Vec::new(), 0);
                    for _ in 0..5_000 {
                        let mut waited = None;
                        let room = wait(shared, topics[0], 600, || {
                            waited = Some(Instant::now());
                            before = turn.load(Ordering::SeqCst);
                            before
                        });
                        let now = turn.fetch_add(1, Ordering::SeqCst);
                        if let Some(since) = waited {
                            waits.push((now - before, u64::try_from(since.elapsed().as_nanos()).unwrap()));
                        }
                        drop(room);
                    }
                    waits
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut times: Vec<_> = waits.iter().map(|wait| wait.1).collect();
    times.sort_unstable();
    let count = u64::try_from(waits.len()).unwrap();
    println!(
        "8 threads, room for one: turns waited: mean {}, most {}; time: mean {} ns, 99 % {} ns, longest {} ns",
        waits.iter().map(|wait| wait.0).sum::<u64>() / count,
        waits.iter().map(|wait| wait.0).max().unwrap(),
        times.iter().sum::<u64>() / count,
        times[times.len() * 99 / 100],
        times[times.len() - 1],
    );
}

/// Counting a payload where it is, against copying it into a block.
fn copying() {
    let (shared, topics) = pool(1 << 30);
    for size in [100, 1 << 10, 4 << 10, 64 << 10] {
        let payload = Bytes::from(vec![7; size]);
        let counted = each(|| drop(black_box(take(&shared, topics[0], size))));
        let block = size.max(16 << 10);
        let mut memory = BytesMut::with_capacity(block);
        let copied = each(|| {
            let room = take(&shared, topics[0], size);
            if memory.capacity() < size {
                let _again = memory.try_reclaim(block);
            }
            memory.extend_from_slice(black_box(&payload));
            drop(black_box(memory.split().freeze()));
            drop(room);
        });
        println!("{size} B: counted {counted:.0} ns, copied into a block {copied:.0} ns");
    }
}

fn main() {
    let (shared, topics) = pool(1 << 30);
    let single = each(|| drop(black_box(take(&shared, topics[0], 356))));
    println!("1 thread: acquire + release: {single:.1} ns");
    contended();
    fifo();
    copying();
}
