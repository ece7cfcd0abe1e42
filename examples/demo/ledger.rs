//! What was sent and what was handled, counted as it happens.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use zms_core::sequence::{Checker, Position, Stream, read_stamp};
use zms_sdk::{Delivery, Receipt, SendError};

/// Shared by the sender and all members.
#[derive(Default)]
pub(crate) struct Ledger {
    books: Mutex<Books>,
    changed: Notify,
}

#[derive(Default)]
struct Books {
    checker: Checker,
    acknowledged: BTreeMap<String, u64>,
    handled: BTreeMap<String, u64>,
    by_member: BTreeMap<usize, u64>,
    failed: u64,
    first_failure: Option<String>,
    foreign: u64,
    slowest_send: Duration,
    last_handled: Option<Instant>,
    longest_gap: Duration,
}

impl Ledger {
    /// A send ended.
    pub(crate) fn acknowledged(
        &self,
        key: &str,
        number: u64,
        began: Instant,
        result: Result<Receipt, SendError>,
    ) {
        let mut books = self.books();
        match result {
            Ok(receipt) => {
                books.checker.acknowledged(&stream("demo", key), number);
                *books.acknowledged.entry(receipt.cluster.to_string()).or_default() += 1;
                books.slowest_send = books.slowest_send.max(began.elapsed());
            }
            Err(error) => {
                books.failed += 1;
                books.first_failure.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// A member handled a message.
    pub(crate) fn handled(&self, member: usize, delivery: &Delivery) {
        let key = String::from_utf8_lossy(delivery.key().unwrap_or_default());
        let mut books = self.books();
        let Some((producer, number)) = delivery.payload().and_then(read_stamp) else {
            books.foreign += 1;
            return;
        };
        let at = Position {
            cluster: delivery.cluster().to_string(),
            partition: delivery.partition(),
            offset: delivery.offset(),
        };
        books.checker.handled(&stream(producer, &key), number, &at);
        *books.handled.entry(at.cluster).or_default() += 1;
        *books.by_member.entry(member).or_default() += 1;
        let now = Instant::now();
        if let Some(last) = books.last_handled.replace(now) {
            books.longest_gap = books.longest_gap.max(now - last);
        }
        drop(books);
        self.changed.notify_one();
    }

    /// Waits until all of `sent` sends have ended and everything acknowledged is handled.
    pub(crate) async fn until_settled(&self, sent: u64) {
        while !self.is_settled(sent) {
            // An event between the look and the wait only costs this much.
            let _ = tokio::time::timeout(Duration::from_millis(100), self.changed.notified()).await;
        }
    }

    fn is_settled(&self, sent: u64) -> bool {
        let books = self.books();
        let ended = books.acknowledged.values().sum::<u64>() + books.failed;
        ended == sent && books.checker.outstanding() == 0
    }

    /// One line for now.
    pub(crate) fn progress(&self) -> String {
        let books = self.books();
        format!("sent {}   handled {}", by_cluster(&books.acknowledged), by_cluster(&books.handled))
    }

    /// Whether no send failed, and nothing was lost, handled twice or out of order.
    pub(crate) fn is_clean(&self) -> bool {
        let books = self.books();
        books.failed == 0 && books.foreign == 0 && books.checker.report().is_clean()
    }

    /// The last lines.
    pub(crate) fn print_summary(&self) {
        let books = self.books();
        let report = books.checker.report();
        for (member, count) in &books.by_member {
            println!("member {member} handled {count}");
        }
        println!("slowest send {:?}, longest pause of the group {:?}", books.slowest_send, books.longest_gap);
        if let Some(failure) = &books.first_failure {
            println!("first failed send: {failure}");
        }
        for findings in [&report.lost, &report.redelivered, &report.copied, &report.reordered] {
            findings.examples.iter().for_each(|example| println!("example: {example}"));
        }
        println!("\nsent          {}", by_cluster(&books.acknowledged));
        println!("handled       {}", by_cluster(&books.handled));
        println!("failed sends  {}", books.failed);
        println!("lost          {}", report.lost.count);
        println!("duplicates    {}", report.redelivered.count + report.copied.count);
        println!("out of order  {}", report.reordered.count);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stream(producer: &str, key: &str) -> Stream {
    Stream { producer: producer.to_owned(), key: key.to_owned() }
}

fn by_cluster(counts: &BTreeMap<String, u64>) -> String {
    let total: u64 = counts.values().sum();
    let parts: Vec<String> = counts.iter().map(|(cluster, count)| format!("{cluster}: {count}")).collect();
    format!("{total} ({})", parts.join(", "))
}
