//! Lines printed on the way, by commands that do not answer at once.

use std::io::{self, Write};

use serde_json::Value;

use crate::view::Output;

/// Nobody reads any more: the pipe is closed, or the disk is full.
#[derive(Debug)]
pub(crate) struct ReaderGone(pub(crate) io::Error);

impl ReaderGone {
    /// Whether the reader has what it wanted, as `head` does; anything else is a failure.
    pub(crate) fn is_content(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
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
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(ReaderGone)
}

/// Says something to the operator beside the output.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
