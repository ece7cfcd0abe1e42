//! Where the messages come from: the command line, or the lines of stdin.

use std::io::{self, BufRead, BufReader, Read};

use tokio::sync::mpsc;
use zms_sdk::Message;

use super::ProduceArgs;
use crate::failure::Failure;

/// Lines read ahead.
const AHEAD: usize = 64;
/// Longest line: far above what a cluster takes as one message, so that the SDK's own error is seen first.
const LONGEST: usize = 64 << 20;

/// The messages to send.
pub(super) enum Input {
    /// One message, this many times.
    Repeated { message: Message, left: u64 },
    /// One for each line.
    Lines {
        lines: mpsc::Receiver<io::Result<Vec<u8>>>,
        read: u64,
        frame: Message,
        separator: Option<Vec<u8>>,
    },
}

impl Input {
    pub(super) fn new(args: &ProduceArgs) -> Self {
        let frame = args.frame();
        match args.message.as_deref() {
            _ if args.null => Self::Repeated { message: frame, left: args.count },
            None | Some("-") => {
                let separator = args.key_separator.as_ref().map(|text| text.clone().into_bytes());
                Self::Lines { lines: stdin_lines(), read: 0, frame, separator }
            }
            Some(text) => Self::Repeated { message: with_payload(frame, text.as_bytes()), left: args.count },
        }
    }

    /// The next message; `None` at the end. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Failure> {
        match self {
            Self::Repeated { left: 0, .. } => Ok(None),
            Self::Repeated { message, left } => {
                *left -= 1;
                Ok(Some(message.clone()))
            }
            Self::Lines { lines, read, frame, separator } => {
                let Some(line) = lines.recv().await else { return Ok(None) };
                *read += 1;
                let line = line.map_err(|error| Failure::Other(format!("line {read} of stdin: {error}")))?;
                message(frame, &line, separator.as_deref()).map(Some).ok_or_else(|| {
                    Failure::Usage(format!(
                        "line {read} of stdin has no key separator; nothing behind it was sent"
                    ))
                })
            }
        }
    }
}

/// A line as a message; `None` if it should have a key and has none.
fn message(frame: &Message, line: &[u8], separator: Option<&[u8]>) -> Option<Message> {
    let Some(separator) = separator else { return Some(with_payload(frame.clone(), line)) };
    let at = line.windows(separator.len()).position(|window| window == separator)?;
    let (key, value) = (&line[..at], &line[at + separator.len()..]);
    Some(with_payload(frame.clone().key(key.to_vec()), value))
}

/// The same message with a payload.
fn with_payload(frame: Message, payload: &[u8]) -> Message {
    frame.with_payload(payload.to_vec())
}

/// Reads on a thread of its own, which the process does not wait for: nobody can interrupt a read of a terminal.
fn stdin_lines() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (lines, received) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(io::stdin());
        loop {
            let line = read_line(&mut reader);
            let is_last = !matches!(line, Ok(Some(_)));
            if line.transpose().is_some_and(|line| lines.blocking_send(line).is_err()) || is_last {
                return;
            }
        }
    });
    received
}

/// One line without its end; `None` at the end of all.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(LONGEST as u64 + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() > LONGEST {
        return Err(io::Error::other(format!("longer than {LONGEST} bytes")));
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        line.pop_if(|last| *last == b'\r');
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_their_end_and_nothing_else() {
        let mut reader: &[u8] = b"one\r\n\n two \nlast";
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut reader).unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one", "", " two ", "last"]);
    }

    #[test]
    fn a_key_ends_at_the_first_separator() {
        let frame = Message::default().header("h", "v");
        let split = |line: &str| message(&frame, line.as_bytes(), Some(b"::"));
        let found = split("k::a::b").unwrap();
        assert_eq!(found.key_bytes().unwrap(), "k".as_bytes());
        assert_eq!(found.payload().unwrap(), "a::b".as_bytes());
        assert_eq!(found.headers().len(), 1);
        assert_eq!(split("k::").unwrap().payload().unwrap(), "".as_bytes());
        assert_eq!(split("no separator"), None);
    }
}
