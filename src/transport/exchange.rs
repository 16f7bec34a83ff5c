//! What happened on one connection, for the log and the metrics.

use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};

use crate::message::Request;

/// The record of one request and its answer; filled in as it goes, so that it is true at any moment, also
/// when the connection is dropped.
#[derive(Debug)]
pub struct Exchange {
    /// When the connection was accepted.
    pub started: Instant,
    /// The request line and what else the log tells of it, once it is known.
    pub request: Option<RequestFacts>,
    /// The status, once it is decided.
    pub status: Option<StatusCode>,
    /// How many files the answer is made of.
    pub parts: usize,
    /// How many bytes of the body were handed to the kernel.
    pub bytes_sent: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// What the log tells of a request.
#[derive(Debug)]
pub struct RequestFacts {
    /// The method.
    pub method: Method,
    /// The path; bytes.
    pub path: Bytes,
    /// The query, not decoded.
    pub query: Bytes,
    /// The client's address, by the front end's account.
    pub peer: Option<Bytes>,
    /// What the front end calls this request (`X-Request-Id`).
    pub id: Option<HeaderValue>,
}

/// How an exchange ended.
#[derive(Debug)]
pub enum Outcome {
    /// It is still going on, or was dropped in the middle by a shutdown.
    Unfinished,
    /// It was dropped in the middle by a panic, which has a record of its own.
    Panicked,
    /// The whole answer was handed over.
    Complete,
    /// Bytes came that are no request; the answer says why.
    Refused(String),
    /// The answer was begun and not finished, or never begun.
    Cut(Cut),
    /// The peer said nothing, or only asked whether we are there: not worth a record.
    Silent,
}

/// Why an answer was cut.
#[derive(Debug)]
pub enum Cut {
    /// The reader closed the connection.
    Client(std::io::Error),
    /// The reader took nothing for as long as it may.
    Stalled,
    /// A file could not be read as it was promised: our fault.
    Content {
        /// The request parameter that named the file.
        parameter: String,
        /// What happened to it.
        error: crate::body::ContentError,
    },
}

impl Exchange {
    /// The record of a connection that was accepted just now.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            request: None,
            status: None,
            parts: 0,
            bytes_sent: 0,
            outcome: Outcome::Unfinished,
        }
    }
}

impl From<&Request> for RequestFacts {
    fn from(request: &Request) -> Self {
        Self {
            method: request.method.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            peer: request.peer.clone(),
            id: request.headers.get("x-request-id").cloned(),
        }
    }
}
