//! Processes of this very program, each for one thing.

use std::{
    env,
    io::Read,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::Failure;

/// Starts this program with other arguments. Its errors go to our standard error; its input and output are ours to use.
pub(crate) fn spawn<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Child, Failure> {
    let program = env::current_exe()?;
    Ok(Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?)
}

/// Waits for a child to end by itself; what it printed, which must fit a pipe's buffer (64 KiB). At the limit it is
/// killed.
pub(crate) fn output_within(mut child: Child, limit: Duration) -> Result<String, Failure> {
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(format!("a measurement did not end within {limit:?}").into());
        }
        thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        return Err(format!("a measurement ended with {status}").into());
    }
    let mut output = String::new();
    child.stdout.take().ok_or("a child without output")?.read_to_string(&mut output)?;
    Ok(output)
}
