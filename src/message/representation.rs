//! A body with what it says about itself.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::{
    body::Body,
    message::{ETag, Request, Response, Timestamp},
};

/// What a GET gives: a file, a bundle, later an archive.
#[derive(Clone, Debug)]
pub struct Representation {
    /// The bytes.
    pub body: Body,
    /// The media type, with its parameters.
    pub media_type: HeaderValue,
    /// The strong validator.
    pub etag: ETag,
    /// When the content last changed, as the store knows it.
    pub modified: Option<Timestamp>,
    /// The same as HTTP can say it, if it can.
    pub last_modified: Option<SystemTime>,
    /// Further fields that belong to it.
    pub headers: HeaderMap,
    /// How many files it is made of.
    pub parts: usize,
}

impl Representation {
    /// Adds or replaces a header field.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The answer to a request for this representation.
    pub fn respond(self, _request: &Request) -> Response {
        let mut response = Response::new(StatusCode::OK, self.body);
        response.headers = self.headers;
        response.parts = self.parts;
        response.headers.insert(header::CONTENT_TYPE, self.media_type);
        response.headers.insert(header::ETAG, self.etag.to_header());
        if let Some(time) = self.last_modified {
            response.headers.insert(header::LAST_MODIFIED, http_date(time));
        }
        response
    }
}

/// A date in the form every recipient reads (RFC 9110 §5.6.7).
fn http_date(time: SystemTime) -> HeaderValue {
    HeaderValue::from_str(&httpdate::fmt_http_date(time)).expect("a date is visible ASCII")
}
