//! `zmsctl consume`: a member of a group that prints.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::{
    sync::Notify,
    time::{Instant, interval, sleep_until},
};
use zms_sdk::{
    Delivery, GroupName, Outcome, Subscription, Zms,
    consumer::{Inspection, State},
};

use crate::{
    context::Context,
    failure::Failure,
    print::{self, ReaderGone, note},
    signal::Interrupt,
    text::{counted, duration, put, readable, visible},
    view::{Output, View},
};

pub(crate) const ABOUT: &str = "\
It takes messages away from the group's other members: what is printed here counts as handled, and no service of the
group will see it. To look at a topic beside its services, add a group for that purpose.

It begins where the group stands; a group without a position begins as its consumeFrom says. What was printed is
committed at the end, which comes by --max, by --timeout or by Ctrl-C. A line is cluster/partition@offset, key and
payload, separated by tabs, and the headers if there are any; with --output json it is an object. A pipe holds lines
that its reader may never take: to get a certain number and no more, use --max, not head.

Examples:
  zmsctl consume billing --max 10
  zmsctl consume billing --timeout 5s --output json | jq .payload
  zmsctl group add peek --topic orders --consume-from latest && zmsctl consume peek
";

/// How long the end may take: running handlers, the commit, leaving the group.
const END: Duration = Duration::from_secs(10);
/// How often the operator is told what is wrong, as far as it is new.
const LOOK: Duration = Duration::from_secs(2);
/// For messages that come after the end: the next owner gets them.
const LATER: Outcome = Outcome::RetryAfter(Duration::from_secs(3600));

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub(crate) struct ConsumeArgs {
    /// The group.
    group: GroupName,
    /// Ends after this many messages.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Ends when no message came for this long.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    timeout: Option<Duration>,
}

impl ConsumeArgs {
    pub(crate) async fn run(self, context: &Context) -> Result<View, Failure> {
        let mut interrupt = Interrupt::watch()?;
        if context.admin().await?.group(&self.group).await?.suspend {
            let group = &self.group;
            return Err(Failure::Refused(format!(
                "group {group} is suspended, so that nothing is handled; `zmsctl group set {group} --suspend false` \
                 resumes it"
            )));
        }
        let zms = context.zms().await?;
        let printed = self.print(&zms, context.output(), &mut interrupt).await;
        let _ = zms.close(END).await;
        printed.map(|()| View::Printed)
    }

    async fn print(&self, zms: &Zms, output: Output, interrupt: &mut Interrupt) -> Result<(), Failure> {
        let printer = Arc::new(Printer::new(output, self.max));
        let handler = Arc::clone(&printer);
        let subscriber = zms.subscribe(self.group.as_str()).workers(1);
        let subscription = subscriber.handle_blocking(move |delivery| handler.print(&delivery)).await?;

        let ended = self.until_the_end(&subscription, &printer, interrupt).await;
        let left = subscription.shutdown(END).await;
        let count = counted(printer.state().printed, "message");
        if output == Output::Table {
            note(&format!("{count} printed"));
        }
        ended?;
        printer.outcome()?;
        left.map_err(|error| {
            Failure::Other(format!("{error}; some of what was printed will be handled again"))
        })
    }

    async fn until_the_end(
        &self,
        subscription: &Subscription,
        printer: &Printer,
        interrupt: &mut Interrupt,
    ) -> Result<(), Failure> {
        let mut look = interval(LOOK);
        let mut told = Told::default();
        loop {
            let idle = self.timeout.map(|limit| printer.state().last + limit);
            tokio::select! {
                () = printer.ended.notified() => return Ok(()),
                () = interrupt.received() => return Ok(()),
                () = sleep_until(idle.unwrap_or_else(Instant::now)), if idle.is_some() => {
                    if printer.state().last + self.timeout.unwrap_or_default() <= Instant::now() {
                        return joined(&subscription.inspect(), &self.group);
                    }
                }
                _ = look.tick() => told.tell(&subscription.inspect()),
            }
        }
    }
}

/// Silence is an answer only from a member.
fn joined(inspection: &Inspection, group: &GroupName) -> Result<(), Failure> {
    if inspection.counts.assignments > 0 {
        return Ok(());
    }
    let cluster = &inspection.cluster;
    let reason = inspection.failure.as_deref().unwrap_or("the cluster gave it no partitions in time");
    Err(Failure::NoAnswer(format!("group {group} could not be joined on cluster {cluster}: {reason}")))
}

/// What the operator was told already.
#[derive(Default)]
struct Told {
    failure: Option<String>,
    idle: bool,
}

impl Told {
    fn tell(&mut self, inspection: &Inspection) {
        if inspection.failure.is_some() && inspection.failure != self.failure {
            self.failure.clone_from(&inspection.failure);
            let failure = inspection.failure.as_deref().unwrap_or_default();
            note(&format!("waiting for cluster {}: {failure}", inspection.cluster));
        }
        let holds_nothing = inspection.state == State::Running && inspection.partitions.is_empty();
        if holds_nothing && !self.idle {
            note("the group's other members hold all partitions; nothing will come as long as they do");
        }
        self.idle = holds_nothing;
    }
}

/// Prints deliveries, up to an end.
struct Printer {
    output: Output,
    max: Option<u64>,
    state: Mutex<Printing>,
    ended: Notify,
}

struct Printing {
    printed: u64,
    ended: bool,
    gone: Option<ReaderGone>,
    last: Instant,
}

impl Printer {
    fn new(output: Output, max: Option<u64>) -> Self {
        let state = Printing { printed: 0, ended: false, gone: None, last: Instant::now() };
        Self { output, max, state: Mutex::new(state), ended: Notify::new() }
    }

    /// On the subscription's one worker. What is done here is committed, so the line must have left before.
    fn print(&self, delivery: &Delivery) -> Outcome {
        if self.state().ended {
            return LATER;
        }
        // Not under the lock: a reader that is slow must not stop those who only look.
        let line = print::line(self.output, || text(delivery), || value(delivery));
        let mut state = self.state();
        state.last = Instant::now();
        let outcome = match line {
            Ok(()) => {
                state.printed += 1;
                state.ended = Some(state.printed) == self.max;
                Outcome::Done
            }
            Err(gone) => {
                state.ended = true;
                state.gone = Some(gone);
                LATER
            }
        };
        if state.ended {
            self.ended.notify_one();
        }
        outcome
    }

    fn outcome(&self) -> Result<(), Failure> {
        self.state().gone.as_ref().map_or(Ok(()), ReaderGone::outcome)
    }

    fn state(&self) -> MutexGuard<'_, Printing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(delivery: &Delivery) -> String {
    let (cluster, partition, offset) = (delivery.cluster(), delivery.partition(), delivery.offset());
    let key = readable(delivery.key());
    let payload = readable(delivery.payload());
    let mut line = format!("{cluster}/{partition}@{offset}\t{key}\t{payload}");
    for header in delivery.headers() {
        let value = readable(header.value);
        line = format!("{line}\t{}={value}", visible(header.name));
    }
    line
}

fn value(delivery: &Delivery) -> Value {
    let mut object = Map::new();
    object.insert("cluster".to_owned(), delivery.cluster().as_str().into());
    object.insert("topic".to_owned(), delivery.topic().as_str().into());
    object.insert("partition".to_owned(), delivery.partition().into());
    object.insert("offset".to_owned(), delivery.offset().into());
    object.insert("timestamp".to_owned(), json!(delivery.timestamp_ms()));
    put(&mut object, "key", delivery.key());
    put(&mut object, "payload", delivery.payload());
    let headers = delivery.headers().iter().map(|header| {
        let mut shown = Map::from_iter([("name".to_owned(), header.name.into())]);
        put(&mut shown, "value", header.value);
        Value::Object(shown)
    });
    object.insert("headers".to_owned(), headers.collect());
    Value::Object(object)
}
