//! The content of a `done:` word.
//!
//! One byte says how the offsets are written, four are a check over the position and the rest, then come the offsets,
//! relative to the position: either a bit for each, or the lengths of runs, whichever says more in the room there is.

use std::ops::Range;

use super::{base64, done_set::DoneSet};

/// A bit for each offset from the position on, lowest bit first.
const BITS: u8 = 0;
/// Pairs of numbers in LEB128: how many offsets to pass over, how many then are done.
const RUNS: u8 = 1;
const HEAD: usize = 5;
/// No offset this far above the position is ever written or believed.
const FARTHEST: i64 = 1 << 24;

/// `None` when there is nothing to write, or no room for it.
pub(super) fn encode(position: i64, done: &DoneSet, characters: usize) -> Option<String> {
    let room = base64::bytes_in(characters).checked_sub(HEAD)?;
    let window = position..position.saturating_add(FARTHEST);
    let bits = bits(&window, done, room);
    let runs = runs(&window, done, room);
    let (kind, written) = if (runs.offsets, bits.bytes.len()) >= (bits.offsets, runs.bytes.len()) {
        (RUNS, runs)
    } else {
        (BITS, bits)
    };
    if written.offsets == 0 {
        return None;
    }
    Some(sealed(position, kind, &written.bytes))
}

pub(super) fn sealed(position: i64, kind: u8, content: &[u8]) -> String {
    let mut bytes = vec![kind];
    bytes.extend(check(position, kind, content));
    bytes.extend(content);
    base64::encode(&bytes)
}

/// `None` when it was not written by [`encode`] for this position.
pub(super) fn decode(position: i64, text: &str) -> Option<DoneSet> {
    let bytes = base64::decode(text)?;
    let (head, content) = bytes.split_at_checked(HEAD)?;
    if head[1..] != check(position, head[0], content) {
        return None;
    }
    match head[0] {
        BITS => read_bits(position, content),
        RUNS => read_runs(position, content),
        _ => None,
    }
}

/// As much as fitted, and how many offsets that says.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    offsets: i64,
}

fn bits(window: &Range<i64>, done: &DoneSet, room: usize) -> Written {
    let most = i64::try_from(room.saturating_mul(8)).unwrap_or(i64::MAX);
    let window = window.start..window.end.min(window.start.saturating_add(most));
    let mut written = Written::default();
    for offset in done.ranges().iter().flat_map(|range| clipped(range, &window)) {
        let Ok(bit) = usize::try_from(offset - window.start) else { break };
        written.bytes.resize(bit / 8 + 1, 0);
        written.bytes[bit / 8] |= 1 << (bit % 8);
        written.offsets += 1;
    }
    written
}

fn read_bits(position: i64, content: &[u8]) -> Option<DoneSet> {
    let mut done = DoneSet::default();
    for (index, byte) in content.iter().enumerate() {
        for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
            let ahead = i64::try_from(index * 8 + bit).ok().filter(|ahead| *ahead < FARTHEST)?;
            let offset = position.checked_add(ahead)?;
            done.push(offset..offset.checked_add(1)?);
        }
    }
    Some(done)
}

fn runs(window: &Range<i64>, done: &DoneSet, room: usize) -> Written {
    let mut written = Written::default();
    let mut at = window.start;
    for range in done.ranges().iter().map(|range| clipped(range, window)).filter(|range| !range.is_empty()) {
        let before = written.bytes.len();
        push_number(&mut written.bytes, range.start - at);
        push_number(&mut written.bytes, range.end - range.start);
        if written.bytes.len() > room {
            written.bytes.truncate(before);
            break;
        }
        written.offsets += range.end - range.start;
        at = range.end;
    }
    written
}

fn read_runs(position: i64, mut content: &[u8]) -> Option<DoneSet> {
    let mut done = DoneSet::default();
    let mut at = position;
    while !content.is_empty() {
        let start = at.checked_add(take_number(&mut content)?)?;
        at = start.checked_add(take_number(&mut content)?)?;
        if at.checked_sub(position)? > FARTHEST {
            return None;
        }
        done.push(start..at);
    }
    Some(done)
}

fn clipped(range: &Range<i64>, window: &Range<i64>) -> Range<i64> {
    range.start.max(window.start)..range.end.min(window.end)
}

/// `number` is not negative.
fn push_number(bytes: &mut Vec<u8>, mut number: i64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// `None` when the number does not end, or is larger than any that is written.
fn take_number(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0;
    for shift in [0, 7, 14, 21] {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= i64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// FNV-1a. It tells a text that was cut, mangled, or copied to another position; it is no protection from malice.
fn check(position: i64, kind: u8, content: &[u8]) -> [u8; 4] {
    let all = position.to_be_bytes().into_iter().chain([kind]).chain(content.iter().copied());
    all.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(word: &str) -> u8 {
        base64::decode(word).unwrap()[0]
    }

    #[test]
    fn long_runs_are_written_as_runs_and_a_mixture_as_bits() {
        let mut long = DoneSet::default();
        long.push(101..20_000);
        let word = encode(100, &long, 1000).unwrap();
        assert_eq!((kind_of(&word), word.len()), (RUNS, 12));
        assert_eq!(decode(100, &word), Some(long));

        let mixed: DoneSet = (0..2000).map(|n| 101 + 2 * n).collect();
        let word = encode(100, &mixed, 1000).unwrap();
        assert_eq!(kind_of(&word), BITS);
        assert_eq!(decode(100, &word), Some(mixed));
    }

    #[test]
    fn without_room_the_nearest_offsets_are_written() {
        let mixed: DoneSet = (0..2000).map(|n| 101 + 2 * n).collect();
        let word = encode(100, &mixed, 40).unwrap();
        assert!(word.len() <= 40, "{word}");
        let written = decode(100, &word).unwrap();
        let end = written.end().unwrap();
        assert!(end > 250, "{end}");
        assert!((100..end).all(|offset| written.contains(offset) == mixed.contains(offset)));
        assert_eq!(encode(100, &mixed, 6), None);
    }

    #[test]
    fn a_word_counts_for_its_position_alone() {
        let word = encode(100, &[102, 105].into_iter().collect(), 100).unwrap();
        assert!(decode(100, &word).is_some());
        assert_eq!(decode(101, &word), None);
        assert_eq!(decode(100, &word[..word.len() - 2]), None);
    }

    #[test]
    fn offsets_too_far_away_are_neither_written_nor_believed() {
        let far: DoneSet = [FARTHEST + 100, FARTHEST + 101].into_iter().collect();
        assert_eq!(encode(100, &far, 1000), None);
        let believed = |content: &[u8]| decode(100, &sealed(100, RUNS, content));
        assert!(believed(&[1, 0xff, 0xff, 0xff, 0x07]).is_some());
        assert_eq!(believed(&[1, 0xff, 0xff, 0xff, 0x7f]), None);
    }
}
