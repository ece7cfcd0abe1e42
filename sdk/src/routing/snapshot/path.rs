//! Where the snapshot lies when nobody says otherwise.

use std::path::{Path, PathBuf};

/// `$ZMS_STATE_DIR`, else `$XDG_STATE_HOME/zms`, else `$HOME/.local/state/zms`; in it one file per registry. `None`
/// when the environment names no such directory.
pub(crate) fn default_path(connect: &str) -> Option<PathBuf> {
    let directory =
        directory(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))?;
    Some(path_in(&directory, connect))
}

/// The file of one registry in a directory.
pub(crate) fn path_in(directory: &Path, connect: &str) -> PathBuf {
    directory.join(format!("registry-{}.json", fingerprint(connect)))
}

fn directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    variable("ZMS_STATE_DIR")
        .or_else(|| Some(variable("XDG_STATE_HOME")?.join("zms")))
        .or_else(|| Some(variable("HOME")?.join(".local").join("state").join("zms")))
}

/// FNV-1a, 64 bits, of the connect string: the same in every build, which the standard library's hashers are not.
pub(super) fn fingerprint(connect: &str) -> String {
    let hash = connect.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_never_changes_between_builds() {
        assert_eq!(fingerprint(""), "cbf29ce484222325");
        assert_eq!(fingerprint("a"), "af63dc4c8601ec8c");
        assert_ne!(fingerprint("zk1:2181/a"), fingerprint("zk1:2181/b"));
    }

    #[test]
    fn the_most_specific_directory_wins() {
        let environment = |known: &'static [&'static str]| {
            directory(move |name| known.contains(&name).then(|| PathBuf::from(format!("/{name}"))))
        };
        let all = environment(&["ZMS_STATE_DIR", "XDG_STATE_HOME", "HOME"]);
        assert_eq!(all, Some("/ZMS_STATE_DIR".into()));
        assert_eq!(environment(&["XDG_STATE_HOME", "HOME"]), Some("/XDG_STATE_HOME/zms".into()));
        assert_eq!(environment(&["HOME"]), Some("/HOME/.local/state/zms".into()));
        assert_eq!(environment(&[]), None);
    }
}
