//! The uwsgi packet: four bytes of header, then variables.
//!
//! ```text
//! modifier1: u8 | datasize: u16 little-endian | modifier2: u8 | datasize bytes of variables
//! variable = key length: u16 LE | key | value length: u16 LE | value
//! ```
//!
//! The request body follows raw. After four bytes the size is known, so nothing is scanned twice.
//! Source: the uWSGI project's description of its protocol and nginx's `ngx_http_uwsgi_module`.

use bytes::{BufMut, BytesMut};
use nom::{IResult, Parser, bytes::complete::take, combinator::flat_map, number::complete::le_u16};
use thiserror::Error;

/// Length of the packet's header in bytes.
pub const HEADER_LEN: usize = 4;

/// The most variables a packet can carry, in bytes: the size field has 16 bits.
pub const MAX_BLOCK_LEN: usize = 0xffff;

/// A request with variables: the one kind of packet that nginx sends.
const MODIFIER_REQUEST: u8 = 0x00;

/// uWSGI's "are you there".
const MODIFIER_PING: u8 = 0x64;

/// The answer to a ping: the same modifier, no variables, modifier2 says all is well.
pub const PONG: [u8; HEADER_LEN] = [MODIFIER_PING, 0, 0, 1];

/// What the first bytes of a connection amount to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Head<'a> {
    /// At least this many more bytes are needed.
    Need(usize),
    /// A whole packet.
    Request {
        /// The variables, to be read with [`variables`].
        block: &'a [u8],
        /// What followed the packet: the start of the body.
        rest: &'a [u8],
    },
    /// A ping, to be answered with [`PONG`].
    Ping,
}

/// Why bytes are not a uwsgi packet.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum PacketError {
    /// The block ends in the middle of a variable.
    #[error("the variable block ends in the middle of a variable")]
    CutVariable,
    /// A variable without a name.
    #[error("a variable has no name")]
    EmptyKey,
    /// The first byte asks for something else than a request.
    #[error("modifier1 {0} is not served here (is this HTTP? nginx must use uwsgi_pass)")]
    Modifier(u8),
}

/// Reads the start of a connection.
///
/// `input` is all that has been received so far. A foreign modifier is refused from the first byte on,
/// without waiting for the size that its other bytes would spell. modifier2 means nothing here and is
/// ignored.
pub fn decode(input: &[u8]) -> Result<Head<'_>, PacketError> {
    match input.first() {
        None => return Ok(Head::Need(HEADER_LEN)),
        Some(&(MODIFIER_REQUEST | MODIFIER_PING)) => {}
        Some(&other) => return Err(PacketError::Modifier(other)),
    }
    let Some((header, after)) = input.split_at_checked(HEADER_LEN) else {
        return Ok(Head::Need(HEADER_LEN - input.len()));
    };
    let size = usize::from(u16::from_le_bytes([header[1], header[2]]));
    let Some((block, rest)) = after.split_at_checked(size) else {
        return Ok(Head::Need(size - after.len()));
    };
    if header[0] == MODIFIER_PING {
        return Ok(Head::Ping);
    }
    Ok(Head::Request { block, rest })
}

/// The variables of a block, in order.
///
/// Each is yielded as it is found: nothing is allocated. After an error the iterator ends.
pub fn variables(block: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), PacketError>> {
    let mut left = block;
    std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let next = match (field, field).parse(left) {
            Ok((_, ([], _))) => Err(PacketError::EmptyKey),
            Ok((rest, pair)) => {
                left = rest;
                return Some(Ok(pair));
            }
            Err(_) => Err(PacketError::CutVariable),
        };
        left = &[];
        Some(next)
    })
}

/// Writes a whole packet.
///
/// # Errors
/// [`TooLarge`] where a name, a value or all of them do not fit the protocol's 16-bit sizes.
pub fn encode<'a>(variables: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<BytesMut, TooLarge> {
    let mut packet = BytesMut::zeroed(HEADER_LEN);
    for field in variables.into_iter().flat_map(|(key, value)| [key, value]) {
        packet.put_u16_le(u16::try_from(field.len()).map_err(|_| TooLarge)?);
        packet.put_slice(field);
    }
    let size = u16::try_from(packet.len() - HEADER_LEN).map_err(|_| TooLarge)?;
    packet[1..3].copy_from_slice(&size.to_le_bytes());
    Ok(packet)
}

/// The variables do not fit into one packet.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("the request is larger than the 65,535 bytes a uwsgi packet can carry")]
pub struct TooLarge;

/// A 16-bit length and as many bytes.
fn field(input: &[u8]) -> IResult<&[u8], &[u8]> {
    flat_map(le_u16, take).parse(input)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
        let key = proptest::collection::vec(any::<u8>(), 1..40);
        let value = proptest::collection::vec(any::<u8>(), 0..300);
        proptest::collection::vec((key, value), 0..40)
    }

    fn encoded(pairs: &[(Vec<u8>, Vec<u8>)]) -> BytesMut {
        encode(pairs.iter().map(|(k, v)| (&k[..], &v[..]))).expect("it fits")
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(pairs in pairs(), body in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut input = encoded(&pairs);
            input.put_slice(&body);
            let Ok(Head::Request { block, rest }) = decode(&input) else { panic!("not a request") };
            prop_assert_eq!(rest, &body[..]);
            let read: Result<Vec<_>, _> = variables(block).map(|v| v.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect();
            prop_assert_eq!(read, Ok(pairs));
        }

        #[test]
        fn every_prefix_asks_for_more(pairs in pairs()) {
            let packet = encoded(&pairs);
            for end in 0..packet.len() {
                match decode(&packet[..end]) {
                    // It never asks for more than the packet has: the reader would wait for ever.
                    Ok(Head::Need(n)) => prop_assert!(n > 0 && end + n <= packet.len(), "{n} after {end}"),
                    other => prop_assert!(false, "{other:?} after {end} of {}", packet.len()),
                }
            }
        }

        #[test]
        fn nothing_in_a_block_panics_or_yields_more_than_there_is(block in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut used = 0;
            for variable in variables(&block) {
                let Ok((key, value)) = variable else { break };
                prop_assert!(!key.is_empty());
                used += 4 + key.len() + value.len();
            }
            prop_assert!(used <= block.len());
        }
    }

    #[test]
    fn the_modifier_is_judged_from_the_first_byte() {
        for modifier in 0..=255 {
            let expected = match modifier {
                0 | 100 => Ok(Head::Need(3)),
                other => Err(PacketError::Modifier(other)),
            };
            assert_eq!(decode(&[modifier]), expected);
        }
        assert_eq!(decode(b"GET / HTTP/1.0\r\n\r\n"), Err(PacketError::Modifier(b'G')));
    }

    #[test]
    fn modifier2_is_ignored_and_a_ping_is_known() {
        assert_eq!(decode(&[0, 0, 0, 7]), Ok(Head::Request { block: &[], rest: &[] }));
        assert_eq!(decode(&[100, 0, 0, 0]), Ok(Head::Ping));
        assert_eq!(decode(&[100, 2, 0, 0, b'x']), Ok(Head::Need(1)));
    }

    #[test]
    fn the_largest_packet_fits_and_one_byte_more_does_not() {
        let value = vec![b'x'; MAX_BLOCK_LEN - 4 - 1];
        let packet = encode([(&b"K"[..], &value[..])]).expect("it fits");
        assert_eq!(packet.len(), HEADER_LEN + MAX_BLOCK_LEN);
        assert!(matches!(decode(&packet), Ok(Head::Request { block, .. }) if block.len() == MAX_BLOCK_LEN));
        let value = vec![b'x'; MAX_BLOCK_LEN - 4];
        assert_eq!(encode([(&b"K"[..], &value[..])]), Err(TooLarge));
    }

    #[test]
    fn broken_blocks_end_with_one_error() {
        let read = |block| variables(block).collect::<Vec<_>>();
        assert_eq!(read(b"\x01"), [Err(PacketError::CutVariable)]);
        assert_eq!(read(b"\x01\0K"), [Err(PacketError::CutVariable)]);
        assert_eq!(read(b"\x01\0K\x02\0v"), [Err(PacketError::CutVariable)]);
        assert_eq!(read(b"\xff\xffK"), [Err(PacketError::CutVariable)]);
        assert_eq!(read(b"\0\0\x01\0v"), [Err(PacketError::EmptyKey)]);
        assert_eq!(read(b"\x01\0K\0\0\x01"), [Ok((&b"K"[..], &b""[..])), Err(PacketError::CutVariable)]);
    }
}
