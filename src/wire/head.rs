//! The head of an answer, as nginx reads it from a uwsgi backend: a status line and header lines.

use std::io::Write as _;

use bytes::Bytes;

use crate::message::Response;

/// Room for the head of an ordinary answer, so that it is written into one allocation.
const ORDINARY_HEAD_LEN: usize = 512;

/// Writes the status line, the header fields and the empty line after them.
///
/// Every answer that may have a body says its exact length: nginx takes an early end for success
/// otherwise.
pub fn encode_head(response: &Response) -> Bytes {
    let mut head = Vec::with_capacity(ORDINARY_HEAD_LEN);
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(response.status.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(response.status.canonical_reason().unwrap_or("Unknown").as_bytes());
    head.extend_from_slice(b"\r\n");
    if let Some(length) = response.content_length {
        write!(head, "Content-Length: {length}\r\n").expect("a buffer in memory takes everything");
    }
    for (name, value) in &response.headers {
        write_name(&mut head, name.as_str());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.into()
}

/// Writes a field name the way people are used to read it: `Content-Type`, and `ETag`.
fn write_name(head: &mut Vec<u8>, name: &str) {
    if name == "etag" {
        head.extend_from_slice(b"ETag");
        return;
    }
    let mut start_of_word = true;
    for byte in name.bytes() {
        head.push(if start_of_word { byte.to_ascii_uppercase() } else { byte });
        start_of_word = byte == b'-';
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode, header};

    use super::*;
    use crate::body::Body;

    #[test]
    fn a_head_says_its_length_and_reads_well() {
        let response = Response::new(StatusCode::OK, Body::from(Bytes::from_static(b"hello")))
            .with_header(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))
            .with_header(header::ETAG, HeaderValue::from_static("\"x\""));
        assert_eq!(
            encode_head(&response),
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\nETag: \"x\"\r\n\r\n"
        );
    }

    #[test]
    fn a_status_without_a_body_has_no_length() {
        let mut response = Response::new(StatusCode::NOT_MODIFIED, Body::empty());
        response.content_length = None;
        assert_eq!(encode_head(&response), "HTTP/1.1 304 Not Modified\r\n\r\n");
    }
}
