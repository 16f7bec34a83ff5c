//! One connection: read the request, call the service, write the answer, all within time limits.
//!
//! Generic over the [`Socket`] and over the [`Service`](crate::message::Service): no routes here.

mod activity;
mod address;
mod connection;
mod counter;
mod disk;
mod exchange;
mod receive;
mod recent;
mod send;
mod socket;

use std::time::Duration;

pub use activity::Activity;
pub use address::{Address, AddressError, MAX_SOCKET_PATH_LEN};
pub use connection::serve;
pub use counter::LocalCounter;
pub use exchange::{Cut, Exchange, Outcome, RequestFacts};
pub use send::{SendError, send};
pub use socket::{SEND_BUFFER_LEN, Socket, StreamSocket, watch};

/// How long a connection may take, and in what pieces it is served.
#[derive(Clone, Copy, Debug)]
pub struct TransportOptions {
    /// Within this time the whole request must have arrived, body included. nginx sends it at once; a peer
    /// that does not would hold a connection for nothing. 10 s by default.
    pub head_timeout: Duration,
    /// After this time without a byte taken the reader counts as gone. 300 s by default: longer than any
    /// `send_timeout` in use, since nginx does not read from us while its client stalls.
    pub stall_timeout: Duration,
    /// The most bytes handed to the kernel in one call. 64 KiB by default: what nginx is set to read at once.
    pub chunk_size: usize,
    /// Whether file content goes out with `sendfile`. On by default; off, it is read and written, which
    /// must give the same answers.
    pub sendfile: bool,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(300),
            chunk_size: 64 * 1024,
            sendfile: true,
        }
    }
}
