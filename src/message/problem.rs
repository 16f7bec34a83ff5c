//! Errors as `application/problem+json` (RFC 9457).

use std::borrow::Cow;

use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::{body::Body, message::Response};

/// The longest detail in bytes. It may quote what a client sent.
const MAX_DETAIL_LEN: usize = 500;

/// What went wrong, for the client: no server paths, nothing about the inside.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    #[serde(serialize_with = "status_number")]
    status: StatusCode,
    title: &'static str,
    detail: Cow<'static, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileProblem>,
}

/// One file of a request that cannot be served, named by its parameter.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FileProblem {
    /// The position in the request, from 0.
    pub index: usize,
    /// The query key, as it was sent.
    pub parameter: String,
    /// The file's own status.
    #[serde(serialize_with = "status_number")]
    pub status: StatusCode,
    /// What is wrong with it.
    pub detail: &'static str,
}

impl Problem {
    /// Its media type.
    pub const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

    /// How long a client should wait before it tries again after a 503, in seconds.
    pub const RETRY_AFTER_SECS: HeaderValue = HeaderValue::from_static("1");

    /// A problem with a sentence that says what to do about it.
    pub fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        let mut detail = detail.into();
        if detail.len() > MAX_DETAIL_LEN {
            let kept = detail.char_indices().map_while(|(at, c)| (at + c.len_utf8() <= MAX_DETAIL_LEN).then_some(c));
            detail = Cow::Owned(kept.chain("...".chars()).collect());
        }
        Self { status, title, detail, files: Vec::new() }
    }

    /// The sentence that says what to do about it.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Names the files that are to blame.
    #[must_use]
    pub fn with_files(mut self, files: Vec<FileProblem>) -> Self {
        self.files = files;
        self
    }

    /// The status the answer will have.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The problem as JSON text.
    pub fn to_json(&self) -> String {
        // Strings and numbers only: there is nothing in it that cannot be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Self {
        let response = Self::new(problem.status, Body::from(bytes::Bytes::from(problem.to_json())))
            .with_header(header::CONTENT_TYPE, Problem::MEDIA_TYPE);
        if problem.status == StatusCode::SERVICE_UNAVAILABLE {
            return response.with_header(header::RETRY_AFTER, Problem::RETRY_AFTER_SECS);
        }
        response
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn status_number<S: serde::Serializer>(status: &StatusCode, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u16(status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_has_a_longest_length() {
        let detail = |len: usize| Problem::new(StatusCode::BAD_REQUEST, "ü".repeat(len / 2)).detail().len();
        assert_eq!(detail(MAX_DETAIL_LEN), MAX_DETAIL_LEN);
        assert_eq!(detail(MAX_DETAIL_LEN + 2), MAX_DETAIL_LEN + 3);
        assert_eq!(detail(1_000_000), MAX_DETAIL_LEN + 3);
    }
}
