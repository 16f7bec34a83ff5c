//! What to answer a request for a representation: preconditions, then ranges, in the order of RFC 9110 §13.2.2.
//!
//! A function of the request's fields and of what the representation says about itself: the same for a file, a
//! bundle and whatever else is one. No I/O.

use std::{ops::Range, time::SystemTime};

use http::{HeaderMap, Method, header};

use crate::message::{ETag, range};

/// What a representation says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Its length in bytes.
    pub len: u64,
    /// Its strong validator.
    pub etag: &'a ETag,
    /// Its date, in whole seconds; None where there is none, or where it cannot tell two versions apart.
    pub last_modified: Option<SystemTime>,
}

/// What to answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// 200 with everything.
    Full,
    /// 304: the client has it already.
    NotModified,
    /// 412: the client wanted another version.
    PreconditionFailed,
    /// 206 with one range; not empty, within the length.
    Range(Range<u64>),
    /// 206 with several ranges as multipart/byteranges; none of them empty, none touching another.
    Ranges(Vec<Range<u64>>),
    /// 416: no range lies within the length.
    Unsatisfiable,
}

/// Decides. Only GET and HEAD select a representation: for any other method it is [`Decision::Full`].
pub fn decide(method: &Method, headers: &HeaderMap, validators: &Validators<'_>) -> Decision {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Decision::Full;
    }
    let field = |name| headers.get(name).map(http::HeaderValue::as_bytes);
    // A date that cannot be read, or that there is nothing to compare with, is ignored.
    let date = |name| Some((validators.last_modified?, parse_date(field(name)?)?));
    if let Some(tags) = field(header::IF_MATCH) {
        if !names_tag(tags, validators.etag, Comparison::Strong) {
            return Decision::PreconditionFailed;
        }
    } else if date(header::IF_UNMODIFIED_SINCE).is_some_and(|(ours, theirs)| ours > theirs) {
        return Decision::PreconditionFailed;
    }
    if let Some(tags) = field(header::IF_NONE_MATCH) {
        if names_tag(tags, validators.etag, Comparison::Weak) {
            return Decision::NotModified;
        }
    } else if date(header::IF_MODIFIED_SINCE).is_some_and(|(ours, theirs)| ours <= theirs) {
        return Decision::NotModified;
    }
    match field(header::RANGE) {
        // Range is defined for GET alone (§14.2).
        Some(value) if *method == Method::GET && if_range_holds(field(header::IF_RANGE), validators.etag) => {
            range::select(value, validators.len)
        }
        _ => Decision::Full,
    }
}

/// Whether a range may be answered: no If-Range, or one that is exactly our strong tag (§13.1.5).
///
/// A date never is: it would have to be known that the file did not change twice within its second (§8.8.2.2), or two
/// versions would be glued together. Then the answer is the whole.
fn if_range_holds(if_range: Option<&[u8]>, etag: &ETag) -> bool {
    if_range.is_none_or(|value| value == etag.as_bytes())
}

fn parse_date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()
}

/// How two tags are compared (§8.8.3.2). Ours are strong.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Comparison {
    /// A weak tag equals nothing.
    Strong,
    /// The mark of a weak tag does not count: a proxy that compresses marks ours as weak.
    Weak,
}

/// Whether a list of entity tags, or `*`, names this one.
fn names_tag(list: &[u8], etag: &ETag, comparison: Comparison) -> bool {
    if list.trim_ascii() == b"*" {
        return true;
    }
    let mut left = list;
    loop {
        while let [b',' | b' ' | b'\t', rest @ ..] = left {
            left = rest;
        }
        let weak = left.starts_with(b"W/");
        let quoted = if weak { &left[2..] } else { left };
        // A comma may stand within the quotes. What is no tag ends the list.
        let Some(inner) = quoted.strip_prefix(b"\"") else { return false };
        let Some(end) = inner.iter().position(|&b| b == b'"') else { return false };
        if &quoted[..end + 2] == etag.as_bytes() && !(weak && comparison == Comparison::Strong) {
            return true;
        }
        left = &inner[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::message::FingerprintKey;

    const LAST_MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const BEFORE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
    const AFTER: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

    fn tag() -> ETag {
        ETag::of(&FingerprintKey::new([1; 32]).token("test", b""))
    }

    /// Decides for a representation whose tag stands for TAG in the fields, and without quotes for BARE.
    fn decided(method: &Method, fields: &[(&str, &str)]) -> Decision {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            let etag = tag();
            let etag = std::str::from_utf8(etag.as_bytes()).expect("text");
            let value = value.replace("TAG", etag).replace("BARE", etag.trim_matches('"'));
            headers.insert(name, value.parse().expect("a value"));
        }
        let etag = tag();
        let last_modified = Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        decide(method, &headers, &Validators { len: 10, etag: &etag, last_modified })
    }

    fn get(fields: &[(&str, &str)]) -> Decision {
        decided(&Method::GET, fields)
    }

    #[test]
    fn tags_decide_before_dates() {
        let tag = "TAG";
        for (fields, expected) in [
            (&[("if-none-match", tag)][..], Decision::NotModified),
            (&[("if-none-match", "W/TAG")], Decision::NotModified),
            (&[("if-none-match", "\"q,r\", TAG")], Decision::NotModified),
            (&[("if-none-match", " , W/\"q,\",TAG ,")], Decision::NotModified),
            (&[("if-none-match", "*")], Decision::NotModified),
            (&[("if-none-match", "\"q\""), ("if-modified-since", LAST_MODIFIED)], Decision::Full),
            (&[("if-none-match", "BARE")], Decision::Full),
            (&[("if-none-match", "\"BARE,q\"")], Decision::Full),
            (&[("if-none-match", "\"BARE")], Decision::Full),
            (&[("if-none-match", "")], Decision::Full),
            (&[("if-modified-since", LAST_MODIFIED)], Decision::NotModified),
            (&[("if-modified-since", AFTER)], Decision::NotModified),
            (&[("if-modified-since", BEFORE)], Decision::Full),
            (&[("if-modified-since", "junk")], Decision::Full),
            (&[("if-modified-since", "Tuesday, 14-Nov-23 22:13:20 GMT")], Decision::NotModified),
            (&[("if-match", tag)], Decision::Full),
            (&[("if-match", "*")], Decision::Full),
            (&[("if-match", "\"q\"")], Decision::PreconditionFailed),
            (&[("if-match", "W/TAG")], Decision::PreconditionFailed),
            (&[("if-match", tag), ("if-unmodified-since", BEFORE)], Decision::Full),
            (&[("if-match", "\"q\""), ("if-none-match", tag)], Decision::PreconditionFailed),
            (&[("if-unmodified-since", BEFORE)], Decision::PreconditionFailed),
            (&[("if-unmodified-since", LAST_MODIFIED)], Decision::Full),
            (&[("if-unmodified-since", "junk")], Decision::Full),
            (&[("if-none-match", tag), ("range", "bytes=0-1")], Decision::NotModified),
            (&[("if-none-match", "\"q\""), ("range", "bytes=0-1")], Decision::Range(0..2)),
        ] {
            assert_eq!(get(fields), expected, "{fields:?}");
            let of_head = if expected == Decision::Range(0..2) { Decision::Full } else { expected };
            assert_eq!(decided(&Method::HEAD, fields), of_head, "HEAD {fields:?}");
            assert_eq!(decided(&Method::POST, fields), Decision::Full, "POST {fields:?}");
        }
    }

    #[test]
    fn if_range_must_name_exactly_what_there_is() {
        for (value, holds) in [
            ("TAG", true),
            ("W/TAG", false),
            ("\"q\"", false),
            ("*", false),
            ("TAG, \"q\"", false),
            (LAST_MODIFIED, false),
            (BEFORE, false),
            (AFTER, false),
            ("junk", false),
            ("", false),
        ] {
            let expected = if holds { Decision::Range(2..5) } else { Decision::Full };
            assert_eq!(get(&[("range", "bytes=2-4"), ("if-range", value)]), expected, "{value}");
        }
        assert_eq!(get(&[("range", "bytes=10-"), ("if-range", "\"q\"")]), Decision::Full);
        assert_eq!(get(&[("if-range", "TAG")]), Decision::Full);
    }

    #[test]
    fn without_a_date_dates_are_ignored() {
        let etag = tag();
        let mut headers = HeaderMap::new();
        for name in [header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE] {
            headers.insert(name, BEFORE.parse().expect("a value"));
        }
        let validators = Validators { len: 10, etag: &etag, last_modified: None };
        assert_eq!(decide(&Method::GET, &headers, &validators), Decision::Full);
    }
}
