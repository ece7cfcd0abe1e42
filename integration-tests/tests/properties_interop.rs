//! Java's own `java.util.Properties` and the SDK read and write the same nodes.
//!
//! One virtual machine answers all questions of a test; needs a JDK, which runs the single source file.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use zms_sdk::admin::{ClusterMeta, Format};

type Entries = BTreeMap<String, String>;

const PATH: &str = "/zms/cluster/a";
/// What the keys begin with that a cluster node passes on unchanged: a view of the whole syntax.
const PREFIX: &str = "properties.";

/// Keys and values that a careless reader or writer changes.
const NASTY: &[&str] = &[
    "plain",
    " leading",
    "trailing ",
    "\tleading tab",
    "\x0cform feed",
    "a=b",
    "=a",
    ":a",
    "a:b",
    "#a",
    "!a",
    "a#b",
    "back\\slash",
    "end\\",
    "\\",
    "\\\\",
    "\\u0041",
    "\\n",
    "new\nline",
    "car\rriage",
    "crlf\r\nend\r\n",
    "中文",
    "é",
    "😀",
    "\u{a0}no-break",
    "\u{3000}ideographic",
    "\u{feff}mark",
    "nul\0",
    "\u{85}next line",
    "\u{7f}",
    "h1:9092,h2:9092",
    "${env:KAFKA_PW}",
    "org.apache.kafka.Module required username=\"u\" password=\"p\\\\q\";",
    "{\"a\":1}",
    "a  b",
    "%20+",
];

/// Pieces of text in which everything that matters for the syntax is frequent.
const PIECES: &[&[u8]] = &[
    b"properties.",
    b"properties.k",
    b"\nproperties.a",
    b"=",
    b":",
    b" ",
    b"\\",
    b"\\\\",
    b"\n",
    b"\r",
    b"\r\n",
    b"\\\n",
    b"\t",
    b"\x0c",
    b"#",
    b"!",
    b"\\u0041",
    b"\\ud83d\\ude00",
    b"\\ud83d",
    b"\\u00",
    b"\\n",
    b"v",
    b"\xe4\xb8\xad",
    b"\xff",
    b"\xe3\x80\x80",
    b"\0",
];

#[test]
fn java_reads_what_the_sdk_writes() {
    let Some(java) = Java::find() else { return };
    let written: Vec<Entries> = NASTY
        .iter()
        .map(|key| NASTY.iter().map(|value| (format!("{value}{key}"), (*value).to_owned())).collect())
        .collect();
    let questions: Vec<String> = written.iter().map(|entries| load(&encode(entries))).collect();
    for (entries, answer) in written.iter().zip(java.ask(&questions)) {
        assert_eq!(java_entries(&answer).as_ref(), Some(entries));
    }
}

#[test]
fn the_sdk_reads_what_java_writes() {
    let Some(java) = Java::find() else { return };
    let entries: Entries = NASTY.iter().map(|value| ((*value).to_owned(), (*value).to_owned())).collect();
    let words: Vec<String> = entries
        .iter()
        .map(|(key, value)| format!("{}={}", hex(format!("{PREFIX}{key}")), hex(value)))
        .collect();
    for answer in java.ask(&[format!("store {}", words.join(" ")), format!("escape {}", words.join(" "))]) {
        assert_eq!(sdk_entries(&unhex(&answer)).as_ref(), Some(&entries));
    }
}

#[test]
fn both_read_any_text_alike() {
    let Some(java) = Java::find() else { return };
    let texts: Vec<Vec<u8>> = texts(3000).collect();
    let questions: Vec<String> = texts.iter().map(|text| load(text)).collect();
    let mut refused = 0;
    for (text, answer) in texts.iter().zip(java.ask(&questions)) {
        let read = java_entries(&answer);
        refused += usize::from(read.is_none());
        assert_eq!(sdk_entries(text), read, "{:?}", String::from_utf8_lossy(text));
    }
    assert!(refused > 0 && refused < texts.len() / 2, "{refused} refused: the texts do not try both");
}

#[test]
fn java_finds_everything_else_unchanged_after_a_rewrite_by_the_sdk() {
    let Some(java) = Java::find() else { return };
    let mut questions = Vec::new();
    for text in texts(1500) {
        let Ok(Some(mut meta)) = ClusterMeta::parse(PATH, &text) else { continue };
        meta.properties.insert("k".to_owned(), " new\\value".to_owned());
        questions.push(load(&text));
        questions.push(load(&meta.encode()));
    }
    let answers = java.ask(&questions);
    assert!(answers.len() > 1000, "only {} texts could be read", answers.len() / 2);
    for pair in answers.chunks(2) {
        let mut expected = java_entries(&pair[0]).expect("the SDK read it");
        expected.insert("k".to_owned(), " new\\value".to_owned());
        assert_eq!(java_entries(&pair[1]), Some(expected));
    }
}

/// A JDK.
struct Java;

impl Java {
    /// `None`, with the reason printed, if there is none.
    ///
    /// # Panics
    /// Instead, if `ZMS_REQUIRE_SERVICES` is `1`.
    fn find() -> Option<Self> {
        let modules = Command::new("java").arg("--list-modules").output();
        let reason = match modules {
            Ok(output) if String::from_utf8_lossy(&output.stdout).contains("jdk.compiler") => {
                return Some(Self);
            }
            Ok(_) => "`java` is too old, or a runtime without the module jdk.compiler",
            Err(_) => "`java` is not on the PATH",
        };
        let required = std::env::var("ZMS_REQUIRE_SERVICES").is_ok_and(|value| value == "1");
        assert!(!required, "ZMS_REQUIRE_SERVICES=1, but {reason}");
        eprintln!("skipped: needs a JDK, and {reason}");
        None
    }

    /// The answers of one virtual machine, line by line.
    fn ask(&self, questions: &[String]) -> Vec<String> {
        let Self = self;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/PropertiesInterop.java");
        let mut child = Command::new("java")
            .args(["-Xmx128m", "-XX:+UseSerialGC"])
            .arg(source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java starts");
        let mut stdin = child.stdin.take().expect("piped");
        let lines = questions.join("\n");
        // Apart, so that neither side waits for the other with a full pipe.
        let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let output = child.wait_with_output().expect("java ends");
        writer.join().expect("no panic").expect("java reads all questions");
        assert!(output.status.success(), "java failed: {}", output.status);
        let answers: Vec<String> =
            String::from_utf8(output.stdout).expect("ASCII").lines().map(str::to_owned).collect();
        assert_eq!(answers.len(), questions.len());
        answers
    }
}

/// Texts put together from the pieces, always the same ones.
fn texts(count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("below a usize")
    };
    (0..count).map(move |_| {
        let length = 1 + random(14);
        let mut text = b"x=y\n".to_vec();
        (0..length).for_each(|_| text.extend_from_slice(PIECES[random(PIECES.len())]));
        text
    })
}

fn encode(entries: &Entries) -> Vec<u8> {
    let mut meta = ClusterMeta::new(PATH, Format::Properties, "h:9092");
    meta.properties.clone_from(entries);
    meta.encode().to_vec()
}

/// What the SDK reads; `None` if it refuses the text.
fn sdk_entries(text: &[u8]) -> Option<Entries> {
    ClusterMeta::parse(PATH, text).ok().map(|meta| meta.expect("the text is not blank").properties)
}

/// The same of Java's answer.
fn java_entries(answer: &str) -> Option<Entries> {
    if answer == "refused" {
        return None;
    }
    let entry = |word: &str| {
        let (key, value) = word.split_once('=').expect("an entry");
        let text = |hex| String::from_utf8(unhex(hex)).expect("UTF-8");
        let key = text(key).strip_prefix(PREFIX).filter(|key| !key.is_empty())?.to_owned();
        Some((key, text(value)))
    };
    Some(answer.split_whitespace().filter_map(entry).collect())
}

fn load(data: &[u8]) -> String {
    format!("load {}", hex(data))
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digits).collect()
}
