//! References in property values: `${env:NAME}` and `${file:/path}`. Secrets live where the process runs, never in the
//! registry.

use std::{fs::File, io::Read};

/// Longest file that a reference may point to: enough for any certificate chain.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// A reference that could not be read, as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) String);

/// Whether a value contains a reference, so that what it resolves to must not be shown.
pub(super) fn is_reference(value: &str) -> bool {
    value.contains("${env:") || value.contains("${file:")
}

/// Replaces every reference in `value`. Other text, also `${…}` of another kind, stays as it is.
pub(super) fn resolve(value: &str) -> Result<String, Unreadable> {
    let mut resolved = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(start) = next_reference(rest) {
        resolved.push_str(&rest[..start]);
        let end = rest[start..]
            .find('}')
            .map(|length| start + length)
            .ok_or_else(|| Unreadable(rest[start..].to_owned()))?;
        resolved.push_str(&read(&rest[start..=end])?);
        rest = &rest[end + 1..];
    }
    resolved.push_str(rest);
    Ok(resolved)
}

fn next_reference(text: &str) -> Option<usize> {
    [text.find("${env:"), text.find("${file:")].into_iter().flatten().min()
}

fn read(reference: &str) -> Result<String, Unreadable> {
    let inner = &reference[2..reference.len() - 1];
    let found = match inner.split_once(':') {
        Some(("env", name)) if !name.is_empty() => std::env::var(name).ok(),
        Some(("file", path)) => read_file(path),
        _ => None,
    };
    found.ok_or_else(|| Unreadable(reference.to_owned()))
}

/// The text of a file without the line end that editors and `echo` put there.
fn read_file(path: &str) -> Option<String> {
    let mut text = String::new();
    let read = File::open(path).ok()?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).ok()?;
    if read as u64 > MAX_FILE_BYTES {
        return None;
    }
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn text_without_references_stays() {
        for text in ["", "plain", "${other:x}", "a $ {env:b}", "${"] {
            assert_eq!(resolve(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn an_environment_variable_is_put_in_anywhere() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(resolve("<${env:PATH}|${env:PATH}>"), Ok(format!("<{path}|{path}>")));
    }

    #[test]
    fn a_file_is_read_without_its_line_end() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"s3cret\n").unwrap();
        let reference = format!("${{file:{}}}", file.path().display());
        assert_eq!(resolve(&reference).as_deref(), Ok("s3cret"));
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_reference_alone() {
        for reference in ["${env:ZMS_SURELY_NOT_SET}", "${file:/surely/not/there}", "${env:}"] {
            let value = format!("visible {reference} visible");
            assert_eq!(resolve(&value), Err(Unreadable(reference.to_owned())));
        }
        assert_eq!(resolve("${env:OPEN"), Err(Unreadable("${env:OPEN".to_owned())));
    }

    #[test]
    fn a_huge_file_is_no_secret() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; usize::try_from(MAX_FILE_BYTES).unwrap() + 1]).unwrap();
        assert!(resolve(&format!("${{file:{}}}", file.path().display())).is_err());
    }
}
