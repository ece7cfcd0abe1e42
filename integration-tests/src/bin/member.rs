//! A member of a group in a process of its own, for tests that kill it: `member CONNECT GROUP`.
//!
//! Tells on standard output when it is `ready` and, for each message, when a call starts and when it is done:
//! `start|done <cluster> <partition> <offset> <key> <payload>`. Ends when its standard input does.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use zms_sdk::{Delivery, Outcome, Zms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(connect), Some(group)) = (arguments.next(), arguments.next()) else {
        return Err("usage: member CONNECT GROUP".into());
    };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let zms =
        Zms::builder().zookeeper(connect).instance("remote-member").without_snapshot().connect().await?;
    let subscription =
        zms.subscribe(&group).workers(4).property("session.timeout.ms", "10000").handle(handle).await?;
    subscription.ready().await?;
    tell("ready");
    std::future::pending::<()>().await;
    Ok(())
}

async fn handle(delivery: Delivery) -> Outcome {
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
    tokio::time::sleep(Duration::from_millis(5)).await;
    tell(&format!("done {message}"));
    Outcome::Done
}

/// One write for each line, so that a kill cuts off one line at most.
fn tell(line: &str) {
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}
