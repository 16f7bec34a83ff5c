//! An answer that its reader holds up.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::{Answer, End, Packet, connect};

/// A download that has begun. Until it is [finished](Self::finish) nobody reads on.
pub struct Download {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Download {
    /// Sends a request under an id and waits for the first bytes of its answer.
    pub fn begin(socket: &Path, target: impl AsRef<[u8]>, id: &str) -> Self {
        let mut stream = connect(socket);
        let packet = Packet::get(target).header("X-Request-Id", id);
        stream.write_all(&packet.to_bytes()).expect("room for a packet");
        let mut received = vec![0; 1000];
        stream.read_exact(&mut received).expect("the start of an answer");
        Self { stream, received }
    }

    /// Reads to the end.
    pub fn finish(mut self) -> Answer {
        let end = self.stream.read_to_end(&mut self.received).map_or(End::Reset, |_| End::Closed);
        // The head alone is text.
        Answer::parse(self.received, end, Duration::ZERO)
    }
}
