//! What messages carry: 100 bytes, each message's own.

/// Bytes of one message.
pub(super) const SIZE: usize = 100;

/// Writes a message's number over the head of its payload, as a service would write its content.
pub(super) fn number(payload: &mut [u8; SIZE], number: u64) {
    payload[..8].copy_from_slice(&number.to_be_bytes());
}

/// A payload to be numbered.
pub(super) fn blank() -> [u8; SIZE] {
    [b'x'; SIZE]
}
