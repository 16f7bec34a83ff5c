//! Packet files with the expected result beside each, in `tests/corpus`: what is on the wire, byte by byte.
//!
//! `valid-*` are requests, `incomplete-*` ask for more, `invalid-*` are refused with a status. Bytes that are no
//! text are written as `\xNN`.

use std::{fs, path::Path};

use axon::{
    message::Request,
    wire::{
        request_from_variables,
        uwsgi::{self, Head},
    },
};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::harness::{Daemon, Site, exchange_half_closed};

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn describe(request: &Request) -> Value {
    let headers: Map<String, Value> =
        request.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()).into())).collect();
    json!({
        "method": request.method.as_str(),
        "path": text(&request.path),
        "query": text(&request.query),
        "content_length": request.content_length,
        "headers": headers,
        "peer": request.peer.as_ref().map(|peer| text(peer)),
    })
}

fn read(input: &[u8]) -> Value {
    match uwsgi::decode(input) {
        Ok(Head::Need(count)) => json!({ "need": count }),
        Ok(Head::Ping) => json!({ "ping": true }),
        Ok(Head::Request { block, rest }) => match request_from_variables(&Bytes::copy_from_slice(block)) {
            Ok(request) => json!({ "request": describe(&request), "rest": text(rest) }),
            Err(error) => json!({ "status": error.status().as_u16(), "error": error.to_string() }),
        },
        Err(error) => json!({ "status": 400, "error": error.to_string() }),
    }
}

/// Every packet of the corpus with its name and its expected result.
fn corpus() -> Vec<(String, Vec<u8>, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut corpus = Vec::new();
    for entry in fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "uwsgi") {
            let expected = fs::read(path.with_extension("json")).expect("an expected result beside the packet");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            corpus.push((name, fs::read(path).expect("a packet"), serde_json::from_slice(&expected).expect("JSON")));
        }
    }
    assert!(corpus.len() >= 25, "the corpus is not whole: {} packets", corpus.len());
    corpus
}

#[test]
fn every_packet_is_read_as_expected() {
    for (name, packet, expected) in corpus() {
        assert_eq!(read(&packet), expected, "{name}");
    }
}

#[test]
fn every_prefix_of_a_valid_packet_asks_for_more() {
    for (name, packet, expected) in corpus() {
        let rest = expected["rest"].as_str().map_or(0, |rest| rest.replace("\\x", "").len());
        if !name.starts_with("valid") || rest > 0 {
            continue;
        }
        // Of the largest one not every prefix: that would be 65,539 of them.
        for end in (0..packet.len()).step_by(1 + packet.len() / 2000) {
            let Ok(Head::Need(count)) = uwsgi::decode(&packet[..end]) else { panic!("{name} after {end} bytes") };
            assert!(count > 0 && end + count <= packet.len(), "{name} after {end} bytes");
        }
    }
}

#[test]
fn a_daemon_answers_every_packet_of_the_corpus() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.descriptors();
    for (name, packet, expected) in corpus() {
        let answer = exchange_half_closed(daemon.socket(), &packet);
        if let Some(status) = expected["status"].as_u64() {
            assert_eq!(u64::from(answer.status), status, "{name}");
            assert!(answer.text().contains(expected["error"].as_str().expect("a reason")), "{name}: {}", answer.text());
        } else if expected["ping"] == true {
            assert_eq!(answer.raw, uwsgi::PONG, "{name}");
        } else if expected["need"] == 4 {
            assert_eq!(answer.raw, b"", "{name}");
        } else if expected.get("need").is_some() {
            assert_eq!(answer.status, 400, "{name}");
        } else {
            assert_ne!(answer.status, 0, "{name}: {}", text(&answer.raw));
        }
        daemon.assert_alive(idle);
    }
}
