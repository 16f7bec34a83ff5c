//! Arbitrary parts to a bundle and back: the reader finds what the writer was given, and a cut bundle is never whole.

#![no_main]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arbitrary::Arbitrary;
use axon::{
    body::Body,
    bundle::{self, Boundary, MAX_PART_HEAD_LEN, Part, Reader, Shape},
    message::{ETag, FingerprintKey, Problem, Representation, Timestamp},
    store::media_type,
};
use axon_fuzz::{
    answer,
    reading::{Read, no_beginning_is_whole, read_in_pieces},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    shape: u8,
    parts: Vec<Given<'a>>,
    /// Where a piece of the bundle begins and ends.
    range: (u16, u16),
    /// How it comes to the reader.
    lens: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
struct Given<'a> {
    parameter: &'a [u8],
    path: &'a [u8],
    /// None: the last component of the path.
    filename: Option<&'a [u8]>,
    content: &'a [u8],
    modified: Option<u32>,
    /// It stands in for a file.
    failed: bool,
}

fuzz_target!(|input: Input<'_>| {
    // There is no bundle of nothing.
    if input.parts.is_empty() || input.parts.len() > 32 {
        return;
    }
    let shape = Shape::ALL[usize::from(input.shape) % Shape::ALL.len()];
    let given: Vec<Part> = input.parts.iter().map(Given::part).collect();
    let bundle = bundle::bundle(given.clone(), shape, &key());
    let body = answer::bytes(&bundle.body);
    let boundary = Boundary::from_content_type(bundle.media_type.as_bytes()).expect("a boundary");
    assert!(boundary.as_bytes().len() >= 32 && boundary.as_bytes().iter().all(u8::is_ascii_alphanumeric));

    let mut lens: Vec<usize> = input.lens.iter().map(|&len| len.into()).collect();
    lens.push(100);
    for (reader, lens) in [(Reader::new(&boundary), &[usize::MAX][..]), (Reader::learning(), &lens)] {
        let (found, result) = read_in_pieces(reader, &body, lens);
        assert_eq!(result, Ok(()), "{}", body.escape_ascii());
        assert_eq!(found.len(), given.len());
        for (found, given) in found.iter().zip(&given) {
            is_the_same(found, given, shape);
        }
        heads_are_short(&found, &boundary);
    }
    assert!(body.ends_with(b"--\r\n"));
    no_beginning_is_whole(Reader::new(&boundary), &body, body.len() - 2);

    let (a, b) = (usize::from(input.range.0) % (body.len() + 1), usize::from(input.range.1) % (body.len() + 1));
    let range = a.min(b)..a.max(b);
    assert_eq!(answer::bytes(&bundle.body.slice(range.start as u64..range.end as u64)), body[range]);
    let again = bundle::bundle(given, shape, &key());
    assert_eq!((answer::bytes(&again.body), again.etag), (body, bundle.etag), "it is not the same twice");
});

fn key() -> FingerprintKey {
    FingerprintKey::new([7; FingerprintKey::LEN])
}

impl Given<'_> {
    fn part(&self) -> Part {
        /// A longer name of a parameter is refused before there is a bundle.
        const MAX_PARAMETER_LEN: usize = 100;

        let parameter = Bytes::copy_from_slice(&self.parameter[..self.parameter.len().min(MAX_PARAMETER_LEN)]);
        let path = Bytes::copy_from_slice(self.path);
        if self.failed {
            return Part::problem(parameter, path, &Problem::new(StatusCode::NOT_FOUND, "not found"), &key());
        }
        let last_modified = self.modified.map(|secs| UNIX_EPOCH + Duration::from_secs(secs.into()));
        let representation = Representation {
            body: Body::from(Bytes::copy_from_slice(self.content)),
            media_type: media_type(self.path),
            etag: ETag::of(&key().token("content", self.content)),
            modified: self.modified.map(|secs| Timestamp { secs: secs.into(), nanos: 0 }),
            last_modified,
            date_tells_versions: true,
            headers: HeaderMap::new(),
            parts: 1,
        };
        let mut part = Part::file(parameter, path, representation);
        part.filename = self.filename.map(Bytes::copy_from_slice).or(part.filename);
        part
    }
}

fn is_the_same(found: &Read, given: &Part, shape: Shape) {
    let (head, representation) = (&found.head, &given.representation);
    assert_eq!(found.content, answer::bytes(&representation.body));
    assert_eq!(head.content_length(), Some(representation.body.len()));
    assert_eq!(head.content_type(), Some(representation.media_type.as_bytes()));
    assert_eq!(head.etag(), Some(representation.etag.as_bytes()));
    assert_eq!(head.last_modified(), representation.last_modified.map(whole_seconds));
    assert_eq!(head.failed(), given.failed);
    // It is left out where the head would become too long.
    if head.fields().contains_key(http::header::CONTENT_LOCATION) || given.path.len() <= 30 {
        assert_eq!(head.path().as_deref(), Some(&given.path[..]));
    }
    let disposition = head.disposition().expect("a disposition");
    assert_eq!(disposition.kind, if shape == Shape::FormData { "form-data" } else { "inline" });
    assert_eq!(disposition.filename.is_some(), given.filename.is_some());
    if let Some(name) = given.filename.as_deref().filter(|name| comes_back(name, shape)) {
        assert_eq!(disposition.filename.as_deref(), Some(name));
    }
    let named = comes_back(&given.parameter, Shape::FormData) && shape == Shape::FormData;
    assert_eq!(disposition.name.is_some(), shape == Shape::FormData);
    if named {
        assert_eq!(disposition.name.as_deref(), Some(&given.parameter[..]));
    }
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).expect("a date after 1970");
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// Whether a name is told as it is: text, short enough, and in form-data without what browsers replace.
fn comes_back(name: &[u8], shape: Shape) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    match shape {
        Shape::FormData => {
            let kept = |c: char| !c.is_ascii_control() || matches!(c, '\r' | '\n');
            // A percent sign is itself, so `%22` would come back as a quote.
            name.len() <= 85 && !name.contains(&b'%') && text.chars().all(kept)
        }
        // Three bytes for each at most.
        Shape::Mixed | Shape::Related => name.len() <= 106,
    }
}

/// Readers that look no further than 1,000 bytes find the end of every head.
fn heads_are_short(found: &[Read], boundary: &Boundary) {
    let mut start = boundary.as_bytes().len() as u64 + 4;
    for part in found {
        assert!(part.head_end - start <= MAX_PART_HEAD_LEN as u64, "{} bytes", part.head_end - start);
        start = part.head_end + part.content.len() as u64 + boundary.as_bytes().len() as u64 + 6;
    }
}
