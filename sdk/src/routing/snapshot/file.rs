//! The snapshot's file: its format, and its replacement in one step. Blocking.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use zms_core::route::ChangeId;

use super::{Nodes, Saved};
use crate::registry::port::Node;

/// What a file turned out to be.
#[derive(Debug)]
pub(super) enum Loaded {
    /// There is none.
    Absent,
    /// It is not a snapshot of this registry that this SDK understands: why.
    Ignored(String),
    Saved(Saved),
}

/// Reads the snapshot of `registry` at `path`.
pub(super) fn load(path: &Path, registry: &str) -> Loaded {
    match read(path) {
        Ok(Some(bytes)) => decode(&bytes, registry).map_or_else(Loaded::Ignored, Loaded::Saved),
        Ok(None) => Loaded::Absent,
        Err(error) => Loaded::Ignored(error.to_string()),
    }
}

/// Writes `nodes` over what the file holds of the same registry, so that processes which share it keep one another's
/// entries. A file that no SDK wrote is never overwritten.
pub(super) fn save(path: &Path, registry: &str, now_ms: u64, nodes: &Nodes) -> io::Result<()> {
    let existing = read(path)?.unwrap_or_default();
    if !is_ours(&existing) {
        return Err(io::Error::other("the file there is not a registry snapshot; choose another path"));
    }
    let mut merged = decode(&existing, registry).map(|saved| saved.nodes).unwrap_or_default();
    overlay(&mut merged, nodes);
    replace(path, &encode(registry, now_ms, &merged))
}

/// What this process adopted stands, unless another one saw a later change of the same node.
pub(super) fn overlay(known: &mut BTreeMap<String, Node>, adopted: &Nodes) {
    for (path, node) in adopted {
        match node {
            None => drop(known.remove(path)),
            Some(node) if known.get(path).is_some_and(|other| other.changed > node.changed) => {}
            Some(node) => drop(known.insert(path.clone(), node.clone())),
        }
    }
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

fn decode(bytes: &[u8], registry: &str) -> Result<Saved, String> {
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
    Ok(Saved { written_at_ms, nodes: nodes.collect::<Result<_, String>>()? })
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

    fn adopted(data: &str, changed: i64) -> Nodes {
        Nodes::from([("/t/x".to_owned(), Some(node(data, changed)))])
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

        save(&path, "r1", 1, &adopted("a", 1)).unwrap();
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
        save(&path, "r1", 1, &adopted("a", 1)).unwrap();
        assert!(matches!(load(&path, "r1"), Loaded::Saved(_)));

        fs::write(&path, "important").unwrap();
        assert!(save(&path, "r1", 1, &adopted("a", 1)).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"important");
    }

    #[test]
    fn an_older_change_never_replaces_a_newer_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot.json");
        save(&path, "r1", 1, &adopted("new", 9)).unwrap();
        save(&path, "r1", 2, &adopted("old", 8)).unwrap();
        let Loaded::Saved(saved) = load(&path, "r1") else { panic!("written above") };
        assert_eq!(saved.nodes["/t/x"], node("new", 9));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it_and_nothing_else_is_left_behind() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("snapshot.json");
        save(&path, "r1", 1, &adopted("a", 1)).unwrap();
        save(&path, "r1", 2, &adopted("b", 2)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
