//! An answer, not yet bytes.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::body::Body;

/// A status, header fields and a body.
///
/// `Content-Length` is not among the fields: it is [`content_length`](Self::content_length), so that
/// no answer can be without one by accident.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// Header fields, without `Content-Length`.
    pub headers: HeaderMap,
    /// What follows the head.
    pub body: Body,
    /// The declared length in bytes: of the body, or of the body a GET would have had. None where the
    /// status forbids one (204, 304).
    pub content_length: Option<u64>,
    /// How many files the answer is made of, for the log; 0 where it is none.
    pub parts: usize,
    /// Whether the body is a bundle, whole, for the metrics.
    pub is_whole_bundle: bool,
    /// Which place of the service answered, for the metrics: one of few names, whatever was asked for.
    /// [`OTHER_ROUTE`](Self::OTHER_ROUTE) by default.
    pub route: &'static str,
}

impl Response {
    /// The route of an answer that no place of the service gave.
    pub const OTHER_ROUTE: &'static str = "other";

    /// An answer with a body and its exact length.
    pub fn new(status: StatusCode, body: Body) -> Self {
        let content_length = Some(body.len());
        Self {
            status,
            headers: HeaderMap::new(),
            body,
            content_length,
            parts: 0,
            is_whole_bundle: false,
            route: Self::OTHER_ROUTE,
        }
    }

    /// JSON text with a status.
    pub fn json(status: StatusCode, text: impl Into<Bytes>) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self::new(status, Body::from(text.into())).with_header(header::CONTENT_TYPE, json)
    }

    /// Adds or replaces a header field.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}
