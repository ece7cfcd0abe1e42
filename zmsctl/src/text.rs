//! Foreign bytes and texts as they may be shown.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Map, Value};

/// Foreign text must not steer the terminal.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{FFFD}' } else { char }).collect()
}

/// Bytes for people: as text where they are one; absent ones differ from empty ones.
pub(crate) fn readable(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "(null)".to_owned(), |bytes| visible(&String::from_utf8_lossy(bytes)))
}

/// Puts bytes into an object for programs: as text, or under `<name>Hex` where they are not UTF-8.
pub(crate) fn put(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    let (name, value) = match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (name.to_owned(), Value::Null),
        Some((_, Ok(text))) => (name.to_owned(), text.into()),
        Some((bytes, Err(_))) => (format!("{name}Hex"), hex(bytes).into()),
    };
    object.insert(name, value);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Parses a duration of the command line.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
    let has_unit = text.trim().ends_with(|char: char| char.is_ascii_alphabetic());
    match zms_core::property::parse_duration(text).filter(|_| has_unit) {
        None => Err("expected a number with its unit, such as 500ms, 30s, 5m or 1h".to_owned()),
        Some(duration) if duration.is_zero() => Err("expected more than nothing".to_owned()),
        Some(duration) if duration > LONGEST => Err("expected a week (168h) at most".to_owned()),
        Some(duration) => Ok(duration),
    }
}

/// `1 message`, `2 messages`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_shown_without_steering_the_terminal() {
        assert_eq!(readable(None), "(null)");
        assert_eq!(readable(Some(b"")), "");
        assert_eq!(readable(Some(b"a\x1b[31m\xff")), "a\u{FFFD}[31m\u{FFFD}");
        let mut object = Map::new();
        put(&mut object, "key", Some(b"k"));
        put(&mut object, "payload", Some(b"\xff\x00"));
        put(&mut object, "none", None);
        assert_eq!(Value::Object(object).to_string(), r#"{"key":"k","payloadHex":"ff00","none":null}"#);
    }

    #[test]
    fn durations_have_a_unit_and_an_end() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "5", "s", "-1s", "0s", "1 week", "9999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
