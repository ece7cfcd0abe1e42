//! A task that sends numbered messages until it is told to stop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zms_core::sequence::{Position, Stream, stamp};
use zms_sdk::{Message, Producer, Receipt, SendError};

use crate::guarantees::{Guarantees, Record};
use crate::wait::eventually;

const KEYS: u64 = 16;
const TICK: Duration = Duration::from_millis(10);
const EACH_TICK: u64 = 2;

/// What became of a sender's messages.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Messages handed to the SDK.
    pub started: u64,
    /// Acknowledged messages by cluster.
    pub by_cluster: BTreeMap<String, u64>,
    /// Errors in words; with [`by_cluster`](Self::by_cluster) one result for each message.
    pub failed: Vec<String>,
    /// Errors among them that say "unknown".
    pub unknown: u64,
    /// The longest time from the call to the acknowledgement.
    pub longest: Duration,
}

impl Sent {
    /// Messages acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.by_cluster.values().sum()
    }

    fn ended(&self) -> u64 {
        self.acknowledged() + self.failed.len() as u64
    }
}

/// One task that sends about 200 messages a second with 16 keys, numbered by key. It waits for no result before the
/// next send.
#[derive(Debug)]
pub struct Sender {
    name: String,
    books: Arc<Mutex<Sent>>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Sender {
    pub(super) fn start(name: &str, producer: Producer, kept: &Guarantees) -> Self {
        let (books, stop) = (Arc::new(Mutex::new(Sent::default())), Arc::new(AtomicBool::new(false)));
        let work = Work {
            name: name.to_owned(),
            producer,
            kept: kept.clone(),
            books: Arc::clone(&books),
            stop: Arc::clone(&stop),
        };
        Self { name: name.to_owned(), books, stop, task: tokio::spawn(work.run()) }
    }

    /// What became of its messages so far.
    pub fn sent(&self) -> Sent {
        lock(&self.books).clone()
    }

    /// Stops, and waits until each message has its result.
    ///
    /// # Panics
    /// When some have none within the limit of the wait.
    pub async fn finish(self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("sending does not panic");
        let books = &self.books;
        eventually(&format!("each message of {} has its result", self.name), || {
            let sent = lock(books);
            sent.ended() == sent.started
        })
        .await;
        lock(books).clone()
    }
}

struct Work {
    name: String,
    producer: Producer,
    kept: Guarantees,
    books: Arc<Mutex<Sent>>,
    stop: Arc<AtomicBool>,
}

impl Work {
    async fn run(self) {
        let mut pace = tokio::time::interval(TICK);
        for index in 0_u64.. {
            if index % EACH_TICK == 0 {
                pace.tick().await;
            }
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            self.send(index % KEYS, index / KEYS).await;
        }
    }

    async fn send(&self, key: u64, number: u64) {
        let stream = Stream { producer: self.name.clone(), key: format!("key-{key}") };
        let message = Message::new(stamp(&self.name, number)).key(stream.key.clone());
        let (kept, books, began) = (self.kept.clone(), Arc::clone(&self.books), Instant::now());
        lock(&self.books).started += 1;
        let note = move |result| note(result, (stream, number), &kept, &mut Noting { books: &books, began });
        self.producer.send_with(message, note).await;
    }
}

struct Noting<'a> {
    books: &'a Mutex<Sent>,
    began: Instant,
}

fn note(
    result: Result<Receipt, SendError>,
    (stream, number): (Stream, u64),
    kept: &Guarantees,
    to: &mut Noting<'_>,
) {
    let outcome = match result {
        Ok(receipt) => {
            let cluster = receipt.cluster.to_string();
            // -1: the broker did not tell, as it had the message already.
            let offset = receipt.offset.unwrap_or(-1);
            let at = Position { cluster: cluster.clone(), partition: receipt.partition, offset };
            // The trial must know of it before the books do: whoever waits for the books looks at the trial next.
            kept.acknowledged(&Record { stream, number, at });
            Ok(cluster)
        }
        Err(error) => Err(error),
    };
    let mut sent = lock(to.books);
    match outcome {
        Ok(cluster) => {
            *sent.by_cluster.entry(cluster).or_default() += 1;
            sent.longest = sent.longest.max(to.began.elapsed());
        }
        Err(error) => {
            sent.unknown += u64::from(matches!(error, SendError::Unknown { .. }));
            sent.failed.push(error.to_string());
        }
    }
}

fn lock(books: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
