//! A member in a process of its own, which can be killed.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use zms_core::sequence::Position;

use super::{Estate, Handled, Trial};
use crate::guarantees::{Guarantees, Handling, Record};
use crate::wait::LIMIT;

/// The program `member` of this package, joined to a trial's group. It ends with this process, however that ends, and
/// with this handle.
#[derive(Debug)]
pub struct RemoteMember {
    child: Child,
    /// The program ends when this does.
    _leash: ChildStdin,
    listener: Option<JoinHandle<()>>,
}

impl RemoteMember {
    /// Starts `program` and waits until it has its assignment.
    ///
    /// # Panics
    /// When it does not get there.
    pub fn start(program: &Path, estate: &Estate, trial: &Trial) -> Self {
        Self::start_with(program, estate, trial, &[])
    }

    /// As [`start`](Self::start), with more arguments: what they mean, the program tells.
    ///
    /// # Panics
    /// When it does not get there.
    pub fn start_with(program: &Path, estate: &Estate, trial: &Trial, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args([estate.connect_string(), trial.group().as_str()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let leash = child.stdin.take().expect("it was asked for");
        let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (kept, handled) = (trial.kept().clone(), trial.handled().clone());
        let (ready, is_ready) = sync_channel(1);
        let listener = thread::spawn(move || listen(lines, &kept, &handled, &mut Some(ready)));
        wait_for(&is_ready);
        Self { child, _leash: leash, listener: Some(listener) }
    }

    /// SIGKILL. When it returns, the guarantees know of all that the program has told.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("listening does not panic");
        }
    }
}

impl Drop for RemoteMember {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(ready: &Receiver<()>) {
    ready.recv_timeout(LIMIT).expect("the member gets its assignment");
}

/// Tells the guarantees what the program tells; calls that run at its end were not done.
fn listen(
    lines: BufReader<ChildStdout>,
    kept: &Guarantees,
    handled: &Handled,
    ready: &mut Option<SyncSender<()>>,
) {
    let mut running: HashMap<(String, i32, i64), Handling> = HashMap::new();
    // The last line may have been cut off.
    for line in lines.lines().map_while(Result::ok) {
        match line.split_once(' ') {
            None => drop(ready.take().map(|ready| ready.send(()))),
            Some((verb, rest)) => {
                let Some(record) = read(rest) else { continue };
                let Position { cluster, partition, offset } = record.at.clone();
                let place = (cluster, partition, offset);
                if verb == "start" {
                    running.insert(place, kept.handling(&record));
                } else if let Some(call) = running.remove(&place) {
                    handled.note(&record.at.cluster);
                    call.done();
                }
            }
        }
    }
}

/// `<cluster> <partition> <offset> <key> <payload>`.
fn read(text: &str) -> Option<Record> {
    let mut parts = text.splitn(5, ' ');
    let cluster = parts.next()?.to_owned();
    let (partition, offset) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let key = parts.next()?;
    Record::read(parts.next()?.as_bytes(), Some(key.as_bytes()), Position { cluster, partition, offset })
}
