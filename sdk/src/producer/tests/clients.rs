use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_topics_on_three_clusters_cost_three_clients() {
    let bench = Bench::new();
    let adoptions = (0..1_000).map(|n| bench.adopt(route(&format!("topic-{n}"), ["a", "b", "c"][n % 3])));
    futures_util::future::join_all(adoptions).await;
    assert_eq!(bench.engine.opened(), 3);
    assert_eq!(bench.producers.stats().clients, 3);
    for n in 0..1_000 {
        bench.producers.lookup(&format!("topic-{n}")).unwrap().send_oneway(message("x"));
    }
    bench.engine.pump();
    assert_eq!(bench.engine.log().len(), 1_000);
    bench.assert_everything_returned();
}

#[tokio::test(start_paused = true)]
async fn topics_share_a_client_when_their_settings_come_to_the_same() {
    let bench = Bench::new();
    let with = |topic: &str, name: &str, value: &str| {
        let mut route = route(topic, "a");
        route.producer.insert(name.to_owned(), value.to_owned());
        route
    };
    bench.adopt(route("plain", "a")).await;
    bench.adopt(with("same", "linger", "5ms")).await;
    assert_eq!(bench.engine.opened(), 1);
    bench.adopt(with("other", "profile", "throughput")).await;
    assert_eq!(bench.engine.opened(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_no_topic_uses_is_kept_for_a_while_and_then_closed() {
    let bench = Bench::new();
    bench.adopt(route("orders", "a")).await;
    bench.adopt(route("orders", "b")).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    bench.adopt(route("orders", "a")).await;
    assert_eq!(bench.engine.opened(), 2, "the first one was still there");
    until(|| bench.engine.cluster("b").closed() == 1).await;
    assert_eq!(bench.engine.cluster("a").closed(), 0);
    assert_eq!(bench.producers.stats().clients, 1);
    bench.adopt(route("orders", "b")).await;
    assert_eq!(bench.engine.opened(), 3);
    let producer = bench.producers.lookup("orders").unwrap();
    let sent = start(&bench, &producer, "1").await;
    bench.engine.pump();
    assert!(sent.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn another_bootstrap_of_the_same_cluster_gets_another_client() {
    let bench = Bench::new();
    let producer = bench.producer("orders", "a").await;
    let mut moved = route("orders", "a");
    moved.cluster = Arc::new(ClusterSpec {
        bootstrap: "elsewhere:9092".to_owned(),
        ..ClusterSpec::clone(&moved.cluster)
    });
    bench.adopt(moved).await;
    assert_eq!(bench.engine.opened(), 2);
    let sent = start(&bench, &producer, "1").await;
    bench.engine.pump();
    assert!(sent.await.unwrap().is_ok());
    until(|| bench.engine.cluster("a").closed() == 1).await;
}
