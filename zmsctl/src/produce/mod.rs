//! `zmsctl produce`: sends as a service does.

mod input;

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
};

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use zms_sdk::{Message, Producer, Receipt, SendError, TopicName, producer::SendOutcome};

use self::input::Input;
use crate::{
    argument::assignment,
    context::Context,
    failure::Failure,
    print::{self, ReaderGone, note},
    signal::Interrupt,
    text::counted,
    view::{Output, View},
};

pub(crate) const ABOUT: &str = "\
Prints where each message lies, in the order of sending: cluster/partition@offset, or with --output json one object in
each line. It ends at the first message that is not acknowledged; the messages under way then are waited for.

Examples:
  zmsctl produce orders 'hello'
  zmsctl produce orders --key 42 --header trace=7f '{\"total\":12}'
  zmsctl produce orders --key 42 --null                      # a tombstone
  seq 1000 | zmsctl produce orders -                         # each line is a message
  zmsctl produce orders --key-separator < keys-and-values    # key<TAB>value
  zmsctl produce orders --key-separator=: < keys-and-values  # key:value
";

/// Messages handed over and not yet reported.
const WINDOW: usize = 1_000;

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct ProduceArgs {
    /// The topic.
    topic: TopicName,
    /// The message. Without it, or as -, each line of stdin is one.
    #[arg(conflicts_with = "null", allow_hyphen_values = true)]
    message: Option<String>,
    /// The key of all messages.
    #[arg(long)]
    key: Option<String>,
    /// A header of all messages; may be repeated.
    #[arg(long, value_parser = assignment, value_name = "NAME=VALUE")]
    header: Vec<(String, String)>,
    /// The partition, in place of the one that the key selects.
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Sends no payload: a tombstone, which deletes its key on a compacted topic.
    #[arg(long)]
    null: bool,
    /// How often to send the message.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Lines of stdin are a key, this separator (a tab unless given), and the payload.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "\t", value_name = "TEXT")]
    #[arg(conflicts_with_all = ["key", "null"])]
    key_separator: Option<String>,
}

impl ProduceArgs {
    pub(crate) async fn run(self, context: &Context) -> Result<View, Failure> {
        self.check()?;
        let mut interrupt = Interrupt::watch()?;
        let zms = context.zms().await?;
        let sent = match zms.producer(self.topic.as_str()).await {
            Ok(producer) => self.send(&producer, context.output(), &mut interrupt).await,
            Err(error) => Err(error.into()),
        };
        // Every message has its result: there is nothing left that a late close could lose.
        let _ = zms.close(context.wait()).await;
        sent.map(|()| View::Printed)
    }

    fn reads_stdin(&self) -> bool {
        !self.null && self.message.as_deref().is_none_or(|message| message == "-")
    }

    fn check(&self) -> Result<(), Failure> {
        let wrong = |reason: &str| Err(Failure::Usage(reason.to_owned()));
        if self.reads_stdin() && self.count != 1 {
            return wrong("--count repeats a message of the command line; lines of stdin are sent once each");
        }
        if !self.reads_stdin() && self.key_separator.is_some() {
            return wrong(
                "--key-separator is for lines of stdin; use --key with a message of the command line",
            );
        }
        if self.key_separator.as_deref() == Some("") {
            return wrong("--key-separator is empty");
        }
        Ok(())
    }

    /// What all messages share.
    fn frame(&self) -> Message {
        let mut message = Message::default();
        if let Some(key) = &self.key {
            message = message.key(key.clone());
        }
        if let Some(partition) = self.partition {
            message = message.partition(partition);
        }
        self.header.iter().fold(message, |message, (name, value)| message.header(name, value.clone()))
    }

    async fn send(
        &self,
        producer: &Producer,
        output: Output,
        interrupt: &mut Interrupt,
    ) -> Result<(), Failure> {
        if self.reads_stdin() && io::stdin().is_terminal() {
            note("each line is a message; end with Ctrl-D");
        }
        let mut input = Input::new(self);
        let mut receipts = Receipts { output, ..Receipts::default() };
        let mut ended = None;
        while ended.is_none() || !receipts.pending.is_empty() {
            tokio::select! {
                biased;
                () = interrupt.received(), if ended.is_none() => ended = Some(Ok(())),
                () = receipts.next(), if !receipts.pending.is_empty() => {
                    if receipts.failure.is_some() {
                        ended.get_or_insert(Ok(()));
                    }
                }
                next = input.next(), if ended.is_none() && receipts.pending.len() < WINDOW => match next {
                    Ok(Some(message)) => receipts.expect(producer, message).await,
                    Ok(None) => ended = Some(Ok(())),
                    Err(failure) => ended = Some(Err(failure)),
                },
            }
        }
        receipts.outcome()?;
        ended.unwrap_or(Ok(()))
    }
}

/// Results of sends, in the order of sending.
#[derive(Default)]
struct Receipts {
    output: Output,
    pending: VecDeque<oneshot::Receiver<Result<Receipt, SendError>>>,
    acknowledged: u64,
    failed: u64,
    failure: Option<String>,
    /// Nobody reads the receipts any more; messages are sent all the same.
    unread: Option<ReaderGone>,
}

impl Receipts {
    async fn expect(&mut self, producer: &Producer, message: Message) {
        let (result, receipt) = oneshot::channel();
        self.pending.push_back(receipt);
        producer.send_with(message, move |sent| drop(result.send(sent))).await;
    }

    /// Waits for the oldest result. Dropping the future loses none.
    async fn next(&mut self) {
        let Some(oldest) = self.pending.front_mut() else { return };
        let result = oldest.await;
        self.pending.pop_front();
        match result {
            Ok(Ok(receipt)) => self.arrived(&receipt),
            Ok(Err(error)) => self.refused(&error),
            Err(_) => self.failure = Some("the handle was closed".to_owned()),
        }
    }

    fn arrived(&mut self, receipt: &Receipt) {
        self.acknowledged += 1;
        self.print(|| place(receipt), || receipt_json(receipt));
    }

    fn refused(&mut self, error: &SendError) {
        self.failed += 1;
        let arrived = match error.outcome() {
            SendOutcome::Unknown => "unknown",
            SendOutcome::NotSent => "no",
        };
        if self.output == Output::Json {
            self.print(String::new, || json!({ "error": error.to_string(), "arrived": arrived }));
        }
        self.failure.get_or_insert_with(|| error.to_string());
    }

    fn print(&mut self, text: impl FnOnce() -> String, value: impl FnOnce() -> Value) {
        if self.unread.is_none() {
            self.unread = print::line(self.output, text, value).err();
        }
    }

    fn outcome(&self) -> Result<(), Failure> {
        let Some(failure) = &self.failure else {
            return self.unread.as_ref().map_or(Ok(()), ReaderGone::outcome);
        };
        let failed = counted(self.failed, "message");
        Err(Failure::NotAcknowledged(format!(
            "{failed} not acknowledged, {} acknowledged before; nothing behind was sent: {failure}",
            self.acknowledged
        )))
    }
}

fn place(receipt: &Receipt) -> String {
    let offset = receipt.offset.map_or_else(|| "?".to_owned(), |offset| offset.to_string());
    format!("{}/{}@{offset}", receipt.cluster, receipt.partition)
}

fn receipt_json(receipt: &Receipt) -> Value {
    json!({
        "cluster": receipt.cluster.as_str(),
        "topic": receipt.topic.as_str(),
        "partition": receipt.partition,
        "offset": receipt.offset,
        "timestamp": receipt.timestamp_ms,
    })
}
