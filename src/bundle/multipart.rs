//! A bundle as one multipart body (RFC 2046 §5.1), planned before its first byte.
//!
//! ```text
//! --boundary CRLF head CRLF CRLF content [CRLF --boundary CRLF head CRLF CRLF content]... CRLF --boundary-- CRLF
//! ```
//!
//! The boundary is a keyed hash of the shape and of all part heads; the heads hold names, sizes and entity
//! tags. So unchanged files give the same bytes, the boundary serves as the bundle's own entity tag, and
//! nobody without the key can write a file that contains it.

use std::{io::Write as _, time::SystemTime};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::{
    body::Body,
    bundle::disposition,
    message::{ETag, FingerprintKey, Problem, Representation, Timestamp},
};

/// The longest head of a part in bytes, without the delimiter: some readers look no further than 1,000.
pub const MAX_PART_HEAD_LEN: usize = 1000;

/// How many files a bundle has.
const AXON_PARTS: HeaderName = HeaderName::from_static("axon-parts");

/// The status of a part that stands in for a file.
pub(super) const AXON_STATUS: HeaderName = HeaderName::from_static("axon-status");

/// What may stand in a path without being encoded: unreserved characters (RFC 3986 §2.3) and the slash.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The multipart subtype of a bundle.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Shape {
    /// `multipart/mixed` (RFC 2046 §5.1.3).
    #[default]
    Mixed,
    /// `multipart/form-data` (RFC 7578): what browsers and Node read natively.
    FormData,
    /// `multipart/related` (RFC 2387), whose root is the first part.
    Related,
}

/// One part of a bundle.
#[derive(Clone, Debug)]
pub struct Part {
    /// What the request called it: the field's name in form-data; bytes.
    pub parameter: Bytes,
    /// The name as it was asked for; bytes.
    pub path: Bytes,
    /// The name to save it under, without directories; bytes. None for what is not to be saved.
    pub filename: Option<Bytes>,
    /// The status of a part that stands in for a file.
    pub failed: Option<StatusCode>,
    /// The content.
    pub representation: Representation,
}

impl Part {
    /// A file that is saved under the last component of its path.
    pub fn file(parameter: Bytes, path: Bytes, representation: Representation) -> Self {
        let start = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
        Self { parameter, filename: Some(path.slice(start..)), path, failed: None, representation }
    }

    /// A problem in the place of a file that cannot be served. It has no file name, so that nobody saves it
    /// under the name of the file.
    pub fn problem(parameter: Bytes, path: Bytes, problem: &Problem, key: &FingerprintKey) -> Self {
        let text = problem.to_json();
        let representation = Representation {
            etag: ETag::of(&key.token("problem", text.as_bytes())),
            body: Body::from(Bytes::from(text)),
            media_type: Problem::MEDIA_TYPE,
            modified: None,
            last_modified: None,
            date_tells_versions: false,
            headers: http::HeaderMap::new(),
            parts: 0,
        };
        Self { parameter, path, filename: None, failed: Some(problem.status()), representation }
    }
}

/// Plans a bundle of the parts, in their order.
pub fn bundle(parts: Vec<Part>, shape: Shape, key: &FingerprintKey) -> Representation {
    let count = parts.len();
    let mut heads = BytesMut::with_capacity(count * 320);
    let mut ends = Vec::with_capacity(count);
    for part in &parts {
        write_head(&mut heads, part, shape);
        ends.push(heads.len());
    }
    let boundary = key.token(shape.subtype(), &heads);
    let (modified, last_modified) = newest(&parts);
    let media_type = shape.media_type(boundary.as_str(), parts.first());
    Representation {
        body: assemble(parts, &heads, &ends, boundary.as_str()),
        media_type,
        etag: ETag::of(&boundary),
        modified,
        last_modified,
        date_tells_versions: false,
        headers: http::HeaderMap::new(),
        parts: count,
    }
    .with_header(AXON_PARTS, HeaderValue::from(count))
}

/// The date of the part that changed last speaks for all, if HTTP can say it. Where a file is missing there is no
/// date: it may appear with an older one.
fn newest(parts: &[Part]) -> (Option<Timestamp>, Option<SystemTime>) {
    let dates = parts.iter().map(|part| (part.representation.modified, part.representation.last_modified));
    if dates.clone().any(|(modified, _)| modified.is_none()) {
        return (None, None);
    }
    dates.max_by_key(|(modified, _)| *modified).unwrap_or_default()
}

impl Shape {
    /// Every shape, the preferred one first.
    pub const ALL: [Self; 3] = [Self::Mixed, Self::FormData, Self::Related];

    /// The media type without parameters.
    pub fn essence(self) -> &'static str {
        match self {
            Self::Mixed => "multipart/mixed",
            Self::FormData => "multipart/form-data",
            Self::Related => "multipart/related",
        }
    }

    /// What follows `multipart/`; the name of the shape in a request.
    pub fn subtype(self) -> &'static str {
        self.essence().trim_start_matches("multipart/")
    }

    fn media_type(self, boundary: &str, root: Option<&Part>) -> HeaderValue {
        // RFC 2387 §3.1: the root's type, without its parameters, is a parameter of the whole.
        let root = root.filter(|_| self == Self::Related).map_or_else(String::new, |root| {
            let root = root.representation.media_type.to_str().unwrap_or_default();
            format!("; type=\"{}\"", root.split(';').next().unwrap_or_default())
        });
        let text = format!("{}; boundary={boundary}{root}", self.essence());
        HeaderValue::from_str(&text).expect("a boundary and a media type are made of header characters")
    }
}

/// Strings delimiters, heads and contents together.
fn assemble(parts: Vec<Part>, heads: &[u8], ends: &[usize], boundary: &str) -> Body {
    let mut body = Body::with_capacity(2 * parts.len() + 2); // and the answer's head
    let delimiter_len = boundary.len() + 6;
    let mut lines = BytesMut::with_capacity(heads.len() + (parts.len() + 1) * delimiter_len);
    let mut start = 0;
    for (part, &end) in parts.into_iter().zip(ends) {
        let first = start == 0;
        lines.put_slice(if first { b"--" } else { b"\r\n--" });
        lines.put_slice(boundary.as_bytes());
        lines.put_slice(b"\r\n");
        lines.put_slice(&heads[start..end]);
        start = end;
        body.push_bytes(lines.split().freeze());
        body.append(part.representation.body);
    }
    lines.put_slice(b"\r\n--");
    lines.put_slice(boundary.as_bytes());
    lines.put_slice(b"--\r\n");
    body.push_bytes(lines.freeze());
    body
}

/// Writes one part's head with the empty line after it.
fn write_head(heads: &mut BytesMut, part: &Part, shape: Shape) {
    let start = heads.len();
    let representation = &part.representation;
    let disposition = match shape {
        Shape::Mixed | Shape::Related => disposition::inline(part.filename.as_deref()),
        Shape::FormData => disposition::form_data(&part.parameter, part.filename.as_deref()),
    };
    write_line(heads, "Content-Type", representation.media_type.as_bytes());
    write_line(heads, "Content-Length", itoa::Buffer::new().format(representation.body.len()).as_bytes());
    write_line(heads, "Content-Disposition", disposition.as_bytes());
    let location = heads.len();
    heads.put_slice(b"Content-Location: ");
    percent_encode(&part.path, PATH).for_each(|piece| heads.put_slice(piece.as_bytes()));
    heads.put_slice(b"\r\n");
    let tail = heads.len();
    if let Some(time) = representation.last_modified {
        write!(heads.writer(), "Last-Modified: {}\r\n", httpdate::fmt_http_date(time))
            .expect("memory takes everything");
    }
    write_line(heads, "ETag", representation.etag.as_bytes());
    if let Some(status) = part.failed {
        write_line(heads, "Axon-Status", status.as_str().as_bytes());
    }
    heads.put_slice(b"\r\n");
    if heads.len() - start >= MAX_PART_HEAD_LEN {
        // The one field without a bound of its own is left out where it would break the bound of all.
        let tail = heads.split_off(tail);
        heads.truncate(location);
        heads.put_slice(&tail);
    }
}

fn write_line(heads: &mut BytesMut, name: &str, value: &[u8]) {
    for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
        heads.put_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::message::{Stamp, Timestamp};

    fn key() -> FingerprintKey {
        FingerprintKey::new([7; 32])
    }

    fn part(path: &str, content: &'static str) -> Part {
        let modified = Timestamp { secs: 1_700_000_000, nanos: 5 };
        let representation = Representation {
            body: Body::from(Bytes::from_static(content.as_bytes())),
            media_type: HeaderValue::from_static("text/plain; charset=utf-8"),
            etag: key().file_tag(&Stamp { size: content.len() as u64, modified, changed: None }),
            modified: Some(modified),
            last_modified: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            date_tells_versions: true,
            headers: http::HeaderMap::new(),
            parts: 1,
        };
        Part::file(Bytes::from_static(b"file1"), Bytes::copy_from_slice(path.as_bytes()), representation)
    }

    fn text(body: &Body) -> String {
        let mut text = Vec::new();
        for segment in body.segments() {
            let crate::body::Segment::Bytes(bytes) = segment else { panic!("no files here") };
            text.extend_from_slice(bytes);
        }
        assert_eq!(text.len() as u64, body.len());
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn a_bundle_on_the_wire() {
        let bundle = bundle(vec![part("a.txt", "0123456789"), part("sub/ü.txt", "")], Shape::Mixed, &key());
        let tag =
            |path, content| String::from_utf8_lossy(part(path, content).representation.etag.as_bytes()).into_owned();
        let boundary = String::from_utf8_lossy(bundle.etag.as_bytes()).replace('"', "");
        let expected = format!(
            "--{boundary}\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 10\r\n\
             Content-Disposition: inline; filename=\"a.txt\"\r\n\
             Content-Location: a.txt\r\n\
             Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
             ETag: {}\r\n\
             \r\n\
             0123456789\r\n\
             --{boundary}\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\
             Content-Length: 0\r\n\
             Content-Disposition: inline; filename=\"__.txt\"; filename*=UTF-8''%C3%BC.txt\r\n\
             Content-Location: sub/%C3%BC.txt\r\n\
             Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
             ETag: {}\r\n\
             \r\n\
             \r\n\
             --{boundary}--\r\n",
            tag("a.txt", "0123456789"),
            tag("sub/ü.txt", ""),
        );
        assert_eq!(text(&bundle.body), expected);
        assert!(boundary.len() >= 32 && boundary.bytes().all(|b| b.is_ascii_alphanumeric()), "{boundary}");
        assert_eq!(bundle.headers["axon-parts"], "2");
        assert_eq!(bundle.media_type, format!("multipart/mixed; boundary={boundary}"));
    }

    #[test]
    fn other_shapes_differ_in_their_type_and_disposition() {
        let parts = || vec![part("a.txt", "1"), part("ü.txt", "2")];
        let form = bundle(parts(), Shape::FormData, &key());
        assert!(form.media_type.to_str().is_ok_and(|t| t.starts_with("multipart/form-data; boundary=")));
        assert!(
            text(&form.body).contains("\r\nContent-Disposition: form-data; name=\"file1\"; filename=\"ü.txt\"\r\n")
        );
        let related = bundle(parts(), Shape::Related, &key());
        assert!(related.media_type.to_str().is_ok_and(|t| t.ends_with("; type=\"text/plain\"")));
        let mixed = bundle(parts(), Shape::Mixed, &key());
        assert_ne!(mixed.etag, related.etag);
        assert_ne!(mixed.etag, form.etag);
    }

    #[test]
    fn the_boundary_stands_for_the_ordered_set() {
        let tag = |parts| bundle(parts, Shape::Mixed, &key()).etag;
        let (a, b) = (part("a", "1"), part("b", "22"));
        let both = tag(vec![a.clone(), b.clone()]);
        assert_eq!(both, tag(vec![a.clone(), b.clone()]));
        assert_ne!(both, tag(vec![b.clone(), a.clone()]));
        assert_ne!(both, tag(vec![a.clone()]));
        assert_ne!(both, tag(vec![part("c", "1"), b.clone()]));
        let mut undated = b.clone();
        undated.representation.last_modified = None;
        assert_ne!(both, tag(vec![a.clone(), undated]));
        let other_key = bundle(vec![a, b], Shape::Mixed, &FingerprintKey::new([8; 32]));
        assert_ne!(both, other_key.etag);
    }

    #[test]
    fn a_problem_stands_where_its_file_would_and_cannot_be_taken_for_it() {
        let problem = Problem::new(StatusCode::NOT_FOUND, "not found");
        let missing = Part::problem(Bytes::from_static(b"file2"), Bytes::from_static(b"none.txt"), &problem, &key());
        let mixed = bundle(vec![part("a", "1"), missing.clone()], Shape::Mixed, &key());
        let mixed_text = text(&mixed.body);
        let head = format!(
            "Content-Type: application/problem+json\r\nContent-Length: {}\r\nContent-Disposition: inline\r\n\
             Content-Location: none.txt\r\nETag: ",
            problem.to_json().len()
        );
        assert!(mixed_text.contains(&head), "{mixed_text}");
        assert!(mixed_text.contains("\r\nAxon-Status: 404\r\n\r\n{\"status\":404"), "{mixed_text}");
        assert_eq!(mixed.last_modified, None);
        let form = bundle(vec![missing], Shape::FormData, &key());
        assert!(text(&form.body).contains("Content-Disposition: form-data; name=\"file2\"\r\n"));
        // Another reason is another bundle.
        let problem = Problem::new(StatusCode::FORBIDDEN, "not found");
        let other = Part::problem(Bytes::from_static(b"file2"), Bytes::from_static(b"none.txt"), &problem, &key());
        assert_ne!(bundle(vec![part("a", "1"), other], Shape::Mixed, &key()).etag, mixed.etag);
    }

    #[test]
    fn no_head_is_longer_than_readers_look() {
        for name in ["x".repeat(255), "日".repeat(85), "\"".repeat(255), "\u{1}".repeat(255)] {
            for depth in [0, 1, 3, 15] {
                let path = format!("{}{name}", "d/".repeat(depth * 100));
                for shape in [Shape::Mixed, Shape::FormData] {
                    let mut heads = BytesMut::new();
                    let mut part = part(&path, "x");
                    part.parameter = Bytes::from("\"".repeat(100));
                    write_head(&mut heads, &part, shape);
                    assert!(heads.len() <= MAX_PART_HEAD_LEN, "{} for {path}", heads.len());
                }
            }
        }
    }

    #[test]
    fn the_newest_part_dates_the_bundle() {
        let mut future = part("b", "2");
        future.representation.modified = Some(Timestamp { secs: 4_000_000_000, nanos: 0 });
        future.representation.last_modified = None;
        let dated = bundle(vec![part("a", "1"), part("b", "2")], Shape::Mixed, &key());
        assert!(dated.last_modified.is_some());
        assert_eq!(bundle(vec![part("a", "1"), future], Shape::Mixed, &key()).last_modified, None);
    }
}
