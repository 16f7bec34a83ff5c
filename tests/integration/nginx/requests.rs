//! What is asked: methods, bodies, large heads, and what both logs say of it.

use std::{fs, thread};

use serde_json::Value;

use crate::harness::{End, STREAM, Stack, curl, noise, stream_target};

/// nginx's `client_max_body_size`.
const MAX_BODY_LEN: usize = 1024 * 1024;

/// Method, target, header fields and body of a request.
type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8]);

/// Axon's own record of a request, by something that only its line contains.
fn record(stack: &Stack, words: &[&str]) -> Value {
    let words = [&["\"request\""], words].concat();
    serde_json::from_str(&stack.daemon.logged(&words)).expect("a record is JSON")
}

#[test]
fn a_connection_serves_the_next_request_after_every_kind_of_answer() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    let file = stream_target(&["s3000000.bin"]);
    let bundle = stream_target(&["a.txt", "empty.bin", "s65537.bin"]);
    let missing = stream_target(&["a.txt", "none.txt"]);
    let etag = connection.get(&bundle).header("etag").expect("a validator").to_owned();
    let body = noise(200_000);
    let list = br#"{"files": ["a.txt", "b.txt"]}"#;
    let json = ("Content-Type", "application/json");
    let kinds: [(Asked<'_>, u16); 22] = [
        (("GET", &file, &[], b""), 200),
        (("HEAD", &file, &[], b""), 200),
        (("GET", &bundle, &[], b""), 200),
        (("HEAD", &bundle, &[], b""), 200),
        (("POST", STREAM, &[json], list), 200),
        (("GET", &file, &[("Range", "bytes=5-70000")], b""), 206),
        (("GET", &bundle, &[("Range", "bytes=0-0,100-199")], b""), 206),
        (("GET", &bundle, &[("If-None-Match", &etag)], b""), 304),
        (("HEAD", &bundle, &[("If-None-Match", &etag)], b""), 304),
        (("GET", STREAM, &[], b""), 400),
        (("HEAD", STREAM, &[], b""), 400),
        (("GET", &missing, &[], b""), 404),
        (("HEAD", &missing, &[], b""), 404),
        (("GET", "/api/nothing", &[], b""), 404),
        (("HEAD", "/", &[], b""), 404),
        (("POST", "/api/health", &[], &body), 405),
        (("PUT", &file, &[], &body), 405),
        (("DELETE", &file, &[], b""), 405),
        (("GET", &file, &[("If-Match", "\"other\"")], b""), 412),
        (("POST", &bundle, &[], &body), 415),
        (("POST", STREAM, &[json], &body), 400),
        (("GET", &file, &[("Range", "bytes=3000000-")], b""), 416),
    ];
    for ((method, target, fields, body), status) in kinds {
        let answer = connection.request(method, target, fields, body);
        assert_eq!((answer.status, answer.end), (status, End::Open), "{method} {target} {fields:?}");
        if method == "HEAD" || status == 304 {
            assert!(answer.body.is_empty(), "{method} {target} {fields:?}");
        } else {
            assert_eq!(answer.content_length(), answer.body.len() as u64, "{method} {target} {fields:?}");
        }
        // Were a byte missing or left over, this would not be the next answer.
        let next = connection.get("/api/health");
        assert_eq!((next.status, next.end, next.text()), (200, End::Open, "{\"status\":\"available\"}"));
    }
}

#[test]
fn a_body_above_the_limit_is_refused_by_nginx_in_order() {
    let stack = Stack::awkward();
    let allowed = stack.nginx.connect().request("POST", "/api/health", &[], &noise(MAX_BODY_LEN));
    allowed.problem(405);
    let refused = stack.nginx.connect().request("POST", "/api/health", &[], &noise(MAX_BODY_LEN + 1));
    // nginx says that it closes, and does so without a reset.
    assert_eq!((refused.status, refused.end), (413, End::Closed));
    assert_eq!(stack.nginx.connect().get("/api/health").status, 200);
}

#[test]
fn two_hundred_bodies_that_nobody_reads_are_answered_each() {
    let mut stack = Stack::awkward();
    let idle = stack.daemon.descriptors();
    let body = vec![0; 900_000];
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = stack.nginx.connect();
                for _ in 0..50 {
                    let answer = connection.request("POST", "/api/health", &[], &body);
                    assert_eq!(answer.header("allow"), Some("GET, HEAD"));
                    answer.problem(405);
                    assert_eq!(answer.end, End::Open);
                }
            });
        }
    });
    assert!(!stack.nginx.error_log().contains("[error]"), "{}", stack.nginx.error_log());
    stack.daemon.assert_alive(idle);
}

#[test]
fn other_methods_are_refused() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    let file = stream_target(&["a.txt"]);
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH", "FOO"] {
        for (target, allowed) in [(&file[..], "GET, HEAD, POST"), ("/api/health", "GET, HEAD")] {
            let answer = connection.request(method, target, &[], b"");
            assert_eq!(answer.header("allow"), Some(allowed), "{method} {target}");
            answer.problem(405);
        }
    }
    // nginx refuses these two itself: it never passes TRACE on, and for it methods are capital letters.
    assert_eq!(stack.nginx.connect().request("TRACE", "/api/health", &[], b"").status, 405);
    assert_eq!(stack.nginx.connect().request("get", "/api/health", &[], b"").status, 400);
}

#[test]
fn large_heads_pass_up_to_what_the_configuration_allows() {
    let stack = Stack::awkward();
    let url = stack.nginx.url("/api/health");
    let pad = "x".repeat(7900);
    let fields: Vec<String> = (1..=3).flat_map(|i| ["--header".to_owned(), format!("X-Pad{i}: {pad}")]).collect();
    assert_eq!(curl(&[&fields[..], &[url]].concat()).answer.status, 200);

    // All three buffers of 20k filled: the line, and two fields of nearly 20k.
    let mut connection = stack.nginx.connect();
    let target = |len| format!("/api/health?{}", "q".repeat(len));
    let field = "x".repeat(20 * 1024 - 20);
    let fields = [("X-Pad1", &field[..]), ("X-Pad2", &field)];
    assert_eq!(connection.request("GET", &target(20_000), &fields, b"").status, 200);
    // Beyond that it is nginx that refuses, and says why.
    assert_eq!(stack.nginx.connect().get(&target(20 * 1024)).status, 414);
    let three = [("X-Pad1", &field[..]), ("X-Pad2", &field), ("X-Pad3", &field)];
    assert_eq!(stack.nginx.connect().request("GET", &target(20_000), &three, b"").status, 400);
}

#[test]
fn a_list_that_is_longer_than_a_url_comes_as_a_body() {
    let stack = Stack::awkward();
    // Each name is another spelling of the same file, so that the whole is longer than what nginx keeps in memory.
    let names: Vec<String> = (0..1000).map(|index| format!("{}b.txt", "./".repeat(100 + index % 100))).collect();
    let list = serde_json::json!({ "files": names }).to_string();
    assert!(list.len() > 200_000 && list.len() < MAX_BODY_LEN);
    let json = [("Content-Type", "application/json")];
    let mut connection = stack.nginx.connect();
    let answer = connection.request("POST", STREAM, &json, list.as_bytes());
    let parts = answer.parts();
    assert_eq!(parts.len(), 1000);
    assert!(parts.iter().all(|part| part.body == b"abcdef"));

    // A short one gives the same bytes as the query.
    let answer = connection.request("POST", STREAM, &json, br#"{"files": ["a.txt", "s1.bin"]}"#);
    assert!(answer.body == connection.get(&stream_target(&["a.txt", "s1.bin"])).body);
    // curl sends this one in chunks, which nginx undoes, after asking whether it may.
    let url = stack.nginx.url(STREAM);
    let file = stack.site.beside("list.json");
    fs::write(&file, &list).expect("a file");
    let data = format!("@{}", file.display());
    let fields = ["Content-Type: application/json", "Transfer-Encoding: chunked", "Expect: 100-continue"];
    let fields = fields.iter().flat_map(|field| ["--header", field]);
    let arguments: Vec<&str> = fields.chain(["--data-binary", &data, &url]).collect();
    assert_eq!(curl(&arguments).answer.parts().len(), 1000);
}

#[test]
fn a_chunked_body_and_an_expectation_are_answered_at_once() {
    let stack = Stack::awkward();
    let data = format!("@{}", stack.site.path("s131072.bin").display());
    let url = stack.nginx.url("/api/health");
    let chunked = ["--header", "Transfer-Encoding: chunked", "--data-binary", &data, &url];
    let expecting = ["--header", "Expect: 100-continue", "--data-binary", &data, &url];
    let both = [&chunked[..2], &expecting[..]].concat();
    for arguments in [&chunked[..], &expecting, &both] {
        let result = curl(arguments);
        assert_eq!((result.code, result.answer.status), (0, 405), "{arguments:?}: {}", result.complaint);
        assert_eq!(result.answer.header("allow"), Some("GET, HEAD"));
        result.answer.problem(405);
    }
}

#[test]
fn the_logged_peer_is_the_address_of_the_connection() {
    let stack = Stack::awkward();
    let fields = [
        ("X_Forwarded_For", "203.0.113.9"),
        ("X-Forwarded-For", "203.0.113.8"),
        ("Forwarded", "for=203.0.113.7"),
        ("X-Real-IP", "203.0.113.6"),
        ("Remote_Addr", "203.0.113.5"),
        ("Remote-Addr", "203.0.113.4"),
        ("Proxy", "http://203.0.113.3:1"),
    ];
    let answer = stack.nginx.connect().request("GET", "/api/health?forged", &fields, b"");
    assert_eq!(answer.status, 200);
    assert_eq!(record(&stack, &["forged"])["peer"], "127.0.0.1");
    let seen = stack.nginx.logged("the request", |record| record["uri"] == "/api/health?forged");
    assert_eq!(seen["peer"], "127.0.0.1");
    assert!(!stack.daemon.log().contains("203.0.113."), "{}", stack.daemon.log());
}

#[test]
fn both_logs_tell_the_same_of_a_request_under_the_same_number() {
    let stack = Stack::awkward();
    let target = stream_target(&["a.txt", "s65537.bin"]);
    let forged = [("X-Request-Id", "forged")];
    let answer = stack.nginx.connect().request("GET", &target, &forged, b"");
    assert_eq!(answer.parts().len(), 2);
    let seen = stack.nginx.logged("the bundle", |record| record["uri"] == target);
    let id = seen["id"].as_str().expect("a number");
    assert_eq!(id.len(), 32, "{id}");
    let own = record(&stack, &[id]);
    assert_eq!(own["request_id"], id);
    assert_eq!((&own["method"], &own["path"]), (&"GET".into(), &STREAM.into()));
    assert_eq!(own["query"], target.split_once('?').expect("a query").1);
    assert_eq!((&own["status"], &seen["status"]), (&200.into(), &200.into()));
    assert_eq!(own["bytes"], answer.body.len());
    assert_eq!((&seen["bytes"], &seen["length"]), (&answer.body.len().into(), &answer.body.len().to_string().into()));
    assert_eq!((&own["parts"], &seen["parts"]), (&2.into(), &"2".into()));
    assert_eq!((own.get("cut"), &seen["complete"]), (None, &"OK".into()));
    assert!(!stack.daemon.log().contains("forged"), "{}", stack.daemon.log());
}
