//! Files that change, disks that fail or crawl, readers that stall, too many of something, a log that is stuck or gone.

mod changes;
mod crowds;
mod descriptors;
mod disks;
mod load;
mod memory;
mod panics;
mod sinks;

use std::{io::Write as _, os::unix::net::UnixStream};

use crate::harness::{Daemon, Packet, connect};

/// Opens a connection, asks, and does not read.
fn ask(daemon: &Daemon, target: &str) -> UnixStream {
    let mut stream = connect(daemon.socket());
    stream.write_all(&Packet::get(target).to_bytes()).expect("room for a packet");
    stream
}
