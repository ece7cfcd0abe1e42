//! Not a benchmark: only that nothing is grossly slow, and that everything arrives under load.

use std::time::Instant;

use zms_sdk::Message;

use crate::rig::{Kafka, LIMIT, LONG_SESSION, now, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_backlog_is_handled_whole() {
    const COUNT: u64 = 50_000;
    let kafka = Kafka::start("a", 8);
    for blocking in [false, true] {
        kafka
            .send((0..COUNT).map(|n| Message::new(vec![b'x'; 100]).partition(i32::try_from(n % 8).unwrap())));
        let before = Instant::now();
        let subscriber = kafka.subscriber().property(LONG_SESSION.0, LONG_SESSION.1).workers(4);
        let begun = if blocking {
            now(subscriber.handle_blocking(|_| ()))
        } else {
            now(subscriber.handle(|_| async {}))
        };
        let sub = begun.unwrap();
        until("all is handled", || sub.inspect().counts.handled == COUNT).await;
        println!("{COUNT} messages, joining included: {:?}", before.elapsed());
        sub.shutdown(LIMIT).await.unwrap();
        assert_eq!(sub.inspect().counts.rewinds, 0);
    }
}
