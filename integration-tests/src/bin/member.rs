//! A member of a group in a process of its own, for tests that kill it: `member CONNECT GROUP [uneven]`. It has four workers
//! and the default order. With `uneven` it has sixteen and the order of keys, and is slow with some of the messages.
//!
//! Tells on standard output when it is `ready` and, for each message, when a call starts and when it is done:
//! `start|done <cluster> <partition> <offset> <key> <payload>`. Ends when its standard input does.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use zms_sdk::consumer::Ordering;
use zms_sdk::{Delivery, Outcome, Zms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(connect), Some(group)) = (arguments.next(), arguments.next()) else {
        return Err("usage: member CONNECT GROUP [uneven]".into());
    };
    let uneven = arguments.next().is_some_and(|word| word == "uneven");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let zms =
        Zms::builder().zookeeper(connect).instance("remote-member").without_snapshot().connect().await?;
    let subscriber = zms.subscribe(&group).property("session.timeout.ms", "10000");
    let subscription = if uneven {
        subscriber
            .workers(16)
            .ordering(Ordering::Key)
            .handle(|delivery| handle(delivery, uneven_pace))
            .await?
    } else {
        subscriber.workers(4).handle(|delivery| handle(delivery, |_| PACE)).await?
    };
    subscription.ready().await?;
    tell("ready");
    std::future::pending::<()>().await;
    Ok(())
}

const PACE: Duration = Duration::from_millis(5);

/// A long time for some offsets, far apart, while those of other keys behind them take little.
fn uneven_pace(offset: i64) -> Duration {
    if offset % 40 == 7 { Duration::from_secs(3) } else { PACE }
}

async fn handle(delivery: Delivery, pace: fn(i64) -> Duration) -> Outcome {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let message = format!(
        "{} {} {} {} {}",
        delivery.cluster(),
        delivery.partition(),
        delivery.offset(),
        text(delivery.key()),
        text(delivery.payload()),
    );
    tell(&format!("start {message}"));
    tokio::time::sleep(pace(delivery.offset())).await;
    tell(&format!("done {message}"));
    Outcome::Done
}

/// One write for each line, so that a kill cuts off one line at most.
fn tell(line: &str) {
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}
