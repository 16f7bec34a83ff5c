//! The record that every request leaves.

use std::{
    fmt::{self, Display, Formatter},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use tracing::{debug, error, info};

use crate::transport::{Cut, Exchange, Outcome};

/// How much of a path, a query or a request id goes into a record, in bytes before escaping. A list of files
/// can be 64 KiB long, a log line should not be.
const MAX_LOGGED_LEN: usize = 512;

/// Writes down how an exchange went: our faults at error, the peer's at debug, and one record of the request
/// itself if `access_log` is on.
pub fn record(exchange: &Exchange, access_log: bool) {
    let id = RequestId::of(exchange);
    let cut = match &exchange.outcome {
        Outcome::Silent => return,
        Outcome::Complete => None,
        Outcome::Unfinished => Some("shutdown"),
        Outcome::Refused(reason) => {
            debug!(request_id = display(&id), reason, "the peer sent no request");
            None
        }
        Outcome::Cut(Cut::Client(cause)) => {
            debug!(request_id = display(&id), %cause, "the reader closed the connection");
            Some("client")
        }
        Outcome::Cut(Cut::Stalled) => {
            debug!(request_id = display(&id), "the reader took nothing in time");
            Some("stalled")
        }
        Outcome::Cut(Cut::Content { parameter, error }) => {
            error!(request_id = display(&id), parameter, cause = %error, "an answer was cut");
            Some("file")
        }
    };
    if !access_log {
        return;
    }
    let request = exchange.request.as_ref();
    let refused = match &exchange.outcome {
        Outcome::Refused(reason) => Some(reason.as_str()),
        _ => None,
    };
    info!(
        method = request.map(|r| r.method.as_str()).map(|method| method.get(..MAX_LOGGED_LEN).unwrap_or(method)),
        path = request.map(|r| display(Escaped(&r.path))),
        query = request.map(|r| display(Escaped(&r.query))),
        status = exchange.status.map(|s| s.as_u16()),
        bytes = exchange.bytes_sent,
        parts = exchange.parts,
        duration_us = u64::try_from(exchange.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        peer = request.and_then(|r| r.peer.as_ref()).map(|peer| display(Escaped(peer))),
        request_id = display(&id),
        cut,
        refused,
        "request"
    );
}

/// The front end's name for the request, or one of our own.
enum RequestId<'a> {
    Given(&'a [u8]),
    Made { process: u64, number: u32 },
}

impl<'a> RequestId<'a> {
    /// Makes one up where none was given: so this is called once a request.
    fn of(exchange: &'a Exchange) -> Self {
        static PROCESS: OnceLock<u64> = OnceLock::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let given = exchange.request.as_ref().and_then(|request| request.id.as_ref()).filter(|id| !id.is_empty());
        match given {
            Some(id) => Self::Given(id.as_bytes()),
            // Unique is enough; nobody needs to be kept from guessing it.
            None => Self::Made {
                process: *PROCESS.get_or_init(|| getrandom::u64().unwrap_or_default()),
                number: COUNT.fetch_add(1, Ordering::Relaxed),
            },
        }
    }
}

impl Display for RequestId<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(id) => Escaped(id).fmt(f),
            Self::Made { process, number } => write!(f, "{process:016x}{number:08x}"),
        }
    }
}

/// Bytes a peer chose, so that they cannot break out of a field or fill the log. In the text form a field ends at a
/// space, so a space is escaped as well.
struct Escaped<'a>(&'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let cut = &self.0[..self.0.len().min(MAX_LOGGED_LEN)];
        let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\');
        match std::str::from_utf8(cut) {
            // Nearly always: in one piece.
            Ok(text) if cut.iter().all(plain) => f.write_str(text)?,
            _ => {
                for (index, word) in cut.split(|&b| b == b' ').enumerate() {
                    f.write_str(if index == 0 { "" } else { "\\x20" })?;
                    Display::fmt(&word.escape_ascii(), f)?;
                }
            }
        }
        if cut.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_chose_stays_within_its_field() {
        assert_eq!(Escaped(b"/a\r\n\"b\"\xff\x1b[0m").to_string(), r#"/a\r\n\"b\"\xff\x1b[0m"#);
        assert_eq!(Escaped(b" a  b=1").to_string(), r"\x20a\x20\x20b=1");
        let long = [b'x'; MAX_LOGGED_LEN + 1];
        assert_eq!(Escaped(&long[1..]).to_string().len(), MAX_LOGGED_LEN);
        assert!(Escaped(&long).to_string().ends_with("x..."));
    }

    #[test]
    fn a_made_id_is_never_made_twice() {
        let exchange = Exchange::start();
        let id = RequestId::of(&exchange);
        assert_eq!(id.to_string(), id.to_string());
        assert_ne!(id.to_string(), RequestId::of(&exchange).to_string());
    }
}
