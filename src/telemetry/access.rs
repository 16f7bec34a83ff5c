//! The record that every request leaves.

use std::{
    borrow::Cow,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use tracing::{debug, error, info};

use crate::{
    telemetry::{WorkerMetrics, cut::Cause},
    transport::{Cut, Exchange, Outcome},
};

/// How much of a path, a query or a request id goes into a record, in bytes before escaping. A list of files
/// can be 64 KiB long, a log line should not be.
const MAX_LOGGED_LEN: usize = 512;

/// Counts an exchange that is over and writes down how it went: our faults at error, the peer's at debug, and one record
/// of the request itself if `access_log` is on.
pub fn record(exchange: &Exchange, metrics: &WorkerMetrics, access_log: bool) {
    let duration = exchange.started.elapsed();
    metrics.count(exchange, duration);
    let id = request_id(exchange);
    match &exchange.outcome {
        Outcome::Silent => return,
        Outcome::Complete | Outcome::Unfinished | Outcome::Panicked => {}
        Outcome::Refused(reason) => debug!(request_id = display(&id), reason, "the peer sent no request"),
        Outcome::Cut(Cut::Client(cause)) => {
            debug!(request_id = display(&id), %cause, "the reader closed the connection");
        }
        Outcome::Cut(Cut::Stalled) => debug!(request_id = display(&id), "the reader took nothing in time"),
        Outcome::Cut(Cut::Content { parameter, error }) => {
            error!(request_id = display(&id), parameter, cause = %error, "an answer was cut");
        }
    }
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
        path = request.map(|r| display(escaped(&r.path))),
        query = request.map(|r| display(escaped(&r.query))),
        status = exchange.status.map(|s| s.as_u16()),
        bytes = exchange.bytes_sent,
        parts = exchange.parts,
        duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        peer = request.and_then(|r| r.peer.as_ref()).map(|peer| display(escaped(peer))),
        request_id = display(&id),
        cut = Cause::of(&exchange.outcome).map(Cause::name),
        refused,
        "request"
    );
}

/// The front end's name for the request, or one of our own: made up anew at every call.
fn request_id(exchange: &Exchange) -> Cow<'_, str> {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let given = exchange.request.as_ref().and_then(|request| request.id.as_ref()).filter(|id| !id.is_empty());
    if let Some(id) = given {
        return escaped(id.as_bytes());
    }
    // Unique is enough; nobody needs to be kept from guessing it.
    let process = *PROCESS.get_or_init(|| getrandom::u64().unwrap_or_default());
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{process:016x}{number:08x}").into()
}

/// Bytes a peer chose, so that they cannot break out of a field or fill the log. In the text form a field ends at a
/// space, so a space is escaped as well.
fn escaped(bytes: &[u8]) -> Cow<'_, str> {
    let cut = &bytes[..bytes.len().min(MAX_LOGGED_LEN)];
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\');
    // Looks at every byte, which is many at once; stopping at the first would be one by one.
    let all_plain = cut.iter().fold(true, |all, &b| all & plain(b));
    match std::str::from_utf8(bytes) {
        Ok(text) if all_plain && cut.len() == bytes.len() => text.into(), // nearly always
        _ => {
            let words: Vec<String> = cut.split(|&b| b == b' ').map(|word| word.escape_ascii().to_string()).collect();
            let more = if cut.len() < bytes.len() { "..." } else { "" };
            (words.join("\\x20") + more).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_chose_stays_within_its_field() {
        assert_eq!(escaped(b"/a\r\n\"b\"\xff\x1b[0m"), r#"/a\r\n\"b\"\xff\x1b[0m"#);
        assert_eq!(escaped(b" a  b=1"), r"\x20a\x20\x20b=1");
        let long = [b'x'; MAX_LOGGED_LEN + 1];
        assert_eq!(escaped(&long[1..]).len(), MAX_LOGGED_LEN);
        assert!(escaped(&long).ends_with("x..."));
    }

    #[test]
    fn a_made_id_is_never_made_twice() {
        let exchange = Exchange::start();
        assert_eq!(request_id(&exchange).len(), 24);
        assert_ne!(request_id(&exchange), request_id(&exchange));
    }
}
