//! What httplint, the library of REDbot, thinks of the answers.

use serde_json::{Value, json};

use crate::harness::{STREAM, Stack, curl, stream_target};

use super::{python, run};

#[test]
fn a_linter_finds_nothing_bad_in_any_answer() {
    let stack = Stack::awkward();
    let address = stack.nginx.url("").trim_start_matches("http://").to_owned();
    let file = stream_target(&["s65537.bin"]);
    let bundle = stream_target(&["a.txt", "s65537.bin", "empty.bin"]);
    let missing = stream_target(&["a.txt", "none.txt"]);
    let [form, related] = ["form-data", "related"].map(|format| format!("{bundle}&format={format}"));
    let [tolerant, unknown] = ["missing=part", "format=zip"].map(|more| format!("{missing}&{more}"));
    let etag = curl(&["--head", &stack.nginx.url(&bundle)]).answer.header("etag").expect("a validator").to_owned();
    // Not among them: several ranges. The linter wants a Content-Range there, which RFC 9110 §15.3.7.2 forbids.
    let cases = [
        (200, json!(["GET", "/api/health", []])),
        (200, json!(["HEAD", "/api/health", []])),
        (200, json!(["GET", file, []])),
        (200, json!(["HEAD", file, []])),
        (206, json!(["GET", file, [["Range", "bytes=5-99"]]])),
        (200, json!(["GET", bundle, []])),
        (200, json!(["HEAD", bundle, []])),
        (200, json!(["GET", bundle, [["Accept", "multipart/form-data"]]])),
        (200, json!(["GET", form, []])),
        (200, json!(["GET", related, []])),
        (200, json!(["GET", tolerant, []])),
        (206, json!(["GET", bundle, [["Range", "bytes=5-99"]]])),
        (304, json!(["GET", bundle, [["If-None-Match", etag]]])),
        (412, json!(["GET", bundle, [["If-Match", "\"other\""]]])),
        (416, json!(["GET", bundle, [["Range", "bytes=9999999-"]]])),
        (404, json!(["GET", missing, []])),
        (406, json!(["GET", unknown, []])),
        (405, json!(["DELETE", STREAM, []])),
    ];
    let requests: Vec<&Value> = cases.iter().map(|(_, request)| request).collect();
    let (success, line) = run(&python(), "http_lint.py", &[address, json!(requests).to_string()]);
    let answers = line["answers"].as_array().expect("answers");
    assert!(success && answers.len() == cases.len());
    for ((status, request), answer) in cases.iter().zip(answers) {
        assert_eq!(answer["status"], *status, "{request}");
        let notes = answer["notes"].as_array().expect("notes");
        assert!(!notes.is_empty(), "it has looked at {request}");
        let at = |level: &str| notes.iter().filter(|note| note["level"] == level).collect::<Vec<_>>();
        for warning in at("warning") {
            println!("{status} {request}: {}", warning["summary"]);
        }
        assert!(at("bad").is_empty(), "{status} {request}: {:?}", at("bad"));
    }
}
