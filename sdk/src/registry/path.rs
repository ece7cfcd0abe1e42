//! What a registry path must look like; the same for every adapter.

use super::port::RegistryError;

/// Limit on a node's data, in bytes: `ZooKeeper` drops the connection on larger requests (1 MiB with the rest of the
/// request), and nothing that belongs into the registry comes near it.
pub(super) const MAX_DATA: usize = 1024 * 1024 - 4096;

/// Refuses what `ZooKeeper` would refuse, before it costs a round trip.
pub(super) fn check_path(path: &str) -> Result<(), RegistryError> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(invalid(path, "does not start with '/'"));
    };
    if path.chars().any(is_refused) {
        return Err(invalid(path, "has control or private-use characters"));
    }
    let is_bad = |segment: &str| matches!(segment, "" | "." | "..");
    if !rest.is_empty() && rest.split('/').any(is_bad) {
        return Err(invalid(path, "has an empty, '.' or '..' segment"));
    }
    Ok(())
}

/// Refuses data above [`MAX_DATA`].
pub(super) fn check_data(path: &str, data: &[u8]) -> Result<(), RegistryError> {
    if data.len() <= MAX_DATA {
        return Ok(());
    }
    let reason = format!("{path}: {} bytes of data, more than the {MAX_DATA} allowed", data.len());
    Err(RegistryError::Invalid { reason })
}

/// Refuses versions that no node has; to `ZooKeeper` -1 would mean "whatever stands there".
pub(super) fn check_version(path: &str, version: i32) -> Result<(), RegistryError> {
    if version >= 0 {
        return Ok(());
    }
    Err(RegistryError::Invalid { reason: format!("{path}: a version is never negative, but {version} is") })
}

/// The path of the parent; `None` for the root and its children, whose parent always exists.
pub(super) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

fn is_refused(c: char) -> bool {
    c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
}

fn invalid(path: &str, what: &str) -> RegistryError {
    RegistryError::Invalid { reason: format!("path {path:?} {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_have_no_odd_segments() {
        for good in ["/", "/zms", "/zms/topic/a.b", "/zms/topic/x||y"] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        for bad in
            ["", "zms", "/zms/", "//zms", "/zms/./a", "/zms/..", "/zms/a\0b", "/zms/a\nb", "/zms/\u{e000}"]
        {
            assert!(matches!(check_path(bad), Err(RegistryError::Invalid { .. })), "{bad:?}");
        }
    }

    #[test]
    fn parents_end_below_the_root() {
        assert_eq!(parent("/zms/topic/orders"), Some("/zms/topic"));
        assert_eq!(parent("/zms"), None);
        assert_eq!(parent("/"), None);
    }
}
