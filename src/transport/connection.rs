//! One request on one connection, from its first byte to the close.
//!
//! nginx uses a uwsgi connection once. Whatever follows a request is therefore never taken for another one;
//! it is read and dropped, since closing a socket with unread input resets the peer, which then loses the
//! end of an answer that was sent.

use std::{io, time::Duration};

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    body::Body,
    message::{Problem, Request, Response, Service},
    transport::{
        Cut, Exchange, Outcome, SendError, Socket, TransportOptions,
        receive::{self, Received},
        send,
    },
    wire::{self, uwsgi},
};

/// How many bytes are read and dropped after an early answer. More than any body that nginx lets through
/// by default (`client_max_body_size 1m`), and a bound on the time that a peer can make us read.
const MAX_LINGER_LEN: usize = 16 * 1024 * 1024;

/// How long they are waited for.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves one connection; the caller closes the socket afterwards.
///
/// What happened is written into `exchange`; there is nothing to be returned. Cancel safety: part of an
/// answer may be on the wire; the connection can only be closed.
pub async fn serve(socket: &impl Socket, service: &impl Service, options: &TransportOptions, exchange: &mut Exchange) {
    // In a box of its own, which is gone while the answer is sent: that is where a connection can stay for long.
    let Some(Begun { mut body, head_len, unread, refused }) = Box::pin(begin(socket, service, options, exchange)).await
    else {
        exchange.outcome = Outcome::Silent;
        return;
    };
    let Exchange { connection, first_byte, bytes_sent, .. } = &mut *exchange;
    let activity = connection.activity();
    let mut sent = 0;
    let result = send(socket, &mut body, options, activity, |count| {
        first_byte.get_or_insert_with(std::time::Instant::now);
        sent += count;
        let of_body = sent.saturating_sub(head_len);
        activity.add_bytes_sent(of_body - *bytes_sent);
        *bytes_sent = of_body;
    });
    let result = result.await;
    exchange.outcome = match (result, refused) {
        (_, Some(reason)) => Outcome::Refused(reason),
        // Only a pong has no status; whether its prober waited for it is no concern of ours.
        (_, None) if exchange.status.is_none() => Outcome::Silent,
        (Ok(()), None) => Outcome::Complete,
        (Err(SendError::Peer(error)), None) => Outcome::Cut(Cut::Client(error)),
        (Err(SendError::Stalled), None) => Outcome::Cut(Cut::Stalled),
        (Err(SendError::Content { parameter, error }), None) => Outcome::Cut(Cut::Content { parameter, error }),
    };
    linger(socket, unread).await;
}

/// What there is to send once a connection has said what it wants.
struct Begun {
    /// Head and body.
    body: Body,
    /// How much of it is the head.
    head_len: u64,
    /// Whether more is known to come from the peer.
    unread: bool,
    /// Why what came was not served.
    refused: Option<String>,
}

/// Reads a request in the time it may take, calls the service, and writes the answer's head. None where there was no
/// request at all.
async fn begin(
    socket: &impl Socket,
    service: &impl Service,
    options: &TransportOptions,
    exchange: &mut Exchange,
) -> Option<Begun> {
    let deadline = Instant::now() + options.head_timeout;
    let received = match timeout_at(deadline, receive(socket, service, exchange)).await {
        Ok(received) => received,
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time".to_owned())),
    };
    match received {
        Ok(Incoming::Request { request, unread }) => {
            let is_head = request.method == Method::HEAD;
            let response = service.call(request).await;
            Some(compose(response, is_head, unread, None, exchange))
        }
        Ok(Incoming::Ping) => {
            let body = Body::from(Bytes::from_static(&uwsgi::PONG));
            Some(Begun { body, head_len: 0, unread: false, refused: None })
        }
        Ok(Incoming::Nothing) => None,
        Err(Refusal { status, reason, is_head }) => {
            // Also where the request was read and its body was not.
            let is_head = is_head || exchange.request.as_ref().is_some_and(|request| request.method == Method::HEAD);
            let problem = Problem::new(status, reason);
            let reason = problem.detail().to_owned();
            Some(compose(problem.into(), is_head, true, Some(reason), exchange))
        }
    }
}

/// Puts an answer's head and, unless the request was HEAD, its body together.
fn compose(response: Response, is_head: bool, unread: bool, refused: Option<String>, exchange: &mut Exchange) -> Begun {
    let head = wire::encode_head(&response);
    let head_len = head.len() as u64;
    exchange.status = Some(response.status);
    exchange.route = response.route;
    exchange.parts = response.parts;
    exchange.bundle_len = response.content_length.filter(|_| response.is_whole_bundle && !is_head);
    let mut body = if is_head { Body::empty() } else { response.body };
    body.push_front(head);
    Begun { body, head_len, unread, refused }
}

#[expect(clippy::large_enum_variant, reason = "it lives for a moment, on the stack")]
enum Incoming {
    Request { request: Request, unread: bool },
    Ping,
    Nothing,
}

/// Why what came is not served, and the answer's status.
struct Refusal {
    status: StatusCode,
    reason: String,
    /// Whether HEAD was asked for by what is no request.
    is_head: bool,
}

impl Refusal {
    fn new(status: StatusCode, reason: String) -> Self {
        Self { status, reason, is_head: false }
    }
}

/// Reads a request, and its body if the service wants it.
async fn receive(socket: &impl Socket, service: &impl Service, exchange: &mut Exchange) -> Result<Incoming, Refusal> {
    let bad_request = |reason: String| Refusal::new(StatusCode::BAD_REQUEST, reason);
    let (block, rest) = match receive::packet(socket).await {
        Ok(Received::Packet { block, rest }) => (block, rest),
        Ok(Received::Ping) => return Ok(Incoming::Ping),
        Ok(Received::End(0)) | Err(_) => return Ok(Incoming::Nothing),
        Ok(Received::End(count)) => {
            return Err(bad_request(format!("the connection ended after {count} bytes, before the packet did")));
        }
        Ok(Received::Refused(error)) => return Err(bad_request(error.to_string())),
    };
    let mut request = wire::request_from_variables(&block).map_err(|error| Refusal {
        status: error.status(),
        reason: error.to_string(),
        is_head: wire::asks_for_head(&block),
    })?;
    exchange.request = Some((&request).into());
    let wanted = request.content_length > 0 && request.content_length <= service.body_limit(&request);
    let Some(len) = usize::try_from(request.content_length).ok().filter(|_| wanted) else {
        let unread = request.content_length > rest.len() as u64;
        return Ok(Incoming::Request { request, unread });
    };
    match receive::body(socket, rest, len).await {
        Ok(Some(body)) => {
            request.body = body;
            Ok(Incoming::Request { request, unread: false })
        }
        Ok(None) => Err(bad_request("the request's body ended early".to_owned())),
        Err(error) => Err(bad_request(format!("the request's body cannot be read: {error}"))),
    }
}

/// Takes what the peer still sends, so that the close does not become a reset. `unread` says that more is
/// known to come; otherwise one look is enough.
async fn linger(socket: &impl Socket, unread: bool) {
    let first = receive::discard(socket);
    let waits = matches!(&first, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    let more = matches!(first, Ok(count) if count > 0) || (unread && waits);
    if !more || socket.shutdown_write().is_err() {
        return;
    }
    let drained = async {
        let mut left = MAX_LINGER_LEN;
        let mut reads = 0_u32;
        while left > 0 {
            reads += 1;
            if reads.is_multiple_of(receive::READS_PER_TURN) {
                tokio::task::yield_now().await;
            }
            match socket.when_readable(|| receive::discard(socket)).await {
                Ok(count) if count > 0 => left = left.saturating_sub(count),
                _ => return,
            }
        }
    };
    // After the deadline the peer has had its chance to read the answer.
    let _ = timeout(LINGER_TIMEOUT, drained).await;
}
