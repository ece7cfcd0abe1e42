//! A TCP proxy that misbehaves on request.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::services::ServiceError;
use crate::services::port::{PortLease, loopback};

/// Stands between a client and a server on loopback. Starts out passing everything.
///
/// The server need not be up yet, nor stay up: each accepted connection makes its own to the server, and is closed
/// when that fails. Dropping the proxy closes all connections.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: PortLease,
    listener: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    Hang,
    LoseReplies,
    Cut,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    next_id: u64,
    connections: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: Option<TcpStream>,
    /// Bytes of it were dropped, so it cannot go on.
    torn: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

impl Proxy {
    /// Listens on a free loopback port in front of `127.0.0.1:<target>`.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(target: u16) -> Result<Self, ServiceError> {
        let state = State { mode: Mode::Cut, next_id: 0, connections: HashMap::new() };
        let shared =
            Arc::new(Shared { target: loopback(target), state: Mutex::new(state), changed: Condvar::new() });
        let proxy = Self { shared, port: PortLease::any()?, listener: Mutex::new(None) };
        proxy.restore()?;
        Ok(proxy)
    }

    /// The port that clients connect to; it never changes.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// `127.0.0.1:<port>`, for a client.
    pub fn address(&self) -> String {
        self.port.address().to_string()
    }

    /// How many client connections are open.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        self.shared.switch(Mode::Cut);
        self.stop_listening();
        // Those that the listener accepted while it was told to stop.
        self.shared.close_all();
    }

    /// Closes all connections once; new ones pass.
    pub fn drop_connections(&self) {
        self.shared.close_all();
    }

    /// Lets nothing through in either direction, without closing anything: as when a network path is gone. New
    /// connections are accepted and get silence. What was held back arrives after [`restore`](Self::restore).
    ///
    /// # Errors
    /// When the proxy was cut and cannot listen again.
    pub fn hang(&self) -> Result<(), ServiceError> {
        self.enter(Mode::Hang)
    }

    /// Requests reach the server, its replies are lost. Connections that lost some are closed on the next change.
    ///
    /// # Errors
    /// When the proxy was cut and cannot listen again.
    pub fn lose_replies(&self) -> Result<(), ServiceError> {
        self.enter(Mode::LoseReplies)
    }

    /// Passes everything again.
    ///
    /// # Errors
    /// When the proxy was cut and cannot listen again.
    pub fn restore(&self) -> Result<(), ServiceError> {
        self.enter(Mode::Pass)
    }

    fn enter(&self, mode: Mode) -> Result<(), ServiceError> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.switch(mode);
        if listener.is_none() {
            let socket = TcpListener::bind(self.port.address()).map_err(|source| ServiceError::Io {
                what: format!("listen on {}", self.address()),
                source,
            })?;
            let shared = Arc::clone(&self.shared);
            *listener = Some(thread::spawn(move || shared.accept_all(&socket)));
        }
        Ok(())
    }

    fn stop_listening(&self) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = listener.take() {
            // Wakes the thread from `accept`; it sees the mode and ends, which closes the socket.
            let _ = TcpStream::connect_timeout(&self.port.address(), Duration::from_secs(1));
            let _ = thread.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn switch(&self, mode: Mode) {
        let mut state = self.lock();
        state.mode = mode;
        state.connections.retain(|_, connection| {
            let keep = mode != Mode::Cut && !connection.torn;
            if !keep {
                connection.close();
            }
            keep
        });
        self.changed.notify_all();
    }

    fn close_all(&self) {
        self.lock().connections.drain().for_each(|(_, connection)| connection.close());
        self.changed.notify_all();
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.lock().mode == Mode::Cut {
                return;
            }
            if let Ok((id, client)) = client.and_then(|client| self.register(client)) {
                let shared = Arc::clone(self);
                thread::spawn(move || {
                    let _ = shared.serve(id, client);
                    shared.close(id);
                });
            }
        }
    }

    fn register(&self, client: TcpStream) -> io::Result<(u64, TcpStream)> {
        client.set_nodelay(true)?;
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.connections.insert(id, Connection { client: client.try_clone()?, server: None, torn: false });
        Ok((id, client))
    }

    fn serve(self: &Arc<Self>, id: u64, client: TcpStream) -> io::Result<()> {
        if !self.await_open(id) {
            return Ok(());
        }
        let server = TcpStream::connect_timeout(&self.target, Duration::from_secs(5))?;
        server.set_nodelay(true)?;
        match self.lock().connections.get_mut(&id) {
            Some(connection) => connection.server = Some(server.try_clone()?),
            None => return Ok(()),
        }
        let (replies, sink) = (server.try_clone()?, client.try_clone()?);
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let _ = shared.pump(id, Direction::ToClient, replies, sink);
            shared.close(id);
        });
        self.pump(id, Direction::ToServer, client, server)
    }

    fn pump(&self, id: u64, direction: Direction, mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 || !self.await_open(id) {
                return Ok(());
            }
            if !self.loses(id, direction) {
                to.write_all(&buffer[..length])?;
            }
        }
    }

    /// Waits while the proxy hangs; `false` if the connection was closed meanwhile.
    fn await_open(&self, id: u64) -> bool {
        let state = self.lock();
        let hangs = |state: &mut State| state.mode == Mode::Hang && state.connections.contains_key(&id);
        let state = self.changed.wait_while(state, hangs).unwrap_or_else(PoisonError::into_inner);
        state.connections.contains_key(&id)
    }

    fn loses(&self, id: u64, direction: Direction) -> bool {
        let mut state = self.lock();
        let loses = state.mode == Mode::LoseReplies && direction == Direction::ToClient;
        if let Some(connection) = state.connections.get_mut(&id).filter(|_| loses) {
            connection.torn = true;
        }
        loses
    }

    fn close(&self, id: u64) {
        if let Some(connection) = self.lock().connections.remove(&id) {
            connection.close();
        }
        self.changed.notify_all();
    }
}

impl Connection {
    fn close(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        if let Some(server) = &self.server {
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}
