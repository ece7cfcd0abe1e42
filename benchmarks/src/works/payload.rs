//! What messages carry: 100 bytes, each message's own.

use std::time::Duration;

/// Bytes of one message.
pub(super) const SIZE: usize = 100;

/// Writes a message's number over the head of its payload, as a service would write its content.
pub(super) fn number(payload: &mut [u8; SIZE], number: u64) {
    payload[..8].copy_from_slice(&number.to_be_bytes());
}

/// What [`number`] wrote.
pub(super) fn number_of(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().copied().map(u64::from_be_bytes)
}

/// A payload to be numbered.
pub(super) fn blank() -> [u8; SIZE] {
    [b'x'; SIZE]
}

/// Which of `keys` the message of this number has. Keys follow one another without a pattern.
pub(super) fn key_of(number: u64, keys: u64) -> u64 {
    scatter(!number) % keys
}

/// How long the handler of this message waits, in those works in which it does: 0 to 5 ms in steps of a microsecond,
/// without a pattern. `Account.java` says the same.
pub(super) fn wait_of(number: u64) -> Duration {
    Duration::from_micros(scatter(number) % 5001)
}

/// Numbers without a pattern out of consecutive ones: the finaliser of `SplitMix64`.
pub(super) fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_was_written() {
        let mut payload = blank();
        number(&mut payload, 0x0102_0304_0506_0708);
        assert_eq!(number_of(&payload), Some(0x0102_0304_0506_0708));
        assert_eq!(number_of(b"short"), None);
    }

    #[test]
    fn waits_are_spread_evenly_from_nothing_to_five_milliseconds() {
        let waits: Vec<Duration> = (0..10_000).map(wait_of).collect();
        let mean = waits.iter().sum::<Duration>() / 10_000;
        assert!((2450..2550).contains(&mean.as_micros()), "{mean:?}");
        assert!(waits.iter().max().unwrap() <= &Duration::from_millis(5));
        // The same in Java, by the program that waits there.
        assert_eq!(wait_of(0), Duration::from_micros(0xe220_a839_7b1d_cdaf % 5001));
    }

    #[test]
    fn every_key_occurs_about_as_often_as_the_others() {
        let mut counts = vec![0; 100];
        (0..10_000).for_each(|number| counts[usize::try_from(key_of(number, 100)).unwrap()] += 1);
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
    }
}
