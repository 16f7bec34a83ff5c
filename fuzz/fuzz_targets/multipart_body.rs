//! A multipart body from anywhere: however it comes it is the same, and nothing but a whole one is whole.

#![no_main]

use axon::bundle::{Boundary, Reader};
use axon_fuzz::reading::{Read, no_beginning_is_whole, read_in_pieces};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let (parts, result) = read_in_pieces(Reader::learning(), body, &[usize::MAX]);
    // Lengths that depend on the body, so that another input is cut elsewhere.
    let lens: Vec<usize> = body.iter().map(|&byte| usize::from(byte % 16)).chain([5]).collect();
    for lens in [&[1][..], &[2], &[7], &lens] {
        let again = read_in_pieces(Reader::learning(), body, lens);
        assert_eq!((&again.0, again.1), (&parts, result), "in pieces of {lens:?} it is something else");
    }
    let content_len: usize = parts.iter().map(|part| part.content.len()).sum();
    assert!(content_len <= body.len());
    if result.is_err() {
        return;
    }

    let boundary = first_boundary(body);
    let told = read_in_pieces(Reader::new(&boundary), body, &[3]);
    assert_eq!((told.0, told.1), (parts_of(body), Ok(())), "the boundary was known");

    let end = body.trim_ascii_end().len();
    assert!(body[..end].ends_with(b"--"));
    no_beginning_is_whole(Reader::learning(), body, end);
    for more in [body, &b"x"[..], b"\r\n\r\n"] {
        let longer = [body, more].concat();
        assert!(read_in_pieces(Reader::learning(), &longer, &[usize::MAX]).1.is_err(), "what is behind it is lost");
    }

    let written = write(&boundary, &parts);
    let (again, result) = read_in_pieces(Reader::learning(), &written, &[usize::MAX]);
    assert_eq!(result, Ok(()));
    let told = |parts: &[Read]| -> Vec<_> {
        parts.iter().map(|part| (part.head.fields().clone(), part.content.clone())).collect()
    };
    assert_eq!(told(&again), told(&parts), "written again it is something else");
});

fn parts_of(body: &[u8]) -> Vec<Read> {
    read_in_pieces(Reader::learning(), body, &[usize::MAX]).0
}

/// The boundary of a body that has one.
fn first_boundary(body: &[u8]) -> Boundary {
    let body = body.strip_prefix(b"\r\n").unwrap_or(body);
    let line_end = body.windows(2).position(|two| two == b"\r\n").expect("a first line");
    let text = body[..line_end].strip_prefix(b"--").expect("a boundary line").trim_ascii_end();
    Boundary::parse(text).expect("a boundary")
}

/// The same body in its plainest form.
fn write(boundary: &Boundary, parts: &[Read]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(if body.is_empty() { b"--" } else { b"\r\n--" });
        body.extend_from_slice(boundary.as_bytes());
        body.extend_from_slice(b"\r\n");
        for (name, value) in part.head.fields() {
            body.extend_from_slice(name.as_str().as_bytes());
            body.extend_from_slice(b": ");
            body.extend_from_slice(value.as_bytes());
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"\r\n");
        body.extend_from_slice(&part.content);
    }
    body.extend_from_slice(b"\r\n--");
    body.extend_from_slice(boundary.as_bytes());
    body.extend_from_slice(b"--\r\n");
    body
}
