//! The head of a part, as it was received.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use percent_encoding::percent_decode;
use thiserror::Error;

use crate::bundle::{
    multipart::AXON_STATUS,
    parameters::{self, Quoting},
};

/// The most fields of a head. Axon's own have seven; others add a handful, and each costs memory before anybody has
/// looked at it.
pub const MAX_PART_FIELDS: usize = 32;

/// What may not be there twice: two readers would take two different ones.
const SINGLE: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    AXON_STATUS,
];

/// The head of a part.
#[derive(Clone, Debug)]
pub struct PartHead {
    fields: HeaderMap,
    content_length: Option<u64>,
    failed: Option<StatusCode>,
}

/// What Content-Disposition says (RFC 6266, RFC 7578).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Disposition {
    /// `inline`, `attachment` or `form-data`, in lower case.
    pub kind: String,
    /// The field's name, in form-data.
    pub name: Option<Vec<u8>>,
    /// The name to save the part under; bytes. Nothing about it is checked.
    pub filename: Option<Vec<u8>>,
}

/// What is wrong with a head.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum PartHeadError {
    /// A field that is there once in every head is there again.
    #[error("{0} came twice in a part's head")]
    Repeated(&'static str),
    /// A line is no header field.
    #[error("a part's head has a line that is no header field ({0})")]
    Syntax(httparse::Error),
    /// More than [`MAX_PART_FIELDS`].
    #[error("a part's head has more than {MAX_PART_FIELDS} fields")]
    TooManyFields,
    /// A field that must be a number is none.
    #[error("{0} in a part's head is not a number")]
    NoNumber(&'static str),
}

impl PartHead {
    /// Reads a head with the empty line that ends it.
    pub(super) fn parse(block: &[u8]) -> Result<Self, PartHeadError> {
        let mut slots = [httparse::EMPTY_HEADER; MAX_PART_FIELDS];
        let parsed = match httparse::parse_headers(block, &mut slots) {
            Ok(httparse::Status::Complete((_, parsed))) => parsed,
            // The empty line is there, so something in front of it is not what it should be.
            Ok(httparse::Status::Partial) => return Err(PartHeadError::Syntax(httparse::Error::NewLine)),
            Err(httparse::Error::TooManyHeaders) => return Err(PartHeadError::TooManyFields),
            Err(error) => return Err(PartHeadError::Syntax(error)),
        };
        let mut fields = HeaderMap::with_capacity(parsed.len());
        for field in parsed {
            let name = HeaderName::from_bytes(field.name.as_bytes());
            let name = name.map_err(|_| PartHeadError::Syntax(httparse::Error::HeaderName))?;
            let value = HeaderValue::from_bytes(field.value);
            fields.append(name, value.map_err(|_| PartHeadError::Syntax(httparse::Error::HeaderValue))?);
        }
        for name in &SINGLE {
            if fields.get_all(name).iter().nth(1).is_some() {
                return Err(PartHeadError::Repeated(title(name)));
            }
        }
        let number = |name| fields.get(name).map(|value| decimal(value).ok_or(PartHeadError::NoNumber(title(name))));
        let content_length = number(&header::CONTENT_LENGTH).transpose()?;
        let failed = number(&AXON_STATUS).transpose()?.map(|status| {
            let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
            status.ok_or(PartHeadError::NoNumber(title(&AXON_STATUS)))
        });
        Ok(Self { content_length, failed: failed.transpose()?, fields })
    }

    /// All fields, as they came.
    pub fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    /// How long the content is, in bytes. None where only the next delimiter tells.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// The media type, as it came.
    pub fn content_type(&self) -> Option<&[u8]> {
        self.fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes)
    }

    /// Content-Disposition. None where it is missing or cannot be read.
    ///
    /// Of two file names `filename*` counts if it is UTF-8, but not in form-data, where RFC 7578 §4.2 forbids it.
    /// There `%22`, `%0D` and `%0A` stand for what could not be in quotes.
    pub fn disposition(&self) -> Option<Disposition> {
        let text = self.fields.get(header::CONTENT_DISPOSITION)?.as_bytes();
        let is_form = text.get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case(b"form-data"));
        let (kind, found) = parameters::read(text, if is_form { Quoting::Plain } else { Quoting::Backslash })?;
        let kind = String::from_utf8(kind).ok()?;
        let single = |name: &[u8]| parameters::single(&found, name);
        let (name, filename) = if is_form {
            (single(b"name").map(unescape_form), single(b"filename").map(unescape_form))
        } else {
            let extended = single(b"filename*").and_then(decode_extended);
            (single(b"name").map(<[u8]>::to_vec), extended.or_else(|| single(b"filename").map(<[u8]>::to_vec)))
        };
        Some(Disposition { kind, name, filename })
    }

    /// Content-Location, percent-decoded: bytes, about which nothing is checked.
    ///
    /// Axon writes the path that was asked for, with everything encoded that is not a letter, a digit or one of
    /// `-._~/`. None where the field is missing or is more than such a path: a URL, a query, a fragment.
    pub fn path(&self) -> Option<Vec<u8>> {
        let location = self.fields.get(header::CONTENT_LOCATION)?.as_bytes();
        let is_path = !location.iter().any(|b| matches!(b, b':' | b'?' | b'#'));
        is_path.then(|| percent_decode(location).collect())
    }

    /// Last-Modified. None where it is missing or no HTTP date.
    pub fn last_modified(&self) -> Option<SystemTime> {
        let text = self.fields.get(header::LAST_MODIFIED)?.to_str().ok()?;
        httpdate::parse_http_date(text).ok()
    }

    /// The entity tag, as it came.
    pub fn etag(&self) -> Option<&[u8]> {
        self.fields.get(header::ETAG).map(HeaderValue::as_bytes)
    }

    /// The status of a part that stands in for a file that could not be served; its content is a problem, not the file.
    pub fn failed(&self) -> Option<StatusCode> {
        self.failed
    }
}

/// Digits and nothing else: no sign, no list.
fn decimal(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes();
    digits.iter().all(u8::is_ascii_digit).then(|| value.to_str().ok()?.parse().ok())?
}

/// The name as it is usually written.
fn title(name: &HeaderName) -> &'static str {
    match *name {
        header::CONTENT_TYPE => "Content-Type",
        header::CONTENT_LENGTH => "Content-Length",
        header::CONTENT_DISPOSITION => "Content-Disposition",
        header::CONTENT_LOCATION => "Content-Location",
        header::CONTENT_RANGE => "Content-Range",
        _ => "Axon-Status",
    }
}

/// Undoes what browsers and Axon write for a quote and line breaks; any other percent sign is one.
fn unescape_form(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut left = text;
    while let [first, rest @ ..] = left {
        let (byte, rest) = match left {
            [b'%', b'2', b'2', rest @ ..] => (b'"', rest),
            [b'%', b'0', b'D' | b'd', rest @ ..] => (b'\r', rest),
            [b'%', b'0', b'A' | b'a', rest @ ..] => (b'\n', rest),
            _ => (*first, rest),
        };
        plain.push(byte);
        left = rest;
    }
    plain
}

/// An extended value of RFC 8187, `UTF-8''…`. None where it is something else.
fn decode_extended(text: &[u8]) -> Option<Vec<u8>> {
    let mut pieces = text.splitn(3, |&b| b == b'\'');
    let (charset, _language, encoded) = (pieces.next()?, pieces.next()?, pieces.next()?);
    let decoded: Vec<u8> = percent_decode(encoded).collect();
    (charset.eq_ignore_ascii_case(b"utf-8") && std::str::from_utf8(&decoded).is_ok()).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::disposition;

    fn head(lines: &str) -> Result<PartHead, PartHeadError> {
        PartHead::parse(format!("{lines}\r\n").as_bytes())
    }

    fn filename(disposition: &str) -> Option<String> {
        let head = head(&format!("Content-Disposition: {disposition}\r\n")).expect("a head");
        head.disposition()?.filename.map(|name| name.escape_ascii().to_string())
    }

    #[test]
    fn what_axon_writes_is_read_back() {
        let head = head(
            "Content-Type: image/png\r\nContent-Length: 18446744073709551615\r\nContent-Disposition: inline; \
             filename=\"0.png\"\r\nContent-Location: tiles/%C3%BC%250.png\r\nLast-Modified: Tue, 14 Nov 2023 22:13:20 GMT\
             \r\nETag: \"x\"\r\n",
        );
        let head = head.expect("a head");
        assert_eq!(head.content_type(), Some(&b"image/png"[..]));
        assert_eq!(head.content_length(), Some(u64::MAX));
        assert_eq!(head.path().as_deref(), Some("tiles/ü%0.png".as_bytes()));
        assert_eq!(head.etag(), Some(&b"\"x\""[..]));
        assert_eq!(head.last_modified(), Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000)));
        assert_eq!(head.failed(), None);
        let disposition = head.disposition().expect("a disposition");
        assert_eq!((disposition.kind.as_str(), disposition.filename), ("inline", Some(b"0.png".to_vec())));
    }

    #[test]
    fn names_come_back_as_they_were() {
        for name in ["a b;c=%d.txt", "q\"uo\\te.txt", "x\r\nX-Injected: 1", "ü日.txt", "t\tb\x7f"] {
            let mixed = disposition::inline(Some(name.as_bytes()));
            assert_eq!(filename(&mixed), Some(name.as_bytes().escape_ascii().to_string()), "{mixed}");
        }
        for (name, read) in [("a b;c=%d.txt", "a b;c=%d.txt"), ("q\"\r\n\\.txt", "q\"\r\n\\.txt"), ("ü.txt", "ü.txt")]
        {
            let form = disposition::form_data(b"file\"1", Some(name.as_bytes()));
            let head = head(&format!("Content-Disposition: {form}\r\n")).expect("a head");
            let found = head.disposition().expect("a disposition");
            assert_eq!(found.filename.as_deref(), Some(read.as_bytes()), "{form}");
            assert_eq!((found.kind.as_str(), found.name.as_deref()), ("form-data", Some(&b"file\"1"[..])));
        }
    }

    #[test]
    fn the_extended_name_counts_where_it_may() {
        assert_eq!(filename("inline; filename=\"a\"; filename*=UTF-8'de'%62"), Some("b".into()));
        assert_eq!(filename("inline; filename*=utf-8''%62; filename=a"), Some("b".into()));
        for broken in ["iso-8859-1''%62", "UTF-8''%ff", "UTF-8'b", "b"] {
            assert_eq!(filename(&format!("inline; filename=a; filename*={broken}")), Some("a".into()), "{broken}");
        }
        assert_eq!(filename("form-data; name=x; filename=a; filename*=UTF-8''%62"), Some("a".into()));
        for none in ["inline", "inline; filename=\"a", "inline; filename=a; filename=b"] {
            assert_eq!(filename(none), None, "{none}");
        }
    }

    #[test]
    fn a_location_is_a_path_or_nothing() {
        let path = |value: &str| head(&format!("Content-Location: {value}\r\n")).expect("a head").path();
        assert_eq!(path("../%2e%2E/%00").as_deref(), Some(&b"../../\0"[..]));
        assert_eq!(path("/abs").as_deref(), Some(&b"/abs"[..]));
        assert_eq!(path("a%3Ab%3F%23").as_deref(), Some(&b"a:b?#"[..]));
        for other in ["http://h/a", "/a?b=c", "a#b"] {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    fn heads_that_two_readers_would_read_differently_are_refused() {
        for (lines, error) in [
            ("Content-Length: 1\r\nContent-Length: 1\r\n", PartHeadError::Repeated("Content-Length")),
            ("content-location: a\r\nContent-Location: b\r\n", PartHeadError::Repeated("Content-Location")),
            ("Axon-Status: 404\r\nAxon-Status: 404\r\n", PartHeadError::Repeated("Axon-Status")),
            ("Content-Length: +1\r\n", PartHeadError::NoNumber("Content-Length")),
            ("Content-Length: 1, 1\r\n", PartHeadError::NoNumber("Content-Length")),
            ("Content-Length: \r\n", PartHeadError::NoNumber("Content-Length")),
            ("Content-Length: 18446744073709551616\r\n", PartHeadError::NoNumber("Content-Length")),
            ("Axon-Status: 0\r\n", PartHeadError::NoNumber("Axon-Status")),
            ("Axon-Status: 70000\r\n", PartHeadError::NoNumber("Axon-Status")),
            ("no colon\r\n", PartHeadError::Syntax(httparse::Error::HeaderName)),
            ("a: b\r\n folded\r\n", PartHeadError::Syntax(httparse::Error::HeaderName)),
            ("a : b\r\n", PartHeadError::Syntax(httparse::Error::HeaderName)),
            ("a: b\0\r\n", PartHeadError::Syntax(httparse::Error::HeaderValue)),
        ] {
            assert_eq!(head(lines).expect_err(lines), error, "{lines}");
        }
        assert!(head("").is_ok(), "RFC 2046 lets a part have no fields");
    }

    #[test]
    fn so_many_fields_and_no_more() {
        assert!(head(&"x: y\r\n".repeat(MAX_PART_FIELDS)).is_ok());
        assert_eq!(head(&"x: y\r\n".repeat(MAX_PART_FIELDS + 1)).expect_err("too many"), PartHeadError::TooManyFields);
    }
}
