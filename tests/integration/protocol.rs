//! The uwsgi protocol: packets whole, in pieces, at their limits, and what only looks like one, and at random.

mod bodies;
mod packets;
mod random;
mod variables;

use std::time::Duration;

use crate::harness::{Packet, Site};

/// From here on an answer does not count as given at once.
pub const PROMPT: Duration = Duration::from_secs(1);

/// A site with what these tests ask for.
pub fn site() -> Site {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("b.txt", "abcdef");
    site
}

/// The length of a packet's variables: what the 16-bit size field counts.
pub fn block_len(packet: &Packet) -> usize {
    packet.to_bytes().len() - 4 - packet.body.len()
}
