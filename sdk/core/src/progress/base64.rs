//! Base64 with the URL alphabet, without padding (RFC 4648, section 5).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How many bytes can be written in this many characters.
pub(super) fn bytes_in(characters: usize) -> usize {
    characters / 4 * 3 + (characters % 4).saturating_sub(1)
}

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for index in 0..=group.len() {
            let six = word >> (18 - 6 * index) & 63;
            text.push(char::from(ALPHABET[six as usize]));
        }
    }
    text
}

/// `None` when a character is not of the alphabet, or the length is that of no bytes.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(bytes_in(text.len()));
    for group in text.as_bytes().chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut word = 0;
        for character in group {
            word = word << 6 | value(*character)?;
        }
        let whole = (word << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend(&whole[1..group.len()]);
    }
    Some(bytes)
}

fn value(character: u8) -> Option<u32> {
    let (first, base) = match character {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'-' => (b'-', 62),
        b'_' => (b'_', 63),
        _ => return None,
    };
    Some(base + u32::from(character - first))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        let examples = ["", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"];
        for (length, text) in examples.into_iter().enumerate() {
            assert_eq!(encode(&b"foobar"[..length]), text);
            assert_eq!(decode(text).unwrap(), b"foobar"[..length]);
        }
        assert_eq!(encode(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn other_characters_and_lengths_are_refused() {
        for text in ["Z", "Zm9vY", "Zm+v", "Zg==", "Zm 9", "Zmé"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let text = encode(&bytes);
            prop_assert_eq!(decode(&text), Some(bytes.clone()));
            prop_assert_eq!(bytes_in(text.len()), bytes.len());
        }
    }
}
