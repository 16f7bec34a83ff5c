//! The rooms that do no I/O, one after the other: from the bytes of a packet to the bytes of an answer.
//!
//! It shows how they fit together in another program, and it is what `scripts/instructions` counts:
//!
//! ```text
//! cargo run --release --example request_path -- one_file 1000
//! ```

#[path = "../benches/fixtures/mod.rs"]
mod fixtures;

use std::{env, hint::black_box, process::ExitCode};

use axon::{
    body::{Body, Segment},
    bundle::{self, Shape},
    message::FingerprintKey,
    wire::{self, uwsgi},
};
use bytes::Bytes;

/// The content of every file.
const CONTENT: &[u8] = &[b'x'; 4096];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (Some(kind), Some(Ok(times))) = (arguments.first(), arguments.get(1).map(|text| text.parse::<u32>())) else {
        eprintln!("usage: request_path KIND TIMES, with KIND one of {}", KINDS.map(|kind| kind.0).join(", "));
        return ExitCode::from(2);
    };
    let Some(&(_, files, more, status)) = KINDS.iter().find(|known| known.0 == kind) else {
        eprintln!("there is no {kind}; there are {}", KINDS.map(|kind| kind.0).join(", "));
        return ExitCode::from(2);
    };
    let key = fixtures::key();
    let packet = fixtures::packet(&fixtures::query(files), more);
    let mut answer = Vec::new();
    for _ in 0..times {
        answer.clear();
        serve(black_box(&packet), &key, &mut answer);
    }
    assert!(
        times == 0 || answer.starts_with(format!("HTTP/1.1 {status}").as_bytes()),
        "not the answer that is counted"
    );
    println!("{kind}: {times} answers of {} bytes", answer.len());
    ExitCode::SUCCESS
}

/// A request: its name, how many files it asks for, the header fields it adds, the status it gets.
type Kind = (&'static str, usize, &'static [(&'static str, &'static str)], u16);

const KINDS: [Kind; 5] = [
    ("one_file", 1, &[], 200),
    ("two_files", 2, &[], 200),
    ("hundred_files", 100, &[], 200),
    ("ranges", 100, &[("HTTP_RANGE", "bytes=0-999,200000-299999,-500")], 206),
    ("not_modified", 2, &[("HTTP_IF_NONE_MATCH", "*")], 304),
];

/// One request, without opening anything: every file there is has the same content.
fn serve(packet: &Bytes, key: &FingerprintKey, answer: &mut Vec<u8>) {
    let Ok(uwsgi::Head::Request { block, .. }) = uwsgi::decode(packet) else { panic!("not a whole packet") };
    let request = wire::request_from_variables(&packet.slice_ref(block)).expect("a request");
    let mut parts = Vec::new();
    for pair in wire::decode_form(&request.query) {
        let (parameter, path) = pair.expect("form data");
        parts.push(fixtures::part(&parameter, &path, Body::from(Bytes::from_static(CONTENT)), key));
    }
    let representation = match parts.len() {
        1 => parts.remove(0).representation,
        _ => bundle::bundle(parts, Shape::Mixed, key),
    };
    let response = representation.respond(&request);
    let head = wire::encode_head(&response);
    let mut body = response.body;
    body.push_front(head);
    for segment in body.segments() {
        match segment {
            Segment::Bytes(bytes) => answer.extend_from_slice(bytes),
            Segment::File(_) => panic!("there are no files here"),
        }
    }
}
