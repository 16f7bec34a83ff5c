//! A request as the service sees it.

use bytes::Bytes;
use http::{HeaderMap, Method};

/// One request, whichever protocol brought it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method; case-sensitive (RFC 9110 §9.1).
    pub method: Method,
    /// The decoded, normalised path. Bytes, because file names are.
    pub path: Bytes,
    /// The query as it was sent, without the question mark, not decoded.
    pub query: Bytes,
    /// Header fields; one value a name, repeated fields already joined.
    pub headers: HeaderMap,
    /// The length of the request's body in bytes; 0 without one.
    pub content_length: u64,
    /// The body, where the service [asked for it](crate::message::Service::body_limit); else empty.
    pub body: Bytes,
    /// The client's address as the front end saw it, for the log.
    pub peer: Option<Bytes>,
}

impl Request {
    /// A request with a method, a path and a query, and nothing else.
    pub fn new(method: Method, path: impl Into<Bytes>, query: impl Into<Bytes>) -> Self {
        Self {
            method,
            path: path.into(),
            query: query.into(),
            headers: HeaderMap::new(),
            content_length: 0,
            body: Bytes::new(),
            peer: None,
        }
    }

    /// The value of a header field, if it was sent.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&[u8]> {
        self.headers.get(name).map(http::HeaderValue::as_bytes)
    }
}
