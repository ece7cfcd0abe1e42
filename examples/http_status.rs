//! A service that shows itself to Kubernetes and to whoever looks for what is stuck: `/livez`, `/readyz` and `/inspect`
//! over HTTP, beside a subscription.
//!
//! Runs by itself, on a cluster inside the process: `cargo run -p zms-examples --bin http_status`, then
//! `curl http://127.0.0.1:8080/inspect` (another address with `ZMS_HTTP`). With an argument, `-- --once`, it asks itself
//! and ends. In a service of your own take the HTTP server that you have; all that counts is in `answer`.

use std::{error::Error, sync::Arc, time::Duration};

use serde_json::{Value, json, to_value};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use zms_sdk::{Delivery, Message, Subscription, Zms, testing::Sandbox};

/// For a client that says nothing.
const PATIENCE: Duration = Duration::from_secs(5);

struct Service {
    zms: Zms,
    billing: Subscription,
}

impl Service {
    async fn start(zms: Zms) -> Result<Self, Box<dyn Error>> {
        let handler = |_: Delivery| async { tokio::time::sleep(Duration::from_millis(1)).await };
        let billing = zms.subscribe("billing").workers(4).handle(handler).await?;
        Ok(Self { zms, billing })
    }

    /// What is asked for, and whether all is well.
    fn answer(&self, path: &str) -> Result<(u16, Value), serde_json::Error> {
        let health = self.zms.health();
        let status = |good| if good { 200 } else { 503 };
        Ok(match path {
            "/livez" => (status(health.is_alive()), to_value(health)?),
            "/readyz" => (status(health.is_ready()), to_value(health)?),
            "/inspect" => (200, json!({ "billing": self.billing.inspect(), "handle": self.zms.status() })),
            _ => (404, json!({ "paths": ["/livez", "/readyz", "/inspect"] })),
        })
    }
}

/// One request, one answer: enough of HTTP/1.1 for probes and curl.
async fn serve(mut stream: TcpStream, service: &Service) -> Result<(), Box<dyn Error>> {
    let mut request = String::new();
    let mut lines = BufReader::new((&mut stream).take(8 << 10));
    // The headers are read to their end, so that closing does not cut the answer off.
    while lines.read_line(&mut request).await? > 2 {}
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let (status, body) = service.answer(path)?;
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} \r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    Ok(stream.shutdown().await?)
}

async fn listen(listener: TcpListener, service: Arc<Service>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            // Whoever asked has gone, or said nothing.
            let _unanswered = timeout(PATIENCE, serve(stream, &service)).await;
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::start(["a"]).await?;
    sandbox.topic("orders", 4, "a").await?;
    sandbox.group("billing", "orders").await?;
    let service = Arc::new(Service::start(sandbox.connect().await?).await?);

    // What a service should hear of once, when it happens.
    let mut failures = service.billing.failures();
    tokio::spawn(async move {
        while let Some(failure) = failures.next().await {
            eprintln!("billing: {:?} on cluster {}: {}", failure.kind, failure.cluster, failure.reason);
        }
    });

    let once = std::env::args().any(|argument| argument == "--once");
    let address = std::env::var("ZMS_HTTP").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(if once { "127.0.0.1:0" } else { &address }).await?;
    let address = listener.local_addr()?;
    println!("http://{address}/livez /readyz /inspect");
    tokio::spawn(listen(listener, Arc::clone(&service)));

    service.billing.ready().await?;
    for order in 0..100 {
        service.zms.send("orders", Message::new("paid").key(format!("order-{order}"))).await?;
    }
    if once {
        for path in ["/livez", "/readyz", "/inspect"] {
            println!("{path}\n{}", get(address, path).await?);
        }
    } else {
        tokio::signal::ctrl_c().await?;
    }
    service.zms.close(Duration::from_secs(10)).await?;
    Ok(())
}

async fn get(address: std::net::SocketAddr, path: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(address: std::net::SocketAddr, path: &str) -> (String, Value) {
        let answer =
            timeout(Duration::from_secs(60), get(address, path)).await.expect("answers").expect("reads");
        let (head, body) = answer.split_once("\r\n\r\n").expect("is HTTP");
        let status = head.split(' ').nth(1).expect("has a status").to_owned();
        (status, serde_json::from_str(body).expect("is JSON"))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn probes_and_whoever_looks_get_their_answers() {
        let sandbox = Sandbox::start(["a"]).await.expect("starts");
        sandbox.topic("orders", 2, "a").await.expect("is new");
        sandbox.group("billing", "orders").await.expect("is new");
        let zms = sandbox.connect().await.expect("connects");
        let service = Arc::new(Service::start(zms).await.expect("begins"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("is bound");
        tokio::spawn(listen(listener, Arc::clone(&service)));

        assert_eq!(asked(address, "/livez").await.0, "200");
        service.billing.ready().await.expect("joins");
        let ready = async {
            while asked(address, "/readyz").await.0 != "200" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), ready).await.expect("is ready");
        let (status, shown) = asked(address, "/inspect").await;
        assert_eq!((status.as_str(), &shown["billing"]["topic"]), ("200", &json!("orders")));
        assert_eq!(shown["billing"]["partitions"].as_array().map(Vec::len), Some(2));
        assert_eq!(shown["handle"]["registry"]["state"], "connected");
        assert_eq!(asked(address, "/elsewhere").await.0, "404");

        service.zms.close(Duration::from_secs(60)).await.expect("closes");
        assert_eq!(asked(address, "/livez").await.0, "200", "ended by order");
    }
}
