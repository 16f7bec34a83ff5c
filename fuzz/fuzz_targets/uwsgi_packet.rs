//! The start of a connection: whatever comes, in whatever pieces, is one packet and what follows it, or is refused.

#![no_main]

use axon::wire::{
    self,
    uwsgi::{self, HEADER_LEN, Head, MAX_BLOCK_LEN, PacketError},
};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match uwsgi::decode(input) {
        Ok(Head::Need(more)) => {
            assert!(input.len() + more <= HEADER_LEN + MAX_BLOCK_LEN, "it waits for more than a packet can have");
            every_prefix_needs_more(input, input.len() + more);
            what_is_needed_comes(input, more);
        }
        Ok(Head::Request { block, rest }) => {
            let packet_len = HEADER_LEN + block.len();
            assert_eq!(packet_len + rest.len(), input.len(), "bytes are lost or read twice");
            assert_eq!(block, &input[HEADER_LEN..packet_len]);
            assert_eq!((usize::from(input[1]), usize::from(input[2])), (block.len() % 256, block.len() / 256));
            every_prefix_needs_more(&input[..packet_len], packet_len);
            what_follows_does_not_count(input, block, rest);
            pieces_make_the_same(input, block);
            the_block_is_its_variables(input, block);
        }
        Ok(Head::Ping) => {
            assert_eq!(input[0], uwsgi::PONG[0]);
            assert_eq!(uwsgi::decode(&[input, b"more"].concat()), Ok(Head::Ping));
        }
        Err(error) => {
            assert_eq!(error, PacketError::Modifier(input[0]), "only the first byte can be wrong");
            for end in 1..input.len() {
                assert_eq!(uwsgi::decode(&input[..end]), Err(error), "it is known from the first byte");
            }
        }
    }
});

/// A reader that takes as much as it is told to never takes a byte of what is behind the packet.
fn every_prefix_needs_more(input: &[u8], packet_len: usize) {
    for end in 0..input.len() {
        match uwsgi::decode(&input[..end]) {
            Ok(Head::Need(more)) => assert!(more > 0 && end + more <= packet_len, "{more} after {end} of {packet_len}"),
            other => panic!("{other:?} after {end} of {packet_len}"),
        }
    }
}

fn what_is_needed_comes(input: &[u8], more: usize) {
    let mut longer = input.to_vec();
    longer.resize(input.len() + more, 0);
    match uwsgi::decode(&longer) {
        // With the last byte of the header the size became known.
        Ok(Head::Need(_)) => assert_eq!(longer.len(), HEADER_LEN),
        Ok(Head::Request { rest, .. }) => assert_eq!(rest, b""),
        Ok(Head::Ping) => {}
        Err(error) => assert!(input.is_empty(), "{error} though its first byte was right"),
    }
}

fn what_follows_does_not_count(input: &[u8], block: &[u8], rest: &[u8]) {
    for more in [&b"\0"[..], input] {
        let longer = [input, more].concat();
        let expected = Head::Request { block, rest: &[rest, more].concat() };
        assert_eq!(uwsgi::decode(&longer), Ok(expected));
    }
    let mut other_modifier2 = input.to_vec();
    other_modifier2[3] ^= 0xff;
    assert_eq!(uwsgi::decode(&other_modifier2), Ok(Head::Request { block, rest }));
}

/// What a connection does: it asks for what is missing until it has a packet.
fn pieces_make_the_same(input: &[u8], whole: &[u8]) {
    let mut end = 0;
    let block = loop {
        match uwsgi::decode(&input[..end]) {
            Ok(Head::Need(more)) => end += more,
            Ok(Head::Request { block, rest }) => break (block, rest),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(block, (whole, &b""[..]));
}

fn the_block_is_its_variables(input: &[u8], block: &[u8]) {
    let mut iterator = uwsgi::variables(block);
    let read: Vec<_> = iterator.by_ref().collect();
    assert!(iterator.next().is_none(), "it goes on after its end");
    let (wrong, whole): (Vec<_>, Vec<_>) = read.iter().partition(|variable| variable.is_err());
    let pairs: Vec<_> = whole.into_iter().flatten().copied().collect();
    let packet = uwsgi::encode(pairs).expect("what came in a packet fits into one");
    let (written, packet_len) = (&packet[HEADER_LEN..], HEADER_LEN + block.len());
    match wrong[..] {
        [] => {
            assert_eq!(written, block, "what is read is what is written");
            assert_eq!(packet.len(), packet_len);
            assert_eq!(packet[1..3], input[1..3]);
        }
        [error] => {
            assert_eq!(read.last(), Some(error), "it goes on after an error");
            assert!(block.starts_with(written) && written.len() < block.len());
        }
        _ => panic!("{wrong:?}"),
    }
    let request = wire::request_from_variables(&Bytes::copy_from_slice(block));
    assert!(request.is_err() || wrong.is_empty(), "a broken block makes a request");
}
