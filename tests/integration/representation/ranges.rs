//! Slices of files and bundles are slices of the whole body.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axon::{
    body::{Content, ContentError},
    bundle::{Part, Shape, bundle},
    message::{ETag, Representation},
    transport::{Activity, StreamSocket, TransportOptions, send},
};
use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;

use super::*;
use crate::harness::read_multipart;

/// Some of the files, in any order, several times or not.
fn query() -> impl Strategy<Value = String> {
    proptest::collection::vec(0..8_usize, 1..7)
        .prop_map(|files| files.iter().map(|file| format!("file=f{file}")).collect::<Vec<_>>().join("&"))
}

/// Where a part of several ranges says it belongs.
fn content_range(text: &str) -> (usize, usize, usize) {
    let (range, len) = text.strip_prefix("bytes ").and_then(|text| text.split_once('/')).expect("a content range");
    let (first, last) = range.split_once('-').expect("a range");
    let number = |text: &str| text.parse::<usize>().expect("a number");
    (number(first), number(last) + 1, number(len))
}

/// Takes a body of several ranges apart: where each belongs and what it holds.
fn byteranges(response: &Response) -> Vec<((usize, usize, usize), Vec<u8>)> {
    let body = bytes(&response.body);
    let (_, boundary) = field(response, "content-type").split_once("multipart/byteranges; boundary=").expect("a type");
    let delimiter = format!("\r\n--{boundary}");
    let mut left = body.strip_prefix(format!("--{boundary}").as_bytes()).expect("a delimiter");
    let mut parts = Vec::new();
    while left != b"--\r\n" {
        let head_len = left.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&left[2..head_len]).expect("text");
        let place =
            head.lines().find_map(|line| line.strip_prefix("Content-Range: ")).map(content_range).expect("a place");
        let content = &left[head_len + 4..];
        let (content, rest) = content.split_at(place.1 - place.0);
        left = rest.strip_prefix(delimiter.as_bytes()).expect("a delimiter after the content");
        parts.push((place, content.to_vec()));
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_ranges_of_random_sets(query in query(), ranges in proptest::collection::vec((0..150_000_u64, 0..3000_u64), 1..6)) {
        let whole = get(&query, &[]);
        let all = bytes(&whole.body);
        let len = all.len() as u64;
        let specs: Vec<_> = ranges.iter().map(|(start, count)| format!("{start}-{}", start + count)).collect();
        let answer = get(&query, &[("range", &format!("bytes={}", specs.join(",")))]);
        let satisfiable = ranges.iter().filter(|(start, _)| *start < len).count();
        let slice = |first: u64, last: u64| &all[usize::try_from(first).unwrap()..usize::try_from(last).unwrap()];
        match answer.status.as_u16() {
            200 => prop_assert!(all.is_empty() && bytes(&answer.body).is_empty()),
            416 => {
                prop_assert!(satisfiable == 0 && len > 0);
                prop_assert_eq!(field(&answer, "content-range"), format!("bytes */{len}"));
            }
            206 if field(&answer, "content-range").is_empty() => {
                let parts = byteranges(&answer);
                prop_assert!(parts.len() > 1 && parts.len() <= satisfiable);
                for ((first, end, total), content) in &parts {
                    prop_assert_eq!(*total, all.len());
                    prop_assert!(content[..] == all[*first..*end]);
                }
                for (start, count) in ranges.iter().filter(|(start, _)| *start < len) {
                    let end = (start + count + 1).min(len);
                    prop_assert!(parts.iter().any(|((first, last, _), _)| *first as u64 <= *start && end <= *last as u64));
                }
            }
            206 => {
                let (first, end, total) = content_range(field(&answer, "content-range"));
                prop_assert_eq!(total, all.len());
                prop_assert!(bytes(&answer.body)[..] == *slice(first as u64, end as u64));
                prop_assert_eq!(answer.content_length, Some((end - first) as u64));
            }
            other => prop_assert!(false, "{}", other),
        }
        if answer.status == 206 {
            for name in ["etag", "last-modified", "vary", "accept-ranges"] {
                prop_assert_eq!(field(&answer, name), field(&whole, name), "{}", name);
            }
        }
    }

    #[test]
    fn any_split_joins_to_the_whole(query in query(), cuts in proptest::collection::vec(0..150_000_u64, 0..6)) {
        let whole = get(&query, &[]);
        let all = bytes(&whole.body);
        let len = all.len() as u64;
        let mut cuts: Vec<_> = cuts.into_iter().filter(|&cut| cut > 0 && cut < len).chain([0, len]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut joined = Vec::new();
        for pair in cuts.windows(2) {
            let range = format!("bytes={}-{}", pair[0], pair[1] - 1);
            let piece = get(&query, &[("range", &range), ("if-range", field(&whole, "etag"))]);
            prop_assert_eq!(piece.status.as_u16(), 206);
            joined.extend_from_slice(&bytes(&piece.body));
        }
        prop_assert!(joined == all);
    }
}

#[test]
fn a_bundle_reads_the_same_in_ranges_of_one_byte_around_its_seams() {
    let whole = get("file1=f3&file2=f1&file3=f4", &[]);
    let all = bytes(&whole.body);
    assert_eq!(read_multipart(&all, field(&whole, "content-type")).len(), 3);
    for (at, byte) in all.iter().enumerate() {
        let answer = get("file1=f3&file2=f1&file3=f4", &[("range", &format!("bytes={at}-{at}"))]);
        assert_eq!(bytes(&answer.body), [*byte], "{at}");
    }
}

#[test]
fn ranges_of_an_empty_file_are_the_whole() {
    for range in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=5-6,7-8"] {
        let answer = get("file1=f0", &[("range", range)]);
        assert_eq!((answer.status.as_u16(), answer.content_length), (200, Some(0)), "{range}");
    }
}

#[test]
fn more_ranges_than_are_answered_give_the_whole() {
    let ranges = |count: usize| {
        let specs: Vec<_> = (0..count).map(|i| format!("{}-{}", 10 * i, 10 * i + 1)).collect();
        get("file1=f7", &[("range", &format!("bytes={}", specs.join(",")))])
    };
    let answer = ranges(64);
    assert_eq!(answer.status.as_u16(), 206);
    assert_eq!(byteranges(&answer).len(), 64);
    assert_eq!(ranges(65).status.as_u16(), 200);
}

#[test]
fn ranges_are_for_get_alone_and_not_for_json() {
    for method in [Method::HEAD, Method::POST] {
        let mut with_range = request(method.clone(), "file1=f3", &[("range", "bytes=0-1")]);
        if method == Method::POST {
            with_range.query = Bytes::new();
            with_range.body = Bytes::from_static(b"{\"files\": [\"f3\"]}");
            with_range.headers.insert("content-type", HeaderValue::from_static("application/json"));
        }
        let answer = call(handler(), with_range);
        assert_eq!((answer.status.as_u16(), answer.content_length), (200, Some(17)), "{method}");
        assert_eq!(field(&answer, "accept-ranges"), if method == Method::HEAD { "bytes" } else { "" });
    }
    let mut health = request(Method::GET, "", &[("range", "bytes=0-3"), ("if-none-match", "*")]);
    health.path = Bytes::from_static(b"/api/health");
    let answer = call(handler(), health);
    assert_eq!((answer.status.as_u16(), answer.content_length), (200, Some(22)));
    for name in ["etag", "last-modified", "accept-ranges"] {
        assert_eq!(field(&answer, name), "");
    }
}

/// Content of a thousand bytes that counts how often it is opened.
#[derive(Debug)]
struct Counted {
    opened: Arc<AtomicUsize>,
    descriptor: Arc<OwnedFd>,
    len: u64,
}

impl Content for Counted {
    fn open(&self, _wait: Wait) -> Result<Arc<OwnedFd>, ContentError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::clone(&self.descriptor))
    }

    fn check(&self, _descriptor: &OwnedFd) -> Result<(), ContentError> {
        Ok(())
    }

    fn parameter(&self) -> &[u8] {
        b"file"
    }

    fn measured_len(&self) -> u64 {
        self.len
    }
}

#[test]
fn a_range_touches_no_file_before_it_and_none_behind() {
    let len = 1000_u64;
    let opened: Vec<_> = (0..10).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let part = |(index, opened): (usize, &Arc<AtomicUsize>)| {
        let mut body = Body::empty();
        let mut file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut file, &[index as u8; 1000]).expect("content");
        body.push_file(Arc::new(Counted { opened: Arc::clone(opened), descriptor: Arc::new(file.into()), len }), len);
        let representation = Representation {
            body,
            media_type: HeaderValue::from_static("application/octet-stream"),
            etag: ETag::of(&FingerprintKey::new([1; 32]).token("test", &[index as u8])),
            modified: None,
            last_modified: None,
            date_tells_versions: true,
            headers: HeaderMap::new(),
            parts: 1,
        };
        Part::file(Bytes::from_static(b"file"), Bytes::from(format!("f{index}")), representation)
    };
    let parts: Vec<_> = opened.iter().enumerate().map(part).collect();
    let whole = bundle(parts, Shape::Mixed, &FingerprintKey::new([1; 32]));
    // The last 100 bytes of the seventh file, wherever its head ends.
    let mut position = 0;
    let mut file_ends = Vec::new();
    for segment in whole.body.segments() {
        match segment {
            Segment::Bytes(bytes) => position += bytes.len() as u64,
            Segment::File(file) => {
                position += file.len;
                file_ends.push(position);
            }
        }
    }
    let range = format!("bytes={}-{}", file_ends[6] - 100, file_ends[6] - 1);
    let answer = whole.respond(&request(Method::GET, "", &[("range", &range)]));
    let segments: Vec<_> = answer.body.segments().collect();
    let [Segment::File(file)] = segments[..] else { panic!("{segments:?}") };
    assert_eq!((file.offset, file.len), (900, 100));
    // Sent for real: what is opened and read is what the range names.
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("a mode");
    let mut body = answer.body;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let socket = StreamSocket::new(ours.into());
        send(&socket, &mut body, &TransportOptions::default(), &Activity::default(), |_| {}).await.expect("sent");
    });
    let mut received = Vec::new();
    std::io::Read::read_to_end(&mut theirs, &mut received).expect("received");
    assert_eq!(received, [6; 100]);
    let counts: Vec<_> = opened.iter().map(|opened| opened.load(Ordering::Relaxed)).collect();
    assert_eq!(counts, [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
}
