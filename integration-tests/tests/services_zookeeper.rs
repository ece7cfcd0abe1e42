//! The `ZooKeeper` server and the proxy do what tests will rely on.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use zms_integration_tests::proxy::Proxy;
use zms_integration_tests::services::{ZooKeeperServer, require_services};
use zms_integration_tests::wait::{LIMIT, await_that};

/// Set in the process that a test starts in order to kill it.
const HOST: &str = "ZMS_TEST_HOSTS_A_SERVER";
/// Long enough to tell silence from slowness, for what must not happen.
const SILENCE: Duration = Duration::from_millis(300);

#[test]
fn zookeeper_survives_kill_stop_and_pause_on_the_same_port() {
    if !require_services() {
        return;
    }
    let server = ZooKeeperServer::start().unwrap();
    let (port, first) = (server.port(), server.pid().unwrap());
    assert!(ask(port).unwrap().contains("Mode: standalone"));

    server.kill();
    assert_eq!(server.pid(), None);
    assert!(ask(port).is_err());
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), Some(first));

    server.pause().unwrap();
    assert_eq!(
        ask_within(port, SILENCE).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "a frozen server accepts and says nothing"
    );
    server.pause().unwrap();
    server.resume().unwrap();
    await_that("a thawed server answers", || ask(port).is_ok_and(|answer| answer.contains("Mode:")));

    server.stop().unwrap();
    assert!(server.pause().is_err());
    server.restart().unwrap();
    assert!(ask(port).unwrap().contains("Mode:"));

    end_from_outside(server.pid().unwrap());
    await_that("the end is noticed", || server.pause().is_err());
    server.restart().unwrap();
    assert!(ask(port).unwrap().contains("Mode:"));

    let pid = server.pid().unwrap();
    drop(server);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "dropping the handle ends the process");
}

#[test]
fn servers_die_with_a_killed_test_process() {
    if !require_services() {
        return;
    }
    if std::env::var_os(HOST).is_some() {
        return host_a_server();
    }
    let mut test = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "servers_die_with_a_killed_test_process"])
        .env(HOST, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let pid =
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("pid=").map(str::to_owned)).unwrap();
    let process = std::path::Path::new("/proc").join(pid);
    assert!(process.exists());

    test.kill().unwrap();
    test.wait().unwrap();
    await_that("the server is gone", || !process.exists());
}

#[test]
fn a_cut_proxy_closes_and_refuses_and_a_restored_one_passes_on_the_same_port() {
    let proxy = Proxy::start(echo_server()).unwrap();
    let mut before = connect(&proxy);
    assert_eq!(echo(&mut before), b"ping");
    assert_eq!(proxy.connections(), 1);

    proxy.cut();
    assert!(is_closed(&mut before));
    assert_eq!(TcpStream::connect(proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);

    proxy.restore().unwrap();
    assert_eq!(echo(&mut connect(&proxy)), b"ping");
}

#[test]
fn a_hanging_proxy_holds_bytes_of_old_and_new_connections_until_restored() {
    let proxy = Proxy::start(echo_server()).unwrap();
    let mut old = connect(&proxy);
    assert_eq!(echo(&mut old), b"ping");

    proxy.hang().unwrap();
    let mut new = connect(&proxy);
    for stream in [&mut old, &mut new] {
        stream.write_all(b"ping").unwrap();
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    proxy.restore().unwrap();
    for stream in [&mut old, &mut new] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
    }
}

#[test]
fn lost_replies_tear_only_the_connections_that_lost_some() {
    let proxy = Proxy::start(echo_server()).unwrap();
    let (mut torn, mut whole) = (connect(&proxy), connect(&proxy));
    assert_eq!(echo(&mut torn), b"ping");
    assert_eq!(echo(&mut whole), b"ping");

    proxy.lose_replies().unwrap();
    torn.write_all(b"ping").unwrap();
    torn.set_read_timeout(Some(SILENCE)).unwrap();
    assert_eq!(torn.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);

    proxy.restore().unwrap();
    torn.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(is_closed(&mut torn));
    assert_eq!(echo(&mut whole), b"ping");
}

#[test]
fn a_proxy_outlives_its_server() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let proxy = Proxy::start(gone).unwrap();
    assert!(is_closed(&mut connect(&proxy)));
    await_that("its connections are forgotten", || proxy.connections() == 0);
}

/// What the test that is to be killed does.
fn host_a_server() {
    let server = ZooKeeperServer::start().unwrap();
    println!("\npid={}", server.pid().unwrap());
    thread::sleep(LIMIT);
}

fn end_from_outside(pid: u32) {
    assert!(Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status().unwrap().success());
}

fn ask(port: u16) -> std::io::Result<String> {
    ask_within(port, LIMIT)
}

fn ask_within(port: u16, limit: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    port
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn echo(stream: &mut TcpStream) -> Vec<u8> {
    stream.write_all(b"ping").unwrap();
    let mut answer = vec![0; 4];
    stream.read_exact(&mut answer).unwrap();
    answer
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}
