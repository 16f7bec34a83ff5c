//! A bundle as one multipart body (RFC 2046 §5.1), planned before its first byte.
//!
//! ```text
//! --boundary CRLF head CRLF CRLF content [CRLF --boundary CRLF head CRLF CRLF content]... CRLF --boundary-- CRLF
//! ```
//!
//! The boundary is a keyed hash of the shape and of all part heads; the heads hold names, sizes and entity
//! tags. So unchanged files give the same bytes, the boundary serves as the bundle's own entity tag, and
//! nobody without the key can write a file that contains it.

use std::io::Write as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::{
    body::Body,
    bundle::disposition,
    message::{ETag, FingerprintKey, Representation},
};

/// The longest head of a part in bytes, without the delimiter: some readers look no further than 1,000.
pub const MAX_PART_HEAD_LEN: usize = 1000;

/// How many files a bundle has.
const AXON_PARTS: HeaderName = HeaderName::from_static("axon-parts");

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
    /// The name to save it under, without directories; bytes.
    pub filename: Bytes,
    /// The content.
    pub representation: Representation,
}

impl Part {
    /// A part that is saved under the last component of its path.
    pub fn new(parameter: Bytes, path: Bytes, representation: Representation) -> Self {
        let start = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
        Self { parameter, filename: path.slice(start..), path, representation }
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
    // The part that changed last speaks for all, if HTTP can say its time.
    let newest = parts.iter().map(|part| &part.representation).max_by_key(|r| r.modified);
    let (modified, last_modified) = newest.map_or((None, None), |r| (r.modified, r.last_modified));
    let media_type = shape.media_type(&boundary, parts.first());
    Representation {
        body: assemble(parts, &heads, &ends, &boundary),
        media_type,
        etag: ETag::from_token(&boundary),
        modified,
        last_modified,
        headers: http::HeaderMap::new(),
        parts: count,
    }
    .with_header(AXON_PARTS, HeaderValue::from(count))
}

impl Shape {
    fn subtype(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::FormData => "form-data",
            Self::Related => "related",
        }
    }

    fn media_type(self, boundary: &str, root: Option<&Part>) -> HeaderValue {
        // RFC 2387 §3.1: the root's type, without its parameters, is a parameter of the whole.
        let root = root.filter(|_| self == Self::Related).map_or_else(String::new, |root| {
            let root = root.representation.media_type.to_str().unwrap_or_default();
            format!("; type=\"{}\"", root.split(';').next().unwrap_or_default())
        });
        let text = format!("multipart/{}; boundary={boundary}{root}", self.subtype());
        HeaderValue::from_str(&text).expect("a boundary and a media type are made of header characters")
    }
}

/// Strings delimiters, heads and contents together.
fn assemble(parts: Vec<Part>, heads: &[u8], ends: &[usize], boundary: &str) -> Body {
    let mut body = Body::with_capacity(2 * parts.len() + 1);
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
        Shape::Mixed | Shape::Related => disposition::attachment_name(&part.filename),
        Shape::FormData => disposition::form_data(&part.parameter, &part.filename),
    };
    let mut line = |name: &str, value: &[u8]| {
        for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
            heads.put_slice(piece);
        }
    };
    line("Content-Type", representation.media_type.as_bytes());
    line("Content-Length", representation.body.len().to_string().as_bytes());
    line("Content-Disposition", disposition.as_bytes());
    let mut tail = Vec::with_capacity(96);
    if let Some(time) = representation.last_modified {
        write!(tail, "Last-Modified: {}\r\n", httpdate::fmt_http_date(time)).expect("memory takes everything");
    }
    for piece in [b"ETag: ", representation.etag.as_bytes(), b"\r\n\r\n"] {
        tail.extend_from_slice(piece);
    }
    // The one field without a bound of its own is left out where it would break the bound of all.
    let location_len: usize = percent_encode(&part.path, PATH).map(str::len).sum();
    let room = MAX_PART_HEAD_LEN.saturating_sub(heads.len() - start + tail.len() + "Content-Location: \r\n".len());
    if location_len < room {
        heads.put_slice(b"Content-Location: ");
        percent_encode(&part.path, PATH).for_each(|piece| heads.put_slice(piece.as_bytes()));
        heads.put_slice(b"\r\n");
    }
    heads.put_slice(&tail);
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
            headers: http::HeaderMap::new(),
            parts: 1,
        };
        Part::new(Bytes::from_static(b"file1"), Bytes::copy_from_slice(path.as_bytes()), representation)
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
