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
    message::{MAX_LOGGED_LEN, for_log},
    telemetry::{WorkerMetrics, cut::Cause},
    transport::{Cut, Exchange, Outcome},
};

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
        path = request.map(|r| display(for_log(&r.path))),
        query = request.map(|r| display(for_log(&r.query))),
        status = exchange.status.map(|s| s.as_u16()),
        bytes = exchange.bytes_sent,
        parts = exchange.parts,
        duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        peer = request.and_then(|r| r.peer.as_ref()).map(|peer| display(for_log(peer))),
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
        return for_log(id.as_bytes());
    }
    // Unique is enough; nobody needs to be kept from guessing it.
    let process = *PROCESS.get_or_init(|| getrandom::u64().unwrap_or_default());
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{process:016x}{number:08x}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_is_never_made_twice() {
        let exchange = Exchange::start();
        assert_eq!(request_id(&exchange).len(), 24);
        assert_ne!(request_id(&exchange), request_id(&exchange));
    }
}
