//! A body with what it says about itself.

use std::{ops::Range, time::SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::{
    body::Body,
    message::{Decision, ETag, Problem, Request, Response, Timestamp, Validators, decide},
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
    /// Whether another version has a later date. Not so for a bundle: a part that is not the newest can be replaced
    /// without a trace, so its date is only told and never compared.
    pub date_tells_versions: bool,
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
    ///
    /// A function of the two: see [`decide`]. The body is sliced, not read.
    pub fn respond(self, request: &Request) -> Response {
        let validators = Validators {
            len: self.body.len(),
            etag: &self.etag,
            last_modified: self.last_modified.filter(|_| self.date_tells_versions),
        };
        match decide(&request.method, &request.headers, &validators) {
            Decision::Full => self.whole(request),
            Decision::NotModified => self.not_modified(),
            Decision::PreconditionFailed => {
                let detail = "the file has changed, or was never what the condition names";
                Problem::new(StatusCode::PRECONDITION_FAILED, detail).into()
            }
            Decision::Range(range) => {
                let (body, media_type) = (self.body.slice(range.clone()), self.media_type.clone());
                let content_range = content_range(&range, self.body.len());
                let response = self.with_metadata(StatusCode::PARTIAL_CONTENT, body, media_type);
                response.with_header(header::CONTENT_RANGE, content_range)
            }
            Decision::Ranges(ranges) => {
                let boundary = self.byteranges_boundary();
                let body = self.byteranges(&ranges, &boundary);
                if body.len() > Body::MAX_LEN {
                    // With their heads they are longer than an answer may be: RFC 9110 §14.2 lets a Range be ignored.
                    return self.whole(request);
                }
                self.with_metadata(StatusCode::PARTIAL_CONTENT, body, byteranges_type(&boundary))
            }
            Decision::Unsatisfiable => {
                let len = self.body.len();
                let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, format!("there are {len} bytes"));
                Response::from(problem).with_header(header::CONTENT_RANGE, unsatisfied_range(len))
            }
        }
    }

    /// The answer with all of it.
    fn whole(mut self, request: &Request) -> Response {
        let (body, media_type) = (std::mem::take(&mut self.body), self.media_type.clone());
        let mut response = self.with_metadata(StatusCode::OK, body, media_type);
        if request.method == Method::POST {
            // Ranges are defined for GET alone: what cannot be done must not be advertised.
            response.headers.remove(header::ACCEPT_RANGES);
        }
        response
    }

    /// An answer with content of this representation and everything it says about itself.
    fn with_metadata(self, status: StatusCode, body: Body, media_type: HeaderValue) -> Response {
        let mut response = Response::new(status, body);
        response.parts = self.parts;
        response.headers = self.headers;
        response.headers.insert(header::CONTENT_TYPE, media_type);
        response.headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        response.headers.insert(header::ETAG, self.etag.to_header());
        if let Some(time) = self.last_modified {
            response.headers.insert(header::LAST_MODIFIED, http_date(time));
        }
        response
    }

    /// RFC 9110 §15.4.5: what tells which representation is meant and how to choose it, nothing that describes it.
    fn not_modified(self) -> Response {
        let mut response = Response::new(StatusCode::NOT_MODIFIED, Body::empty());
        response.content_length = None;
        response.headers.insert(header::ETAG, self.etag.to_header());
        if let Some(vary) = self.headers.get(header::VARY) {
            response.headers.insert(header::VARY, vary.clone());
        }
        response
    }

    /// Several ranges as one body (§14.6).
    fn byteranges(&self, ranges: &[Range<u64>], boundary: &str) -> Body {
        let mut body = Body::with_capacity(2 * ranges.len() + 2);
        for (index, range) in ranges.iter().enumerate() {
            let mut head = Vec::with_capacity(256);
            head.extend_from_slice(if index == 0 { b"--" } else { b"\r\n--" });
            head.extend_from_slice(boundary.as_bytes());
            head.extend_from_slice(b"\r\nContent-Type: ");
            head.extend_from_slice(self.media_type.as_bytes());
            head.extend_from_slice(b"\r\nContent-Range: ");
            head.extend_from_slice(content_range(range, self.body.len()).as_bytes());
            head.extend_from_slice(b"\r\n\r\n");
            body.push_bytes(head.into());
            body.append(self.body.slice(range.clone()));
        }
        body.push_bytes(format!("\r\n--{boundary}--\r\n").into());
        body
    }

    /// As unguessable as the tag it is made of, and not the boundary that a bundle may have of the same tag.
    fn byteranges_boundary(&self) -> String {
        let tag = String::from_utf8_lossy(self.etag.as_bytes());
        format!("ranges-{}", tag.trim_matches('"'))
    }
}

fn content_range(range: &Range<u64>, len: u64) -> HeaderValue {
    let text = format!("bytes {}-{}/{len}", range.start, range.end - 1);
    HeaderValue::from_str(&text).expect("numbers are visible ASCII")
}

fn unsatisfied_range(len: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("bytes */{len}")).expect("a number is visible ASCII")
}

fn byteranges_type(boundary: &str) -> HeaderValue {
    let text = format!("multipart/byteranges; boundary={boundary}");
    HeaderValue::from_str(&text).expect("a boundary is made of header characters")
}

/// A date in the form every recipient reads (RFC 9110 §5.6.7).
fn http_date(time: SystemTime) -> HeaderValue {
    HeaderValue::try_from(httpdate::fmt_http_date(time)).expect("a date is visible ASCII")
}
