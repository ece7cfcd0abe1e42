//! Lines printed on the way, by commands that do not answer at once.

use std::io::{self, Write};

use serde_json::Value;

use crate::{failure::Failure, view::Output};

/// Nobody reads any more: the pipe is closed, or the disk is full.
#[derive(Debug)]
pub(crate) struct ReaderGone(pub(crate) io::Error);

impl ReaderGone {
    /// A reader that has what it wanted, as `head`, is no failure; anything else is.
    pub(crate) fn outcome(&self) -> Result<(), Failure> {
        if self.0.kind() == io::ErrorKind::BrokenPipe {
            return Ok(());
        }
        Err(Failure::Other(format!("cannot write: {}", self.0)))
    }
}

/// Prints one line, which has left the process when this returns.
pub(crate) fn line(
    output: Output,
    text: impl FnOnce() -> String,
    value: impl FnOnce() -> Value,
) -> Result<(), ReaderGone> {
    let mut line = match output {
        Output::Table => text(),
        Output::Json => value().to_string(),
    };
    line.push('\n');
    whole(line.as_bytes())
}

/// Prints a whole answer, which has left the process when this returns.
pub(crate) fn whole(answer: &[u8]) -> Result<(), ReaderGone> {
    let mut out = io::stdout().lock();
    out.write_all(answer).and_then(|()| out.flush()).map_err(ReaderGone)
}

/// Says something to the operator beside the output.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
