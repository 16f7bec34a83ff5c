//! What happened on one connection, for the log and the metrics.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};

use crate::{
    message::{Request, Response},
    transport::activity::{Activity, OpenConnection},
};

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
    /// Which place of the service answered; [`Response::route`].
    pub route: &'static str,
    /// How many files the answer is made of.
    pub parts: usize,
    /// The length of the body in bytes where the answer is a whole bundle.
    pub bundle_len: Option<u64>,
    /// When the kernel took the first byte of the answer.
    pub first_byte: Option<Instant>,
    /// How many bytes of the body were handed to the kernel.
    pub bytes_sent: u64,
    /// How it ended.
    pub outcome: Outcome,
    pub(super) connection: OpenConnection,
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
    /// The record of a connection that was accepted just now, and that nobody counts.
    pub fn start() -> Self {
        Self::counted(Arc::default())
    }

    /// What the connections of its worker do, this one among them.
    pub fn activity(&self) -> &Activity {
        self.connection.activity()
    }

    /// The record of a connection that was accepted just now. It counts as open until the record is dropped.
    pub fn counted(activity: Arc<Activity>) -> Self {
        Self {
            started: Instant::now(),
            request: None,
            status: None,
            route: Response::OTHER_ROUTE,
            parts: 0,
            bundle_len: None,
            first_byte: None,
            bytes_sent: 0,
            outcome: Outcome::Unfinished,
            connection: OpenConnection::begin(activity),
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
