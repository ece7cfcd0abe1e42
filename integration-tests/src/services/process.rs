//! One JVM: started, signalled, restarted, and gone when its owner is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::error::{Attempting, ServiceError};
use super::install;
use super::port::loopback;

/// How long a start may take on a machine with much else to do.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long an orderly stop may take before the process is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const TAIL_LINES: usize = 40;

/// Holds the JVM back until its watchdog stands: `exec` keeps the process id, and end of file means the owner died.
const HELD: &str = r#"trap "" HUP; read -r go || exit 1; exec "$@" </dev/null"#;
/// Waits for its standard input to close, which is when the owner ends in whatever way, and kills the server.
const WATCHDOG: &str = r#"read -r closed; kill -9 "$1" 2>/dev/null"#;

/// How to run a server.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) jvm_options: Vec<String>,
    pub(crate) main_class: &'static str,
    pub(crate) arguments: Vec<String>,
}

/// A JVM process that can be started again and again with the same directory.
#[derive(Debug)]
pub(crate) struct Jvm {
    launch: Launch,
    running: Mutex<Option<Running>>,
    detached: AtomicBool,
}

#[derive(Debug)]
struct Running {
    server: Child,
    watchdog: Child,
}

impl Jvm {
    pub(crate) fn new(launch: Launch) -> Self {
        Self { launch, running: Mutex::new(None), detached: AtomicBool::new(false) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.launch.name
    }

    /// Starts the process and waits until `ready` holds. Nothing happens if it is running already.
    pub(crate) fn start(&self, ready: impl Fn() -> bool) -> Result<(), ServiceError> {
        self.spawn()?;
        self.await_ready(ready)
    }

    /// Starts the process without waiting.
    fn spawn(&self) -> Result<(), ServiceError> {
        let mut running = self.lock();
        if running.as_mut().is_some_and(Running::is_alive) {
            return Ok(());
        }
        *running = Some(self.launch.run()?);
        Ok(())
    }

    /// Waits until `ready` holds; fails early if the process ends.
    fn await_ready(&self, ready: impl Fn() -> bool) -> Result<(), ServiceError> {
        let limit = Instant::now() + START_LIMIT;
        loop {
            if !self.is_running() {
                return Err(self.not_ready("ended while starting"));
            }
            if ready() {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(self.not_ready(&format!("was not ready after {START_LIMIT:?}")));
            }
            std::thread::sleep(POLL);
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.lock().as_ref().map(|running| running.server.id())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().as_mut().is_some_and(Running::is_alive)
    }

    /// SIGKILL, and waits for the end. Nothing happens if it is not running.
    pub(crate) fn kill(&self) {
        if let Some(running) = self.lock().take() {
            running.kill();
        }
    }

    /// SIGTERM, and waits for the end; kills when that takes too long.
    pub(crate) fn stop(&self) -> Result<(), ServiceError> {
        let mut guard = self.lock();
        let Some(running) = guard.as_mut() else { return Ok(()) };
        if running.is_alive() {
            running.signal(Signal::TERM).attempting(format_args!("stop {}", self.name()))?;
        }
        let limit = Instant::now() + STOP_LIMIT;
        while running.is_alive() && Instant::now() < limit {
            std::thread::sleep(POLL);
        }
        if let Some(running) = guard.take() {
            running.kill();
        }
        Ok(())
    }

    /// SIGSTOP, and waits until every thread stands: the signal alone lets them run on for a moment.
    pub(crate) fn pause(&self) -> Result<(), ServiceError> {
        let what = format_args!("pause {}", self.name());
        let pid = self.signal(Signal::STOP)?;
        // The report is left in place, so that pausing twice is fine.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let limit = Instant::now() + STOP_LIMIT;
        while waitid(WaitId::Pid(pid), stopped).attempting(what)?.is_none() {
            if Instant::now() > limit {
                return Err(self.not_ready(&format!("did not stand still within {STOP_LIMIT:?}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) -> Result<(), ServiceError> {
        self.signal(Signal::CONT).map(drop)
    }

    fn signal(&self, signal: Signal) -> Result<Pid, ServiceError> {
        let mut guard = self.lock();
        let running = guard.as_mut().ok_or_else(|| ServiceError::NotRunning(self.name().to_owned()))?;
        if !running.is_alive() {
            return Err(ServiceError::NotRunning(self.name().to_owned()));
        }
        running.signal(signal).attempting(format_args!("signal {}", self.name()))?;
        Ok(Pid::from_child(&running.server))
    }

    /// Lets the process outlive this one and its handle, and gives up control over it.
    pub(crate) fn detach(&self) {
        self.detached.store(true, Ordering::Relaxed);
        if let Some(mut running) = self.lock().take() {
            running.release();
        }
    }

    /// Starts the process, to outlive this one, with what an earlier one left in the same directory, and waits until
    /// `ready` holds. If `port` is taken or it does not come up, it is ended, and the directory stays. Its process id.
    pub(crate) fn revive(&self, port: u16, ready: impl Fn() -> bool) -> Result<u32, ServiceError> {
        self.detached.store(true, Ordering::Relaxed);
        if accepts(port) {
            let problem = format!("another program listens on port {port}");
            return Err(ServiceError::Request { name: self.name().to_owned(), problem });
        }
        let started = self.start(ready);
        let Some(pid) = self.pid().filter(|_| started.is_ok()) else {
            self.kill();
            return Err(started.err().unwrap_or_else(|| ServiceError::NotRunning(self.name().to_owned())));
        };
        self.detach();
        Ok(pid)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_ready(&self, problem: &str) -> ServiceError {
        let log = self.launch.log();
        ServiceError::NotReady {
            name: self.name().to_owned(),
            problem: problem.to_owned(),
            tail: tail(&log),
            log: log.display().to_string(),
        }
    }
}

impl Drop for Jvm {
    /// Kills the server and removes its directory; after a failed test the directory stays, to be looked at.
    fn drop(&mut self) {
        if self.detached.load(Ordering::Relaxed) {
            return;
        }
        self.kill();
        if std::thread::panicking() {
            eprintln!("the log of {} is in {}", self.name(), self.launch.log().display());
        } else {
            let _ = fs::remove_dir_all(&self.launch.directory);
        }
    }
}

impl Launch {
    fn log(&self) -> PathBuf {
        self.directory.join("log.txt")
    }

    fn run(&self) -> Result<Running, ServiceError> {
        let mut server = self.held_command()?.spawn().attempting(format_args!("start {}", self.name))?;
        let watchdog = watch(server.id()).attempting("start a watchdog")?;
        let mut gate = server.stdin.take().ok_or_else(|| ServiceError::NotRunning(self.name.clone()))?;
        gate.write_all(b"go\n").attempting(format_args!("start {}", self.name))?;
        Ok(Running { server, watchdog })
    }

    fn held_command(&self) -> Result<Command, ServiceError> {
        let log_path = self.log();
        let log =
            File::options().create(true).append(true).open(&log_path).attempting("open a server's log")?;
        let errors = log.try_clone().attempting("open a server's log")?;
        let mut command = Command::new("sh");
        command
            .args(["-c", HELD, "sh", "java"])
            .args(&self.jvm_options)
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"])
            .args(["-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.showDateTime=true"])
            .args(["-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-cp"])
            .arg(install::java_class_path()?)
            .arg(self.main_class)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            // An interrupt from the terminal is for the test alone; it takes the servers along.
            .process_group(0);
        Ok(command)
    }
}

impl Running {
    fn is_alive(&mut self) -> bool {
        let alive = matches!(self.server.try_wait(), Ok(None));
        if !alive {
            // It is reaped now, and its process id may become anybody's, whom the watchdog must not kill.
            self.release();
        }
        alive
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_child(&self.server);
        Ok(kill_process(pid, signal)?)
    }

    /// Ends the watchdog alone.
    fn release(&mut self) {
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }

    fn kill(mut self) {
        // The watchdog goes first: once the server is reaped, its process id may belong to anybody.
        self.release();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Whether something accepts connections on a loopback port.
pub(crate) fn accepts(port: u16) -> bool {
    TcpStream::connect_timeout(&loopback(port), Duration::from_secs(1)).is_ok()
}

fn watch(pid: u32) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", WATCHDOG, "sh", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
