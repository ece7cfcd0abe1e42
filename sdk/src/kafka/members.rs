//! What the members of a group have, as the classic consumer protocol writes it.

/// The partitions of `topic` in an assignment; `None` when it is not one.
pub(super) fn partitions_of(mut assignment: &[u8], topic: &str) -> Option<Vec<i32>> {
    if assignment.is_empty() {
        return Some(Vec::new());
    }
    let bytes = &mut assignment;
    let _version = i16::from_be_bytes(take(bytes)?);
    let topics = i32::from_be_bytes(take(bytes)?);
    let mut found = Vec::new();
    for _ in 0..topics {
        let length = usize::try_from(i16::from_be_bytes(take(bytes)?)).ok()?;
        let name = bytes.split_off(..length)?;
        let count = i32::from_be_bytes(take(bytes)?);
        for _ in 0..count {
            let partition = i32::from_be_bytes(take(bytes)?);
            if name == topic.as_bytes() {
                found.push(partition);
            }
        }
    }
    Some(found)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSIGNMENT: &[u8] =
        b"\0\0\0\0\0\x02\0\x01b\0\0\0\x01\0\0\0\x07\0\x06orders\0\0\0\x02\0\0\0\0\0\0\0\x03\xff\xff\xff\xff";

    #[test]
    fn partitions_of_the_topic_are_found_among_others() {
        assert_eq!(partitions_of(ASSIGNMENT, "orders"), Some(vec![0, 3]));
        assert_eq!(partitions_of(ASSIGNMENT, "b"), Some(vec![7]));
        assert_eq!(partitions_of(ASSIGNMENT, "refunds"), Some(Vec::new()));
        assert_eq!(partitions_of(b"", "orders"), Some(Vec::new()));
    }

    #[test]
    fn whatever_is_cut_off_or_claims_too_much_is_no_assignment() {
        for end in 1..ASSIGNMENT.len() - 4 {
            assert_eq!(partitions_of(&ASSIGNMENT[..end], "orders"), None, "{end}");
        }
        assert_eq!(partitions_of(b"\0\0\x7f\xff\xff\xff", "orders"), None);
        assert_eq!(partitions_of(b"\0\0\0\0\0\x01\xff\xff", "orders"), None);
    }
}
