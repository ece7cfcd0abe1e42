//! The snapshot's file: its format, and its replacement in one step. Blocking.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use zms_core::route::ChangeId;

use super::Nodes;
use crate::registry::port::Node;

/// What a snapshot holds, and since when.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// In milliseconds since the Unix epoch.
    pub(super) written_at_ms: u64,
    pub(super) nodes: BTreeMap<String, Node>,
}

/// What a file turned out to be.
#[derive(Debug)]
pub(super) enum Loaded {
    /// There is none.
    Absent,
    /// It is not a snapshot of this registry that this SDK understands: why.
    Ignored(String),
    Contents(Contents),
}

/// What one process has to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    /// All that it adopted, for a file that has to be begun anew.
    pub(super) adopted: &'a Nodes,
    /// What it adopted since it last wrote.
    pub(super) news: &'a Nodes,
}

/// Reads the snapshot of `registry` at `path`.
pub(super) fn load(path: &Path, registry: &str) -> Loaded {
    match read(path) {
        Ok(Some(bytes)) => decode(&bytes, registry).map_or_else(Loaded::Ignored, Loaded::Contents),
        Ok(None) => Loaded::Absent,
        Err(error) => Loaded::Ignored(error.to_string()),
    }
}

/// Writes the news over what the file holds of the same registry, so that processes which share it keep one another's
/// entries. A file that no SDK wrote is never overwritten.
pub(super) fn save(path: &Path, registry: &str, now_ms: u64, change: Change<'_>) -> io::Result<()> {
    let existing = read(path)?.unwrap_or_default();
    if !is_ours(&existing) {
        return Err(io::Error::other("the file there is not a registry snapshot; choose another path"));
    }
    let (mut nodes, over_it) = match decode(&existing, registry) {
        Ok(contents) => (contents.nodes, change.news),
        Err(_) => (BTreeMap::new(), change.adopted),
    };
    for (path, node) in over_it {
        match node {
            Some(node) => drop(nodes.insert(path.clone(), node.clone())),
            None => drop(nodes.remove(path)),
        }
    }
    replace(path, &encode(registry, now_ms, &nodes))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("the file is too large for a registry snapshot"));
    }
    Ok(Some(bytes))
}

/// An empty file stands for one that is yet to be written.
fn is_ours(bytes: &[u8]) -> bool {
    bytes.is_empty() || bytes.starts_with(HEAD.as_bytes())
}

fn encode(registry: &str, now_ms: u64, nodes: &BTreeMap<String, Node>) -> Vec<u8> {
    let nodes: Map<String, Value> = nodes.iter().map(encode_node).collect();
    let body =
        json!({"schema": SCHEMA, "registry": registry, "writtenAtMs": now_ms, "nodes": nodes}).to_string();
    // The body's own opening brace gives way to the head.
    format!("{HEAD},{}", &body[1..]).into_bytes()
}

/// Bytes that are not UTF-8 are kept as the codecs read them: as U+FFFD.
fn encode_node((path, node): (&String, &Node)) -> (String, Value) {
    let data = String::from_utf8_lossy(&node.data);
    (path.clone(), json!({"data": data, "version": node.version, "changed": node.changed.0}))
}

fn decode(bytes: &[u8], registry: &str) -> Result<Contents, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| format!("not a snapshot: {error}"))?;
    if value["format"] != FORMAT || value["schema"] != SCHEMA {
        return Err(format!("not a snapshot of schema {SCHEMA}"));
    }
    if value["registry"] != registry {
        return Err("it was written for another registry".to_owned());
    }
    let written_at_ms = value["writtenAtMs"].as_u64().ok_or("field writtenAtMs is missing")?;
    let nodes = value["nodes"].as_object().ok_or("field nodes is missing")?;
    let nodes = nodes.iter().map(|(path, node)| {
        let node = decode_node(node).ok_or_else(|| format!("node {path} is damaged"))?;
        Ok((path.clone(), node))
    });
    Ok(Contents { written_at_ms, nodes: nodes.collect::<Result<_, String>>()? })
}

fn decode_node(node: &Value) -> Option<Node> {
    Some(Node {
        data: node["data"].as_str()?.to_owned().into(),
        version: i32::try_from(node["version"].as_i64()?).ok()?,
        changed: ChangeId(node["changed"].as_i64()?),
    })
}

/// A crash at any point leaves the old file or the new one, whole.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let temporary = temporary_name(path);
    let written = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What is left of it would never be looked at again.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_directory(directory)
}

/// Two processes never share it.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The rename itself lies in the directory.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

const FORMAT: &str = "zms-registry-snapshot";
const HEAD: &str = r#"{"format":"zms-registry-snapshot""#;
const SCHEMA: u64 = 1;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(data: &str, changed: i64) -> Node {
        Node { data: data.to_owned().into(), version: 3, changed: ChangeId(changed) }
    }

    fn save_one(path: &Path) -> io::Result<()> {
        let nodes = Nodes::from([("/t/x".to_owned(), Some(node("a", 1)))]);
        save(path, "r1", 1, Change { adopted: &nodes, news: &nodes })
    }

    fn ignored(path: &Path, registry: &str) -> String {
        match load(path, registry) {
            Loaded::Ignored(reason) => reason,
            other => panic!("should be ignored: {other:?}"),
        }
    }

    #[test]
    fn a_file_reads_as_it_was_written() {
        let nodes = BTreeMap::from([("/t/x".to_owned(), node("a=\"1\"\r\n\\u00e9 é", i64::MAX))]);
        let bytes = encode("r1", 7, &nodes);
        assert!(is_ours(&bytes));
        let saved = decode(&bytes, "r1").unwrap();
        assert_eq!((saved.written_at_ms, saved.nodes), (7, nodes));
    }

    #[test]
    fn damaged_and_foreign_files_are_ignored_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot.json");
        assert!(matches!(load(&path, "r1"), Loaded::Absent));

        save_one(&path).unwrap();
        assert_eq!(ignored(&path, "r2"), "it was written for another registry");

        let bytes = fs::read(&path).unwrap();
        for end in [0, 1, HEAD.len(), bytes.len() - 1] {
            fs::write(&path, &bytes[..end]).unwrap();
            ignored(&path, "r1");
        }
        for text in ["{}", "[]", "null", r#"{"format":"zms-registry-snapshot","schema":2}"#] {
            fs::write(&path, text).unwrap();
            ignored(&path, "r1");
        }
        let node = r#"{"format":"zms-registry-snapshot","schema":1,"registry":"r1","writtenAtMs":1,"nodes":{"/x":{}}}"#;
        fs::write(&path, node).unwrap();
        assert_eq!(ignored(&path, "r1"), "node /x is damaged");
    }

    #[test]
    fn a_damaged_snapshot_is_replaced_and_somebody_elses_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot.json");
        fs::write(&path, format!("{HEAD},\"schema\":1,")).unwrap();
        save_one(&path).unwrap();
        assert!(matches!(load(&path, "r1"), Loaded::Contents(_)));

        fs::write(&path, "important").unwrap();
        assert!(save_one(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"important");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it_and_nothing_else_is_left_behind() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot.json");
        save_one(&path).unwrap();
        save_one(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
