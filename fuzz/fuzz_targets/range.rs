//! A Range field and a length to the bytes of a 206: those that were asked for, once, and as many as are announced.

#![no_main]

#[path = "../../benches/fixtures/unread.rs"]
mod unread;

use std::{ops::Range, sync::Arc};

use arbitrary::Arbitrary;
use axon::{
    body::{Body, Segment},
    message::{Decision, MAX_RANGES, Request, Response, Validators, decide},
};
use axon_fuzz::answer;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use libfuzzer_sys::fuzz_target;

use unread::Unread;

/// The longest content in memory.
const MAX_CONTENT_LEN: u64 = 2000;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// Of the representation.
    len: u64,
    field: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let Ok(field) = HeaderValue::from_bytes(input.field) else { return };
    // No file is longer than the kernel can say.
    let file_len = input.len & i64::MAX.cast_unsigned();
    for len in [input.len, file_len, input.len % (MAX_CONTENT_LEN + 1)] {
        is_what_was_asked_for(&decided(&field, len), &field, len);
    }
    has_the_right_bytes(&field, input.len % (MAX_CONTENT_LEN + 1));
    has_the_right_places(&field, file_len);
});

fn request(field: &HeaderValue) -> Request {
    let mut request = Request::new(Method::GET, "/", "");
    request.headers = HeaderMap::from_iter([(header::RANGE, field.clone())]);
    request
}

fn decided(field: &HeaderValue, len: u64) -> Decision {
    decide(&Method::GET, &request(field).headers, &Validators { len, etag: answer::etag(), last_modified: None })
}

fn ranges(decision: Decision) -> Vec<Range<u64>> {
    match decision {
        Decision::Range(range) => vec![range],
        Decision::Ranges(ranges) => ranges,
        _ => Vec::new(),
    }
}

fn is_what_was_asked_for(decision: &Decision, field: &HeaderValue, len: u64) {
    let found = ranges(decision.clone());
    let mut sorted = found.clone();
    sorted.sort_by_key(|range| range.start);
    assert!(found.iter().all(|range| range.start < range.end && range.end <= len), "{found:?} of {len}");
    assert!(sorted.windows(2).all(|pair| pair[0].end < pair[1].start), "{found:?} overlap or touch");
    match decision {
        Decision::Ranges(ranges) => assert!((2..=MAX_RANGES).contains(&ranges.len())),
        Decision::Range(_) | Decision::Full | Decision::Unsatisfiable => {}
        Decision::NotModified | Decision::PreconditionFailed => panic!("there was no condition"),
    }
    match second_reading(field.as_bytes(), len) {
        Reading::NoSet => assert_eq!(*decision, Decision::Full),
        Reading::Unknown => {}
        Reading::Set(_) if len == 0 => assert_eq!(*decision, Decision::Full),
        Reading::Set(asked) if asked.is_empty() => assert_eq!(*decision, Decision::Unsatisfiable),
        Reading::Set(asked) => {
            let united = united(asked.clone());
            if united.len() > MAX_RANGES {
                assert_eq!(*decision, Decision::Full);
                return;
            }
            assert_eq!(sorted, united);
            // In the order in which they were asked for.
            let first_asked = |range: &Range<u64>| asked.iter().position(|a| range.contains(&a.start));
            assert!(found.is_sorted_by_key(first_asked), "{found:?} for {asked:?}");
        }
    }
}

/// What a field asks for.
enum Reading {
    /// Everything.
    NoSet,
    /// These, in its order; no empty ones.
    Set(Vec<Range<u64>>),
    /// Numbers that are too large for a plain reading.
    Unknown,
}

/// A plain second reading.
fn second_reading(field: &[u8], len: u64) -> Reading {
    let Ok(text) = std::str::from_utf8(field) else { return Reading::NoSet };
    let Some((unit, set)) = text.split_once('=') else { return Reading::NoSet };
    let elements: Vec<&str> =
        set.split(',').map(|element| element.trim_matches([' ', '\t'])).filter(|element| !element.is_empty()).collect();
    if !unit.eq_ignore_ascii_case("bytes") || elements.is_empty() {
        return Reading::NoSet;
    }
    let len = u128::from(len);
    let mut ranges = Vec::new();
    for element in elements {
        if element.bytes().any(|b| !b.is_ascii_digit() && b != b'-') {
            return Reading::NoSet;
        }
        let Some((first, last)) = element.split_once('-').filter(|(_, last)| !last.contains('-')) else {
            return Reading::NoSet;
        };
        if first.len() > 38 || last.len() > 38 {
            return Reading::Unknown;
        }
        let (start, end) = match (first.parse::<u128>(), last.parse::<u128>()) {
            (Ok(first), Ok(last)) if first <= last => (first, len.min(last + 1)),
            (Ok(first), Err(_)) => (first, len),
            (Err(_), Ok(count)) => (len.saturating_sub(count), len),
            _ => return Reading::NoSet,
        };
        if start < end {
            let bound = |at| u64::try_from(at).expect("within the length");
            ranges.push(bound(start)..bound(end));
        }
    }
    Reading::Set(ranges)
}

/// The same bytes as ranges that do not touch, from the first to the last.
fn united(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut united: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}

fn has_the_right_bytes(field: &HeaderValue, len: u64) {
    let content = answer::content(usize::try_from(len).expect("it fits in memory"));
    let response = answer::representation(&content, None).respond(&request(field));
    answer::check_head(&response);
    assert_eq!(response.content_length, Some(response.body.len()), "the announced length is wrong");
    let body = answer::bytes(&response.body);
    let slice = |range: &Range<u64>| {
        let at = |at| usize::try_from(at).expect("it fits in memory");
        &content[at(range.start)..at(range.end)]
    };
    let content_range = response.headers.get(header::CONTENT_RANGE).map(HeaderValue::as_bytes);
    let decision = decided(field, len);
    let status = match &decision {
        Decision::Full => {
            assert_eq!((&body[..], content_range), (&content[..], None));
            StatusCode::OK
        }
        Decision::Range(range) => {
            let text = format!("bytes {}-{}/{len}", range.start, range.end - 1);
            assert_eq!((&body[..], content_range), (slice(range), Some(text.as_bytes())));
            StatusCode::PARTIAL_CONTENT
        }
        Decision::Ranges(ranges) => {
            let parts = byteranges(&response, &body, len);
            assert_eq!(parts.iter().map(|(range, _)| range.clone()).collect::<Vec<_>>(), *ranges);
            assert!(parts.iter().all(|(range, data)| *data == slice(range)));
            assert!(parts.iter().map(|(_, data)| data.len() as u64).sum::<u64>() <= len, "more than there is");
            assert_eq!(content_range, None);
            StatusCode::PARTIAL_CONTENT
        }
        Decision::Unsatisfiable => {
            assert_eq!(content_range, Some(format!("bytes */{len}").as_bytes()));
            StatusCode::RANGE_NOT_SATISFIABLE
        }
        Decision::NotModified | Decision::PreconditionFailed => panic!("there was no condition"),
    };
    assert_eq!(response.status, status);
}

/// Reads a multipart/byteranges body, to its last byte.
fn byteranges<'a>(response: &Response, body: &'a [u8], len: u64) -> Vec<(Range<u64>, &'a [u8])> {
    let media_type = response.headers[header::CONTENT_TYPE].to_str().expect("text");
    let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").expect("several ranges");
    let delimiter = format!("--{boundary}");
    let mut left = body.strip_prefix(delimiter.as_bytes()).expect("a first delimiter");
    let mut parts = Vec::new();
    while let Some(part) = left.strip_prefix(b"\r\n") {
        let end = part.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&part[..end]).expect("text");
        let field = head.lines().find_map(|line| line.strip_prefix("Content-Range: bytes ")).expect("a range");
        let (range, of) = field.split_once('/').expect("a length");
        assert_eq!(of.parse(), Ok(len));
        let (first, last) = range.split_once('-').expect("two ends");
        let range = first.parse().expect("a number")..last.parse::<u64>().expect("a number") + 1;
        let (data, behind) =
            part[end + 4..].split_at(usize::try_from(range.end - range.start).expect("it fits in memory"));
        parts.push((range, data));
        left = behind.strip_prefix(format!("\r\n{delimiter}").as_bytes()).expect("a delimiter");
    }
    assert_eq!(left, b"--\r\n", "the end is no end");
    parts
}

fn has_the_right_places(field: &HeaderValue, len: u64) {
    /// What stands before the file, as the head of a part does.
    const HEAD: &[u8] = &[b'x'; 100];
    const BEFORE: u64 = HEAD.len() as u64;
    /// What several ranges have around them, which may make an answer longer than one can be: then it is all of it.
    const MAX_HEADS_LEN: u64 = 256 * (MAX_RANGES as u64 + 1);

    // With it the body is as long as the kernel could say.
    let file_len = len.saturating_sub(BEFORE);
    let mut body = Body::from(Bytes::from_static(HEAD));
    body.push_file(Arc::new(Unread), file_len);
    let len = body.len();
    let response = answer::represent(body, None).respond(&request(field));
    let mut found = ranges(decided(field, len));
    if found.is_empty() {
        return;
    }
    if response.status == StatusCode::OK {
        let asked: u64 = found.iter().map(|range| range.end - range.start).sum();
        assert!(found.len() > 1 && asked > Body::MAX_LEN - MAX_HEADS_LEN, "{found:?} fit into an answer");
        found.clear();
        found.push(0..len);
    }
    let of_file = |range: &Range<u64>| range.start.saturating_sub(BEFORE)..range.end.saturating_sub(BEFORE);
    let expected: Vec<_> = found.iter().map(of_file).filter(|range| !range.is_empty()).collect();
    let mut places = Vec::new();
    let mut announced = 0;
    for segment in response.body.segments() {
        match segment {
            Segment::Bytes(bytes) => announced += bytes.len() as u64,
            Segment::File(file) => {
                announced += file.len;
                places.push(file.offset..file.offset + file.len);
            }
        }
    }
    assert_eq!(places, expected);
    assert_eq!(response.content_length, Some(announced), "the lengths do not add up");
}
