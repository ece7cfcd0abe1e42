//! Java's `.properties` text, read as `java.util.Properties.load` reads it, kept line by line.
//!
//! The `java-properties` crate was tried and differs from Java where registry data may: it drops a last line that
//! ends in a backslash, refuses surrogate pairs (`\ud83d\ude00`) and comments such as `# C:\users`, and trims Unicode
//! white space that Java keeps. It also does not keep the lines, which a faithful rewrite needs.

/// A text as its logical lines.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Properties {
    lines: Vec<Line>,
}

/// One logical line (with its continuations), or a comment or blank line.
#[derive(Clone, PartialEq, Eq)]
struct Line {
    /// The bytes as found, with the line end.
    raw: Vec<u8>,
    /// Key and value; `None` for comments and blank lines.
    pair: Option<(String, String)>,
}

/// A `\u` that is not followed by four hexadecimal digits. Java refuses the whole text then, and so do we.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MalformedEscape {
    /// Number of the natural line on which the logical line begins, from 1.
    pub(super) line: usize,
}

impl Properties {
    /// Reads a text. Bytes that are not UTF-8 read as U+FFFD, as in Java, and are kept as they are by a rewrite.
    pub(super) fn parse(text: &[u8]) -> Result<Self, MalformedEscape> {
        let mut lines = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (length, logical) = read_line(rest);
            let (raw, after) = rest.split_at(length);
            let pair = logical.map(|line| split(&line)).transpose().map_err(|Malformed| MalformedEscape {
                line: text[..text.len() - rest.len()].split(|&byte| byte == b'\n').count(),
            })?;
            lines.push(Line { raw: raw.to_vec(), pair });
            rest = after;
        }
        Ok(Self { lines })
    }

    /// The value of a key; of several, the last, as in Java.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.pairs().filter(|(found, _)| *found == key).last().map(|(_, value)| value)
    }

    /// All keys with their values, in order of their lines.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines
            .iter()
            .filter_map(|line| line.pair.as_ref())
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Sets a key: in its line where there is one, else in a new last line.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let holds_key = |line: &&mut Line| line.pair.as_ref().is_some_and(|(found, _)| found == key);
        let end_of_line = self.end_of_line();
        if let Some(line) = self.lines.iter_mut().rev().find(holds_key) {
            let end = line.end().to_vec();
            *line = Line::new(key, value, &end);
            return;
        }
        if let Some(last) = self.lines.last_mut() {
            last.finish(end_of_line);
        }
        self.lines.push(Line::new(key, value, b""));
    }

    /// Removes a key with all its lines.
    pub(super) fn remove(&mut self, key: &str) {
        self.lines.retain(|line| line.pair.as_ref().is_none_or(|(found, _)| found != key));
    }

    /// The text.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.raw.iter().copied()).collect()
    }

    /// What ends the lines of this text.
    fn end_of_line(&self) -> &'static [u8] {
        match self.lines.first() {
            Some(line) if line.end() == b"\r\n" => b"\r\n",
            _ => b"\n",
        }
    }
}

impl Line {
    fn new(key: &str, value: &str, end: &[u8]) -> Self {
        let mut raw = format!("{}={}", escape_key(key), escape_value(value)).into_bytes();
        raw.extend_from_slice(end);
        Self { raw, pair: Some((key.to_owned(), value.to_owned())) }
    }

    /// The bytes that end the line; none at the end of a text.
    fn end(&self) -> &[u8] {
        let content =
            self.raw.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        &self.raw[content..]
    }

    /// Makes sure that a line added after this one is a line of its own.
    fn finish(&mut self, end_of_line: &[u8]) {
        let content = &self.raw[..self.raw.len() - self.end().len()];
        let backslashes = content.iter().rev().take_while(|&&byte| byte == b'\\').count();
        if let (1, Some((key, value))) = (backslashes % 2, &self.pair) {
            *self = Self::new(&key.clone(), &value.clone(), end_of_line);
        } else if self.end().is_empty() {
            self.raw.extend_from_slice(end_of_line);
        }
    }
}

/// Reads one line off `text`: how many bytes it takes, and the logical line unless it is a comment or blank.
fn read_line(text: &[u8]) -> (usize, Option<Vec<u8>>) {
    let mut line: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut leading = true;
    let mut continued = false;
    let mut backslash = false;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if leading && is_blank(byte) {
            continue;
        }
        if leading && !continued && is_end(byte) {
            return (end_after(text, at), None);
        }
        leading = false;
        continued = false;
        if line.is_empty() && matches!(byte, b'#' | b'!') {
            let length = text[at..].iter().position(|&byte| is_end(byte)).map(|found| at + found + 1);
            return (length.map_or(text.len(), |length| end_after(text, length)), None);
        }
        if !is_end(byte) {
            line.push(byte);
            backslash = byte == b'\\' && !backslash;
        } else if line.is_empty() {
            return (end_after(text, at), None);
        } else if !backslash {
            return (end_after(text, at), Some(line));
        } else if at == text.len() {
            break;
        } else {
            line.pop();
            at = end_after(text, at);
            (leading, continued, backslash) = (true, true, false);
        }
    }
    let content = !line.is_empty();
    if backslash {
        line.pop();
    }
    (text.len(), content.then_some(line))
}

/// Where the line end goes on to that has its first byte before `at`: `\r\n` is one.
fn end_after(text: &[u8], at: usize) -> usize {
    if text[at - 1] == b'\r' && text.get(at) == Some(&b'\n') { at + 1 } else { at }
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// White space between tokens; Java knows no other here.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

struct Malformed;

/// Splits a logical line at the first separator that is not escaped: `=`, `:` or white space.
fn split(line: &[u8]) -> Result<(String, String), Malformed> {
    let mut backslash = false;
    let separator = line.iter().position(|&byte| {
        let found = !backslash && (matches!(byte, b'=' | b':') || is_blank(byte));
        backslash = byte == b'\\' && !backslash;
        found
    });
    let key = separator.unwrap_or(line.len());
    let mut separated = false;
    let value = line[key..].iter().position(|&byte| {
        let first_separator = matches!(byte, b'=' | b':') && !separated;
        separated |= first_separator;
        !is_blank(byte) && !first_separator
    });
    let value = value.map_or(&[][..], |start| &line[key + start..]);
    Ok((unescape(&line[..key])?, unescape(value)?))
}

fn unescape(bytes: &[u8]) -> Result<String, Malformed> {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains('\\') {
        return Ok(text.into_owned());
    }
    // UTF-16, because Java's escapes are: a character beyond U+FFFF is two of them.
    let mut units = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        let char = if char == '\\' {
            chars.next().unwrap_or_default()
        } else {
            push(&mut units, char);
            continue;
        };
        match char {
            'u' => units.push(code_unit(&mut chars)?),
            't' => push(&mut units, '\t'),
            'n' => push(&mut units, '\n'),
            'r' => push(&mut units, '\r'),
            'f' => push(&mut units, '\x0c'),
            other => push(&mut units, other),
        }
    }
    Ok(String::from_utf16_lossy(&units))
}

fn push(units: &mut Vec<u16>, char: char) {
    units.extend_from_slice(char.encode_utf16(&mut [0; 2]));
}

fn code_unit(chars: &mut std::str::Chars<'_>) -> Result<u16, Malformed> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = chars.next().and_then(|char| char.to_digit(16)).ok_or(Malformed)?;
        unit = unit << 4 | u16::try_from(digit).map_err(|_| Malformed)?;
    }
    Ok(unit)
}

fn escape_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for (at, char) in key.char_indices() {
        if matches!(char, ' ' | '=' | ':') || at == 0 && matches!(char, '#' | '!') {
            escaped.push('\\');
        }
        escape_char(char, &mut escaped);
    }
    escaped
}

/// Only what Java would otherwise read differently: ZMS writes values as they are.
fn escape_value(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for (at, char) in value.char_indices() {
        if at == 0 && char == ' ' {
            escaped.push('\\');
        }
        escape_char(char, &mut escaped);
    }
    escaped
}

fn escape_char(char: char, escaped: &mut String) {
    match char {
        '\\' => escaped.push_str("\\\\"),
        '\n' => escaped.push_str("\\n"),
        '\r' => escaped.push_str("\\r"),
        '\t' => escaped.push_str("\\t"),
        '\x0c' => escaped.push_str("\\f"),
        other => escaped.push(other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let parsed = Properties::parse(text.as_bytes()).unwrap();
        parsed.pairs().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn pair(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn separators_are_equals_colon_and_white_space() {
        for text in ["k=v", "k:v", "k v", "  k = v", "k\t:\x0cv", "k\\\n  =v", "\r\n\nk=v\r\n", "k   v"] {
            assert_eq!(pairs(text), pair("k", "v"), "{text:?}");
        }
        assert_eq!(pairs("k==v"), pair("k", "=v"));
        assert_eq!(pairs("k = :v "), pair("k", ":v "), "white space at the end belongs to the value");
        assert_eq!(pairs("k"), pair("k", ""));
        assert_eq!(pairs("=v"), pair("", "v"));
    }

    #[test]
    fn comments_and_blank_lines_say_nothing() {
        assert_eq!(pairs("# C:\\users\n  ! x=y\n\n \t\nk=v"), pair("k", "v"));
        assert_eq!(pairs("# not continued \\\nk=v"), pair("k", "v"));
        assert_eq!(pairs("k=v#w"), pair("k", "v#w"));
    }

    #[test]
    fn lines_continue_after_an_odd_number_of_backslashes() {
        assert_eq!(pairs("k=a,\\\n   b,\\\r\n\tc"), pair("k", "a,b,c"));
        assert_eq!(pairs("k=a\\\\\nl=b").len(), 2);
        assert_eq!(pairs("k=a\\"), pair("k", "a"), "a last backslash is no part of the value");
        assert_eq!(pairs("k=a\\\n"), pair("k", "a"));
        assert_eq!(pairs("k=a\\\n\u{3000}b"), pair("k", "a\u{3000}b"), "only ASCII blanks are skipped");
    }

    #[test]
    fn escapes_are_javas() {
        assert_eq!(pairs(r"a\ b\=c\:d=x\ty\n\q\\"), pair("a b=c:d", "x\ty\nq\\"));
        assert_eq!(pairs(r"k=\u4e2d\uD83D\uDE00"), pair("k", "中😀"));
        assert_eq!(pairs(r"k=\ud83d"), pair("k", "\u{FFFD}"), "half a character");
        assert_eq!(Properties::parse(b"a=b\nk=\\u12").err(), Some(MalformedEscape { line: 2 }));
        assert_eq!(Properties::parse(b"k=\\u+123").err(), Some(MalformedEscape { line: 1 }));
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_is_the_one_rewritten() {
        let mut parsed = Properties::parse(b"k=1\nk=2\n").unwrap();
        assert_eq!(parsed.value("k"), Some("2"));
        parsed.set("k", "3");
        assert_eq!(parsed.encode(), b"k=1\nk=3\n");
        parsed.remove("k");
        assert_eq!(parsed.encode(), b"");
    }

    #[test]
    fn a_rewrite_keeps_every_other_byte() {
        let text = b"# head\r\n\r\nserverIps = \xb7\xfe\xce\xf1\\\r\n  x\r\nclusterName: a\r\n!tail";
        let mut parsed = Properties::parse(text).unwrap();
        assert_eq!(parsed.encode(), text);
        parsed.set("clusterName", "b");
        parsed.set("new", "host1:9092,host2:9092");
        let expected = b"# head\r\n\r\nserverIps = \xb7\xfe\xce\xf1\\\r\n  x\r\nclusterName=b\r\n!tail\r\nnew=host1:9092,host2:9092";
        assert_eq!(parsed.encode(), expected);
    }

    /// Texts in which what matters for the syntax is frequent.
    fn nasty_text() -> impl Strategy<Value = Vec<u8>> {
        let pieces: [&[u8]; 19] = [
            b"k",
            b"k=",
            b"\\",
            b"\n",
            b"\r",
            b"\r\n",
            b" ",
            b"#",
            b"!",
            b":",
            b"=",
            b"\t",
            b"\x0c",
            b"\\u0041",
            b"\\ud83d",
            b"v",
            "中".as_bytes(),
            b"\xff",
            b"\0",
        ];
        let piece = prop::sample::select(pieces.to_vec());
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(key in any::<String>(), value in any::<String>()) {
            let mut written = Properties::default();
            written.set(&key, &value);
            written.set("after", "x");
            let read = Properties::parse(&written.encode()).unwrap();
            let expected = if key == "after" { "x" } else { &value };
            prop_assert_eq!(read.value(&key), Some(expected));
            prop_assert_eq!(read.value("after"), Some("x"));
        }

        #[test]
        fn setting_one_key_leaves_the_others_in_any_text(text in nasty_text(), key in "[kv]", value in "[ =:#\\\\\na\t]{0,6}") {
            let Ok(before) = Properties::parse(&text) else { return Ok(()) };
            prop_assert_eq!(&before.encode(), &text);
            let mut changed = before.clone();
            changed.set(&key, &value);
            let after = Properties::parse(&changed.encode()).unwrap();
            prop_assert_eq!(after.value(&key), Some(&*value));
            let others = |of: &Properties| of.pairs().filter(|(k, _)| *k != key)
                .map(|(k, v)| (k.to_owned(), v.to_owned())).collect::<Vec<_>>();
            prop_assert_eq!(others(&before), others(&after));
            changed.remove(&key);
            let removed = Properties::parse(&changed.encode()).unwrap();
            prop_assert_eq!(removed.value(&key), None);
            prop_assert_eq!(others(&before), others(&removed));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Properties::parse(&bytes);
        }
    }
}
