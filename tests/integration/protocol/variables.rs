//! Variables: which make a request, how many, and how often.

use crate::harness::{Daemon, Packet, STREAM, exchange};

use super::{PROMPT, site};

#[test]
fn methods_are_case_sensitive_and_others_are_told_which_are_allowed() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for target in ["/api/health".to_owned(), format!("{STREAM}?file1=a.txt")] {
        for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "FOO", "get", "Head", "GETX"] {
            let answer = daemon.send(&Packet::new(method, &target));
            answer.problem(405);
            let allow = answer.header("allow").expect("what is allowed");
            let allowed: Vec<&str> = allow.split(", ").collect();
            assert!(allowed.contains(&"GET") && allowed.contains(&"HEAD"), "{method} {target}: {allow}");
        }
        for method in ["", "G T", "GET ", "GET\r\n", "G\0T"] {
            daemon.send(&Packet::new(method, &target)).problem(400);
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn a_variable_that_is_no_header_field_comes_once() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let base = Packet::get(format!("{STREAM}?file1=a.txt"));
    let names: Vec<Vec<u8>> = base.variables.iter().map(|(name, _)| name.clone()).collect();
    let others = ["UWSGI_SCHEME", "http_x", "X"].map(|name| name.as_bytes().to_vec());
    for name in names.into_iter().filter(|name| !name.starts_with(b"HTTP_")).chain(others) {
        let name = String::from_utf8(name).expect("a name");
        let base = if base.variables.iter().any(|(known, _)| known == name.as_bytes()) {
            base.clone()
        } else {
            base.clone().with(&name, "1")
        };
        let value = base.variables.iter().find(|(known, _)| known == name.as_bytes()).expect("it is there").1.clone();
        assert_eq!(daemon.send(&base).status, 200);
        // Also where both say the same, and wherever the second one stands.
        for (place, value) in [(0, value.clone()), (base.variables.len(), value), (0, b"5".to_vec())] {
            let mut twice = base.clone();
            twice.variables.insert(place, (name.clone().into_bytes(), value));
            daemon.send(&twice).problem(400);
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn repeated_header_fields_are_joined_in_order() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let mut packet = Packet::get("/api/health").header("X-Request-Id", "one");
    packet = packet.header("Accept", "a/a").header("X-Request-Id", "two").header("Accept", "b/b");
    assert_eq!(daemon.send(&packet.header("X-Request-Id", "three")).status, 200);
    daemon.request_record("one, two, three");
    daemon.assert_alive(idle);
}

#[test]
fn variables_are_counted() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for prefix in ["HTTP_X_", "X_"] {
        let with = |count: usize| {
            let mut packet = Packet::get("/api/health");
            for index in packet.variables.len()..count {
                packet = packet.with(&format!("{prefix}{index}"), "v");
            }
            assert_eq!(packet.variables.len(), count);
            daemon.send(&packet)
        };
        assert_eq!(with(1000).status, 200, "{prefix}");
        with(1001).problem(431);
        with(2500).problem(431);
    }
    // The same header field again and again counts as well.
    let mut packet = Packet::get("/api/health");
    for _ in 0..1000 {
        packet = packet.header("X", "v");
    }
    daemon.send(&packet).problem(431);
    daemon.assert_alive(idle);
}

#[test]
fn a_refusal_of_head_has_no_content_either() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let mut many = Packet::get("/api/health");
    for index in 0..1000 {
        many = many.header(&format!("X-{index}"), "v");
    }
    let mut twice = Packet::get("/api/health");
    twice.variables.push((b"QUERY_STRING".to_vec(), b"".to_vec()));
    for (get, status) in [
        (Packet::get("/api/health").with("CONTENT_LENGTH", "x"), 400),
        (Packet::get("/api/health").with("HTTP_X", "a\r\nb"), 400),
        (twice, 400),
        (many, 431),
        (Packet::get("/api/nothing"), 404),
        (Packet::get(format!("{STREAM}?file1=none")), 404),
        (Packet::get(format!("{STREAM}?file1=a.txt&file1")), 400),
    ] {
        let told = daemon.send(&get);
        told.problem(status);
        let head = daemon.send(&get.with("REQUEST_METHOD", "HEAD"));
        assert_eq!((head.status, head.end, head.body.len()), (status, told.end, 0), "{}", told.text());
        assert_eq!(head.content_length(), told.content_length(), "{}", told.text());
    }
    daemon.assert_alive(idle);
}

#[test]
fn variables_that_make_no_request_are_refused() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for name in ["REQUEST_METHOD", "PATH_INFO"] {
        let mut packet = Packet::get("/api/health");
        packet.variables.retain(|(known, _)| known != name.as_bytes());
        let answer = daemon.send(&packet);
        assert!(answer.problem(400).contains(name), "{}", answer.text());
    }
    for (name, value) in [("HTTP_X", "a\r\nb"), ("HTTP_X", "a\0"), ("HTTP_", "a"), ("HTTP_X Y", "a"), ("HTTP_X:", "a")]
    {
        daemon.send(&Packet::get("/api/health").with(name, value)).problem(400);
    }
    for block in [
        &b""[..],
        b"\x01",
        b"\x01\0K",
        b"\x01\0K\x02\0v",
        b"\xff\xffK",
        b"\0\0\x01\0v",
        b"\x01\0K\0\0\x01",
        b"\x0e\0REQUEST_METHOD\x03\0GET\x09\0PATH_INFO\x0b\0/api/healt",
    ] {
        let mut bytes = vec![0, u8::try_from(block.len()).expect("short"), 0, 0];
        bytes.extend_from_slice(block);
        let answer = exchange(daemon.socket(), &bytes);
        answer.problem(400);
        assert!(answer.duration < PROMPT, "{block:?} took {:?}", answer.duration);
    }
    daemon.assert_alive(idle);
}
