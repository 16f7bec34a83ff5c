//! Reading a request: the packet, then the body its length announces.

use std::{cell::RefCell, io};

use bytes::{Bytes, BytesMut};

use crate::{
    transport::Socket,
    wire::uwsgi::{self, Head, PacketError},
};

/// One read takes a whole packet and the start of its body.
const RECEIVE_LEN: usize = uwsgi::HEADER_LEN + uwsgi::MAX_BLOCK_LEN + 1;

/// How many reads a peer that sends fast may cause before the other connections of its worker get a turn.
pub(super) const READS_PER_TURN: u32 = 16;

thread_local! {
    /// What a worker reads into. A connection owns memory only for what has really arrived.
    static RECEIVE: RefCell<Vec<u8>> = RefCell::new(vec![0; RECEIVE_LEN]);
}

/// What a connection began with.
#[derive(Debug)]
pub(super) enum Received {
    /// A packet.
    Packet {
        /// Its variables.
        block: Bytes,
        /// What came right behind it.
        rest: Bytes,
    },
    /// A ping.
    Ping,
    /// The stream ended before a packet was complete; the number of bytes that had come.
    End(usize),
    /// Not a packet.
    Refused(PacketError),
}

/// Reads one packet.
///
/// Cancel safety: what has arrived is lost; the connection can only be closed.
pub(super) async fn packet(socket: &impl Socket) -> io::Result<Received> {
    // Empty while one read is enough.
    let mut earlier = Vec::new();
    loop {
        let received = socket.when_readable(|| {
            RECEIVE.with_borrow_mut(|buffer| {
                let count = socket.recv(buffer)?;
                if count == 0 {
                    return Ok(Some(Received::End(earlier.len())));
                }
                if earlier.is_empty() {
                    let received = judge(&buffer[..count]);
                    if received.is_none() {
                        earlier.extend_from_slice(&buffer[..count]);
                    }
                    return Ok(received);
                }
                earlier.extend_from_slice(&buffer[..count]);
                Ok(judge(&earlier))
            })
        });
        if let Some(received) = received.await? {
            return Ok(received);
        }
    }
}

/// What the bytes so far amount to; None while more are needed.
fn judge(input: &[u8]) -> Option<Received> {
    match uwsgi::decode(input) {
        Ok(Head::Need(_)) => None,
        Ok(Head::Ping) => Some(Received::Ping),
        Ok(Head::Request { block, rest }) => {
            // One copy into memory of its own; everything in the request is a slice of it.
            let (block_len, rest_len) = (block.len(), rest.len());
            let packet = Bytes::copy_from_slice(&input[uwsgi::HEADER_LEN..][..block_len + rest_len]);
            Some(Received::Packet { block: packet.slice(..block_len), rest: packet.slice(block_len..) })
        }
        Err(error) => Some(Received::Refused(error)),
    }
}

/// Reads a body of `len` bytes of which `start` has come already. None where the stream ends early.
///
/// The caller bounds `len`. Cancel safety: as [`packet`].
pub(super) async fn body(socket: &impl Socket, start: Bytes, len: usize) -> io::Result<Option<Bytes>> {
    if start.len() >= len {
        return Ok(Some(start.slice(..len)));
    }
    let mut body = BytesMut::from(start);
    let mut reads = 0_u32;
    while body.len() < len {
        reads += 1;
        if reads.is_multiple_of(READS_PER_TURN) {
            tokio::task::yield_now().await;
        }
        let count = socket.when_readable(|| {
            RECEIVE.with_borrow_mut(|buffer| {
                let room = buffer.len().min(len - body.len());
                let count = socket.recv(&mut buffer[..room])?;
                body.extend_from_slice(&buffer[..count]);
                Ok(count)
            })
        });
        if count.await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(body.freeze()))
}

/// Reads and drops what has come, once, without waiting. 0 at the end of the stream.
pub(super) fn discard(socket: &impl Socket) -> io::Result<usize> {
    RECEIVE.with_borrow_mut(|buffer| socket.recv(buffer))
}
