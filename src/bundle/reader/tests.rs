use bytes::Bytes;
use http::HeaderValue;
use proptest::{collection, prelude::*, sample};

use super::*;
use crate::{
    body::{Body, Segment},
    bundle::{MAX_PART_FIELDS, Part, PartHeadError, Shape, bundle},
    message::{ETag, FingerprintKey, Representation},
};

/// A part as it was read.
#[derive(Debug, Default, Eq, PartialEq)]
struct Read {
    path: Option<Vec<u8>>,
    filename: Option<Vec<u8>>,
    announced: Option<u64>,
    content: Vec<u8>,
    whole: bool,
}

/// Hands a body over in pieces of these lengths, one after the other and from the beginning again.
fn read_in_pieces(mut reader: Reader, body: &[u8], lens: &[usize]) -> (Vec<Read>, Result<(), ReadError>) {
    let mut parts: Vec<Read> = Vec::new();
    let mut ended = false;
    let mut left = body;
    for &len in lens.iter().cycle() {
        let (mut piece, rest) = left.split_at(len.min(left.len()));
        loop {
            let event = match reader.next(&mut piece) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next(&mut &b"\r\n"[..]).expect_err("it stays wrong"), error);
                    return (parts, reader.finish());
                }
            };
            assert!(!ended, "{event:?} behind the end");
            match event {
                Event::Part(head) => {
                    assert!(parts.last().is_none_or(|last| last.whole), "a part in a part");
                    let filename = head.disposition().and_then(|disposition| disposition.filename);
                    let announced = head.content_length();
                    parts.push(Read { path: head.path(), filename, announced, ..Read::default() });
                }
                Event::Data(data) => {
                    assert!(!data.is_empty());
                    parts.last_mut().expect("a part").content.extend_from_slice(data);
                }
                Event::PartEnd => parts.last_mut().expect("a part").whole = true,
                Event::End => ended = true,
            }
        }
        assert!(piece.is_empty(), "bytes were left");
        left = rest;
        if left.is_empty() {
            break;
        }
    }
    assert_eq!(reader.offset(), body.len() as u64);
    assert_eq!(reader.parts(), parts.len() as u64);
    if reader.finish().is_ok() {
        assert!(ended && parts.iter().all(|part| part.whole), "whole, but {parts:?}");
    }
    (parts, reader.finish())
}

fn read(body: &[u8]) -> (Vec<Read>, Result<(), ReadError>) {
    read_in_pieces(Reader::learning(), body, &[usize::MAX])
}

/// What is wrong with it: the same however it comes, and whether or not the boundary was known.
#[track_caller]
fn fault(body: &[u8]) -> (u64, Fault) {
    let error = read(body).1.expect_err("it is wrong");
    for len in [1, 2, 3, 7] {
        assert_eq!(read_in_pieces(Reader::learning(), body, &[len]).1, Err(error), "in pieces of {len}");
    }
    (error.offset, error.fault)
}

/// The contents of a body that is right, which is read as one whose boundary is `x`.
#[track_caller]
fn contents(body: &str) -> Vec<String> {
    let boundary = Boundary::parse(b"x").expect("a boundary");
    let (expected, result) = read_in_pieces(Reader::new(&boundary), body.as_bytes(), &[usize::MAX]);
    assert_eq!(result, Ok(()), "{body}");
    for len in 1..=9 {
        for reader in [Reader::learning(), Reader::new(&boundary)] {
            let (parts, result) = read_in_pieces(reader, body.as_bytes(), &[len]);
            assert_eq!((result, &parts), (Ok(()), &expected), "{body} in pieces of {len}");
        }
    }
    expected.into_iter().map(|part| String::from_utf8(part.content).expect("text")).collect()
}

#[test]
fn a_part_that_says_its_length_is_that_long_whatever_is_in_it() {
    let body = "--x\r\nContent-Length: 12\r\n\r\na\r\n--x--\r\n\r\n\r\n--x\r\ncontent-length: 0\r\n\r\n\r\n--x--\r\n";
    assert_eq!(contents(body), ["a\r\n--x--\r\n\r\n", ""]);
}

#[test]
fn a_part_without_a_length_ends_at_the_next_boundary_line() {
    for (content, expected) in [
        ("abc", "abc"),
        ("", ""),
        ("\r\n", "\r\n"),
        ("\r\n\r\n-", "\r\n\r\n-"),
        ("\r\r\n--\r\n-\r\n--", "\r\r\n--\r\n-\r\n--"),
        ("a--x--", "a--x--"),
        ("a\n--x", "a\n--x"),
        ("-", "-"),
        ("--", "--"),
        ("--y", "--y"),
    ] {
        let body = format!("--x\r\na: b\r\n\r\n{content}\r\n--x\r\n\r\n{content}\r\n--x--");
        assert_eq!(contents(&body), [expected, expected], "{content:?}");
    }
    // RFC 2046 §5.1.1: where there is no content, the empty line may be that of the boundary line.
    assert_eq!(contents("--x\r\na: b\r\n\r\n--x\r\nc: d\r\n\r\n--x--\r\n"), ["", ""]);
}

#[test]
fn what_may_stand_around_it() {
    for start in ["", "\r\n"] {
        for padding in ["", " ", " \t "] {
            for end in ["", "\r\n", " \t\r\n"] {
                let body = format!("{start}--x{padding}\r\n\r\n1\r\n--x{padding}\r\n\r\n2\r\n--x--{end}");
                assert_eq!(contents(&body), ["1", "2"], "{body:?}");
            }
        }
    }
    // A known boundary may be followed at once by the end.
    let boundary = Boundary::parse(b"x").expect("a boundary");
    let (parts, result) = read_in_pieces(Reader::new(&boundary), b"--x--\r\n", &[1]);
    assert_eq!((parts.len(), result), (0, Ok(())));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cut = |received, announced| Fault::Cut(Place::Content { received, announced });
    for (body, offset, expected) in [
        ("", 0, Fault::Empty),
        ("hello", 0, Fault::NoDelimiter),
        ("\n--x\r\n", 0, Fault::NoDelimiter),
        ("\r\n\r\n--x\r\n", 2, Fault::NoDelimiter),
        ("-x", 1, Fault::NoDelimiter),
        ("-----\r\n", 7, Fault::NoDelimiter),
        ("--\r\n", 4, Fault::Boundary(BoundaryError::Empty)),
        ("--x@y\r\n", 7, Fault::Boundary(BoundaryError::Forbidden)),
        ("--x\r\r\n", 6, Fault::Boundary(BoundaryError::Forbidden)),
        ("--x\u{c}\r\n", 6, Fault::Boundary(BoundaryError::Forbidden)),
        ("--x\n", 4, Fault::LineBreak),
        ("--x\r\na: b\n\r\n", 10, Fault::LineBreak),
        ("--x\r\na\r\n\r\n", 10, Fault::Head(PartHeadError::Syntax(httparse::Error::HeaderName))),
        ("--x\r\n\r\n1\r\n--xy\r\n", 13, Fault::DelimiterLine),
        ("--x\r\n\r\n1\r\n--x-y\r\n", 14, Fault::DelimiterLine),
        ("--x\r\n\r\n1\r\n--x \n", 14, Fault::DelimiterLine),
        ("--x\r\n\r\n1\r\n--x --\r\n", 14, Fault::DelimiterLine),
        ("--x\r\nContent-Length: 1\r\n\r\n12\r\n--x--\r\n", 27, Fault::Overrun { announced: 1 }),
        ("--x\r\nContent-Length: 8\r\n\r\n12\r\n--x--\r\n", 34, Fault::Overrun { announced: 8 }),
        ("--x\r\nContent-Length: 0\r\n\r\n--x--\r\n", 26, Fault::Overrun { announced: 0 }),
        ("--x\r\n\r\n1\r\n--x--\r\n\r\n", 17, Fault::Trailing),
        ("--x\r\n\r\n1\r\n--x--\r\n--y\r\n", 17, Fault::Trailing),
        ("--x\r\n\r\n1\r\n--x---", 15, Fault::Trailing),
        ("--x\r\n\r\n1\r\n--x--\n", 15, Fault::Trailing),
        ("\r", 1, Fault::Cut(Place::Delimiter)),
        ("--x\r", 4, Fault::Cut(Place::Delimiter)),
        ("--x\r\n", 5, Fault::Cut(Place::Head)),
        ("--x\r\na: b\r\n", 11, Fault::Cut(Place::Head)),
        ("--x\r\n\r\n", 7, cut(0, None)),
        ("--x\r\n\r\n123\r\n--", 14, cut(3, None)),
        ("--x\r\n\r\n123\r\n--x", 15, Fault::Cut(Place::Delimiter)),
        ("--x\r\nContent-Length: 5\r\n\r\n123", 29, cut(3, Some(5))),
        ("--x\r\nContent-Length: 3\r\n\r\n123", 29, Fault::Cut(Place::Delimiter)),
        ("--x\r\nContent-Length: 3\r\n\r\n123\r\n--x-", 35, Fault::Cut(Place::Delimiter)),
        ("--x\r\n\r\n1\r\n--x--\r", 16, Fault::Cut(Place::Delimiter)),
    ] {
        assert_eq!(fault(body.as_bytes()), (offset, expected), "{body:?}");
    }
    let body = b"--x\r\nContent-Length: 5\r\n\r\n123";
    let message = read(body).1.expect_err("cut").to_string();
    assert_eq!(message, "it is cut in a part's content, of which 3 of 5 bytes came (byte 29)");
}

#[test]
fn every_limit_holds_on_both_sides() {
    let with_boundary = |len| [b"--", &vec![b'x'; len][..], b"\r\n\r\n1\r\n--", &vec![b'x'; len], b"--\r\n"].concat();
    assert_eq!(read(&with_boundary(MAX_BOUNDARY_LEN)).1, Ok(()));
    let too_long = Fault::Boundary(BoundaryError::TooLong);
    assert_eq!(fault(&with_boundary(MAX_BOUNDARY_LEN + 1)), (74, too_long));
    // One that never ends is not collected.
    assert_eq!(fault(&with_boundary(100_000)), (74, too_long));

    let with_head = |len: usize| format!("--x\r\na: {}\r\n\r\n1\r\n--x--", "b".repeat(len - 7)).into_bytes();
    assert_eq!(read(&with_head(MAX_READ_HEAD_LEN)).1, Ok(()));
    assert_eq!(fault(&with_head(MAX_READ_HEAD_LEN + 1)), (5 + 16_384, Fault::HeadTooLong));
    assert_eq!(fault(&with_head(1_000_000)), (5 + 16_384, Fault::HeadTooLong));

    let with_fields = |count| format!("--x\r\n{}\r\n1\r\n--x--", "a: b\r\n".repeat(count)).into_bytes();
    assert_eq!(read(&with_fields(MAX_PART_FIELDS)).1, Ok(()));
    assert_eq!(fault(&with_fields(MAX_PART_FIELDS + 1)).1, Fault::Head(PartHeadError::TooManyFields));
}

#[test]
fn content_is_handed_on_without_a_copy() {
    let content = vec![b'c'; 100_000];
    for length in ["Content-Length: 100000\r\n", ""] {
        let body = [format!("--x\r\n{length}\r\n").as_bytes(), &content, b"\r\n--x--\r\n"].concat();
        let mut reader = Reader::learning();
        let mut piece = &body[..];
        while let Some(event) = reader.next(&mut piece).expect("it is right") {
            let Event::Data(data) = event else { continue };
            assert_eq!(data.len(), content.len());
            assert!(body.as_ptr_range().contains(&data.as_ptr()));
        }
        assert_eq!(reader.finish(), Ok(()));
    }
}

// ---- What the planner writes, and what others might ---------------------------------------------------------------

/// Content that looks like delimiters more often than not.
fn content() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&str] =
        &["\r\n--", "--", "\r", "\n", "\r\n", "x", "xy", "--\r\n", "Content-Length: 3\r\n\r\n", "\0", "-"];
    collection::vec(sample::select(PIECES), 0..12).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Names that a file may have.
fn path() -> impl Strategy<Value = Vec<u8>> {
    collection::vec(prop_oneof![any::<u8>(), sample::select(&b"ab./%\"\\;= "[..])], 1..40)
}

/// Lengths of pieces.
fn lens() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), Just(vec![usize::MAX]), collection::vec(1..80_usize, 1..20)]
}

fn planned(parts: &[(Vec<u8>, Vec<u8>)], shape: Shape) -> (Boundary, Vec<u8>) {
    let key = FingerprintKey::new([7; 32]);
    let part = |(index, (path, content)): (usize, &(Vec<u8>, Vec<u8>))| {
        let representation = Representation {
            body: Body::from(Bytes::from(content.clone())),
            media_type: HeaderValue::from_static("application/octet-stream"),
            etag: ETag::of(&key.token("test", content)),
            modified: None,
            last_modified: None,
            date_tells_versions: true,
            headers: http::HeaderMap::new(),
            parts: 1,
        };
        Part::file(Bytes::from(format!("file{index}")), Bytes::from(path.clone()), representation)
    };
    let planned = bundle(parts.iter().enumerate().map(part).collect(), shape, &key);
    let mut bytes = Vec::new();
    for segment in planned.body.segments() {
        let Segment::Bytes(piece) = segment else { panic!("no files here") };
        bytes.extend_from_slice(piece);
    }
    (Boundary::from_content_type(planned.media_type.as_bytes()).expect("a boundary"), bytes)
}

proptest! {
    #[test]
    fn what_the_planner_writes_is_read_back(
        parts in collection::vec((path(), content()), 1..6),
        shape in sample::select(&Shape::ALL[..]),
        lens in lens(),
        knows in any::<bool>(),
    ) {
        let (boundary, body) = planned(&parts, shape);
        let reader = if knows { Reader::new(&boundary) } else { Reader::learning() };
        let (read, result) = read_in_pieces(reader, &body, &lens);
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(read.len(), parts.len());
        for (read, (path, content)) in read.iter().zip(&parts) {
            prop_assert_eq!(read.path.as_ref(), Some(path));
            prop_assert_eq!(&read.content, content);
            prop_assert_eq!(read.announced, Some(content.len() as u64));
            let name = path.rsplit(|&b| b == b'/').next().expect("a name");
            if shape != Shape::FormData && std::str::from_utf8(name).is_ok() {
                prop_assert_eq!(read.filename.as_deref(), Some(name));
            }
        }
    }

    #[test]
    fn nothing_cut_looks_whole(
        parts in collection::vec((path(), content()), 1..4),
        shape in sample::select(&Shape::ALL[..]),
        lens in lens(),
        ends in collection::vec(any::<sample::Index>(), 20),
    ) {
        let (_, body) = planned(&parts, shape);
        for end in ends.iter().map(|end| end.index(body.len() - 2)).chain([body.len() - 3]) {
            let (read, result) = read_in_pieces(Reader::learning(), &body[..end], &lens);
            let error = result.expect_err("it is cut");
            prop_assert_eq!(error.offset, end as u64);
            prop_assert!(matches!(error.fault, Fault::Cut(_) | Fault::Empty), "{} at {}", error, end);
            // What is told to be whole is: the parts before the cut.
            for (read, (_, content)) in read.iter().zip(&parts) {
                prop_assert!(content.starts_with(&read.content));
                prop_assert!(!read.whole || read.content == *content);
            }
        }
        // RFC 2046: the line break behind the closing delimiter is none of the bundle's.
        prop_assert!(read_in_pieces(Reader::learning(), &body[..body.len() - 2], &lens).1.is_ok());
        prop_assert!(read_in_pieces(Reader::learning(), &body[..body.len() - 1], &lens).1.is_err());
        // Nor does a bundle hide what is behind it.
        let twice = [&body[..], &body[..]].concat();
        let error = read_in_pieces(Reader::learning(), &twice, &lens).1.expect_err("two bundles");
        prop_assert_eq!((error.offset, error.fault), (body.len() as u64, Fault::Trailing));
    }

    #[test]
    fn parts_without_a_length_are_read_back(contents in collection::vec(content(), 1..6), lens in lens()) {
        let boundary = "xyz";
        let delimiter = format!("\r\n--{boundary}");
        prop_assume!(contents.iter().all(|content| {
            let content = [b"\r\n", &content[..]].concat();
            !content.windows(delimiter.len()).any(|window| window == delimiter.as_bytes())
        }));
        let mut body = Vec::new();
        for content in &contents {
            body.extend_from_slice(format!("{delimiter}\r\nContent-Type: text/plain\r\n\r\n").as_bytes());
            body.extend_from_slice(content);
        }
        body.extend_from_slice(format!("{delimiter}--\r\n").as_bytes());
        let (read, result) = read_in_pieces(Reader::learning(), &body, &lens);
        prop_assert_eq!(result, Ok(()));
        let read: Vec<Vec<u8>> = read.into_iter().map(|part| part.content).collect();
        prop_assert_eq!(read, contents);
    }

    #[test]
    fn the_pieces_make_no_difference(
        soup in collection::vec(sample::select(&["--x", "\r\n", "Content-Length: 3", "--", "a: b", "\r\n\r\n", "abc", "-", "\r", "\n", " "][..]), 0..40),
        lens in lens(),
    ) {
        let body = format!("--x\r\n{}", soup.concat()).into_bytes();
        prop_assert_eq!(read_in_pieces(Reader::learning(), &body, &lens), read(&body));
    }
}
