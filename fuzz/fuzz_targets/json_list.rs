//! The body of a POST to a list of files: what is accepted means the same when it is written again, and not a byte less.

#![no_main]

use axon::{
    bundle::Shape,
    handler::{HandlerOptions, OnMissing, Selection, Wanted},
    message::{Problem, Request, Response},
};
use axon_fuzz::wanted;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

/// Few, so that the limit is reached.
const MAX_FILES: usize = 8;

/// The longest body that is read. Below the longest that is tried.
const MAX_BODY: u64 = 1024;

fuzz_target!(|body: &[u8]| {
    let options = HandlerOptions { max_files: MAX_FILES, max_body: MAX_BODY, ..HandlerOptions::default() };
    match select(body, &options) {
        Ok(selection) => {
            assert!((1..=MAX_FILES).contains(&selection.files.len()) && body.len() as u64 <= MAX_BODY);
            is_what_the_json_says(&selection, body, &options);
            reads_the_same_again(&selection);
            for end in 0..body.trim_ascii_end().len() {
                assert!(select(&body[..end], &options).is_err(), "cut after {end} it looks whole");
            }
        }
        Err(problem) => is_told_as_json(problem, body),
    }
});

fn select(body: &[u8], options: &HandlerOptions) -> Result<Selection, Problem> {
    let mut request = Request::new(Method::POST, "/api/stream-files", "");
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.content_length = body.len() as u64;
    request.body = Bytes::copy_from_slice(body);
    Selection::from_request(&request, options)
}

/// A plain second reading, as a tree.
fn is_what_the_json_says(selection: &Selection, body: &[u8], options: &HandlerOptions) {
    let tree: Value = serde_json::from_slice(body).expect("JSON");
    let object = tree.as_object().expect("an object");
    assert!(object.keys().all(|key| matches!(&key[..], "files" | "format" | "missing")), "{tree}");
    let text = |key| object.get(key).and_then(Value::as_str);
    assert_eq!(selection.format.map(Shape::subtype), text("format"));
    assert_eq!(selection.on_missing == OnMissing::Part, text("missing") == Some("part"));
    let entries = object["files"].as_array().expect("a list");
    assert_eq!(entries.len(), selection.files.len());
    for (index, (entry, file)) in entries.iter().zip(&selection.files).enumerate() {
        assert_eq!(file.parameter, format!("files[{index}]"));
        let path = entry.as_str().or_else(|| entry["path"].as_str()).expect("a path");
        assert_eq!(file.name, path);
        let name = entry.get("name").and_then(Value::as_str);
        assert_eq!(file.filename.as_deref(), name.map(str::as_bytes));
        if name.is_some_and(|name| name.is_empty() || name.len() > 255 || name.contains(['/', '\0'])) {
            assert_eq!(file.key.as_ref().map_err(|failure| failure.0), Err(StatusCode::BAD_REQUEST), "{name:?}");
        } else {
            wanted::check(file, options);
        }
    }
}

fn reads_the_same_again(selection: &Selection) {
    let entry = |file: &Wanted| {
        let path = std::str::from_utf8(&file.name).expect("text");
        match &file.filename {
            Some(name) => json!({"path": path, "name": std::str::from_utf8(name).expect("text")}),
            None => json!(path),
        }
    };
    let mut tree = json!({"files": selection.files.iter().map(entry).collect::<Vec<_>>()});
    if let Some(shape) = selection.format {
        tree["format"] = json!(shape.subtype());
    }
    if selection.on_missing == OnMissing::Part {
        tree["missing"] = json!("part");
    }
    // Escapes make it longer than it was.
    let options = HandlerOptions { max_files: MAX_FILES, ..HandlerOptions::default() };
    assert_eq!(select(tree.to_string().as_bytes(), &options).as_ref(), Ok(selection), "{tree}");
}

fn is_told_as_json(problem: Problem, body: &[u8]) {
    let status = problem.status();
    match status {
        StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE => assert!(body.len() as u64 <= MAX_BODY),
        StatusCode::PAYLOAD_TOO_LARGE => assert!(body.len() as u64 > MAX_BODY),
        other => panic!("{other}"),
    }
    let tree: Value = serde_json::from_str(&problem.to_json()).expect("JSON");
    assert_eq!(tree["status"], status.as_u16());
    assert_eq!(tree["detail"], problem.detail());
    // 500 bytes of what a client sent, and three dots.
    assert!((1..=503).contains(&problem.detail().len()));
    let response = Response::from(problem);
    assert_eq!(response.content_length, Some(response.body.len()));
}
