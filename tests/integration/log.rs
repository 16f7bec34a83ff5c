//! What a request leaves in the log.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    time::Duration,
};

use serde_json::Value;

use crate::harness::{
    Daemon, End, FaultyDisk, Packet, STREAM, Site, connect, exchange, exchange_half_closed, stream_target,
};

fn site() -> Site {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("b.txt", "abcdef");
    site.write("large.bin", vec![b'x'; 2_000_000]);
    site
}

/// Waits for the record of a request that has just been made; there is no other yet.
fn only_record(daemon: &Daemon) -> Value {
    let record = daemon.recorded("of the request", |record| record["message"] == "request");
    let requests = daemon.records().iter().filter(|record| record["message"] == "request").count();
    assert_eq!(requests, 1, "{}", daemon.log());
    record
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default().as_bytes();
    text.len() >= 20 && text[4] == b'-' && text[10] == b'T' && text[13] == b':' && text.ends_with(b"Z")
}

#[test]
fn a_request_leaves_one_record() {
    let bundle = format!("{STREAM}?file1=a.txt&file2=b.txt");
    for (packet, path, query, status, parts) in [
        (Packet::get("/api/health"), "/api/health", "", 200, 0),
        (Packet::get(&bundle), STREAM, "file1=a.txt&file2=b.txt", 200, 2),
        (Packet::new("HEAD", &bundle), STREAM, "file1=a.txt&file2=b.txt", 200, 2),
        (Packet::get(format!("{STREAM}?file1=a.txt")), STREAM, "file1=a.txt", 200, 1),
        (Packet::get(format!("{STREAM}?file1=none%20x")), STREAM, "file1=none%20x", 404, 0),
        (Packet::new("POST", "/api/health").body("hello"), "/api/health", "", 405, 0),
        (Packet::get("/\u{fc}/nothing"), "/\\xc3\\xbc/nothing", "", 404, 0),
    ] {
        let site = site();
        let mut daemon = Daemon::start(&site, &[]);
        let idle = daemon.idle_descriptors();
        let method = String::from_utf8(packet.variables[1].1.clone()).expect("a method");
        let answer = daemon.send(&packet.header("X-Request-Id", "0123456789abcdef"));
        assert_eq!((answer.status, answer.end), (status, End::Closed));
        let record = only_record(&daemon);
        assert!(is_time(&record["timestamp"]), "{record}");
        for (field, expected) in [
            ("level", Value::from("INFO")),
            ("method", method.into()),
            ("path", path.into()),
            ("query", query.into()),
            ("status", status.into()),
            ("bytes", answer.body.len().into()),
            ("parts", parts.into()),
            ("peer", "192.0.2.10".into()),
            ("request_id", "0123456789abcdef".into()),
            ("cut", Value::Null),
        ] {
            assert_eq!(record[field], expected, "{field} in {record}");
        }
        let micros = record["duration_us"].as_u64().expect("a duration");
        assert!(u128::from(micros) <= answer.duration.as_micros() + 100_000, "{record}");
        daemon.assert_alive(idle);
    }
}

#[test]
fn nothing_that_a_peer_sends_breaks_out_of_its_field() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--log-level", "trace"]);
    let idle = daemon.idle_descriptors();
    let nasty: Vec<u8> = (0..=255).collect();
    let forged =
        b"x\",\"status\":500}\n{\"message\":\"request\",\"request_id\":\"forged\"}\r\n\x1b[2J\\\xff\xe2\x80\xa8";
    let escaped = |bytes: &[u8]| bytes.escape_ascii().to_string().replace(' ', r"\x20");
    for (index, bytes) in [&nasty[..], forged, b"\"", b"\\", b"\\\"", b"\n", b"\0", b"\xff"].into_iter().enumerate() {
        let id = format!("nasty-{index}");
        let packet = Packet::get("/").with("PATH_INFO", bytes).with("QUERY_STRING", bytes).with("REMOTE_ADDR", bytes);
        daemon.send(&packet.header("X-Request-Id", &id)).problem(404);
        let record = daemon.request_record(&id);
        for field in ["path", "query", "peer"] {
            assert_eq!(record[field], escaped(bytes), "{record}");
        }
    }
    // The same where it comes back as the name of a parameter, of a variable, of a header field.
    let query = [b"file", &nasty[1..]].concat();
    daemon.send(&Packet::get(STREAM).with("QUERY_STRING", &query));
    for name in ["A\"\n\u{1b}", "HTTP_A\"\n\u{1b}"] {
        let mut packet = Packet::get("/api/health").with(name, "1");
        packet.variables.push((name.into(), b"2".to_vec()));
        assert_eq!(daemon.send(&packet).status, 400);
    }
    for id in [&b"a\"b\\c"[..], b"\xff\xfe", "\u{fc}".as_bytes()] {
        assert_eq!(daemon.send(&Packet::get("/api/health").header("X-Request-Id", id)).status, 200);
        daemon.request_record(&escaped(id));
    }
    // All of it parses, line by line, and nothing in it was forged.
    let records = daemon.records();
    assert!(records.len() > 10 && records.iter().all(|record| record["request_id"] != "forged"));
    assert!(daemon.log().bytes().all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)), "visible ASCII only");
    daemon.assert_alive(idle);
}

#[test]
fn what_a_peer_sends_is_cut_to_a_length() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let long = "x".repeat(15_000);
    let packet = Packet::get(format!("/{long}?{long}")).with("REQUEST_URI", "").with("REMOTE_ADDR", &long);
    daemon.send(&packet.header("X-Request-Id", &long)).problem(404);
    let record = only_record(&daemon);
    for field in ["path", "query", "peer", "request_id"] {
        let text = record[field].as_str().expect("text");
        assert!((100..=1000).contains(&text.len()) && text.ends_with("x..."), "{field}: {}", text.len());
    }
    daemon.assert_alive(idle);
}

#[test]
fn the_record_of_a_file_that_fails_cuts_what_a_peer_sent_as_well() {
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let Some(_disk) = FaultyDisk::mount(&site, "disk") else { return };
    let ids = ["\"".repeat(15_000), "two words\u{e9}".into(), String::new()];
    for (index, id) in ids.iter().enumerate() {
        daemon.send(&Packet::get(stream_target(&["disk/locked-1"])).header("X-Request-Id", id)).problem(500);
        let of = |message: &str| {
            let fits = |record: &Value| record["message"].as_str().is_some_and(|text| text.starts_with(message));
            let mut found = None;
            crate::harness::wait_until("the record", || {
                found = daemon.records().into_iter().filter(fits).nth(index);
                found.is_some()
            });
            found.expect("a record")
        };
        let (cause, request) = (of("files cannot be opened"), of("request"));
        assert_eq!(cause["level"], "ERROR");
        if id.is_empty() {
            assert_eq!(cause["request_id"], Value::Null, "there is none yet: {cause}");
        } else {
            assert_eq!(cause["request_id"], request["request_id"], "{cause}");
        }
        assert!(cause.to_string().len() < 3000, "{} bytes", cause.to_string().len());
    }
    daemon.assert_alive(idle);
}

#[test]
fn every_request_has_an_id_of_its_own() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    // An empty one is what a front end sends that has none.
    for id in [None, Some(""), None, Some("")] {
        let packet = Packet::get("/api/health");
        let packet = if let Some(id) = id { packet.header("X-Request-Id", id) } else { packet };
        assert_eq!(daemon.send(&packet).status, 200);
    }
    daemon.send(&Packet::get("/api/health").header("X-Request-Id", "the-last-one"));
    daemon.request_record("the-last-one");
    crate::harness::wait_until("five records", || {
        daemon.records().iter().filter(|record| record["message"] == "request").count() == 5
    });
    let records = daemon.records();
    let requests = records.iter().filter(|record| record["message"] == "request");
    let ids: Vec<&str> = requests.map(|record| record["request_id"].as_str().expect("an id")).collect();
    for (index, id) in ids.iter().enumerate() {
        assert!(id.len() >= 8, "{ids:?}");
        assert!(!ids[..index].contains(id), "{ids:?}");
    }
    daemon.assert_alive(idle);
}

#[test]
fn all_records_of_a_request_have_the_same_id() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--log-level", "debug"]);
    let idle = daemon.idle_descriptors();
    daemon.logged(&["listening"]); // no request's
    let begin = |packet: &Packet| {
        let mut stream = connect(daemon.socket());
        stream.write_all(&packet.to_bytes()).expect("room for a packet");
        stream.read_exact(&mut [0; 1000]).expect("the start of an answer");
        stream
    };
    for (id, cut) in [(None, "client"), (Some("given"), "client"), (None, "file"), (Some("given,too"), "file")] {
        let seen = daemon.records().len();
        let packet = Packet::get(stream_target(&["large.bin"]));
        let stream = begin(&if let Some(id) = id { packet.header("X-Request-Id", id) } else { packet });
        if cut == "file" {
            File::options().write(true).open(site.path("large.bin")).and_then(|f| f.set_len(5)).expect("shorter");
            let mut stream = stream;
            stream.read_to_end(&mut Vec::new()).expect("the end");
        } else {
            drop(stream);
        }
        let new = || daemon.records().split_off(seen);
        let request = |record: &Value| record["message"] == "request" && record["cut"] == cut;
        crate::harness::wait_until("the record", || new().iter().any(request));
        let records = new();
        let ids: Vec<&Value> = records.iter().map(|record| &record["request_id"]).collect();
        assert_eq!(records.len(), 2, "what happened, and the request: {records:?}");
        assert_eq!(ids[0], ids[1], "{records:?}");
        assert!(id.is_none_or(|id| ids[0] == id), "{records:?}");
        site.write("large.bin", vec![b'x'; 2_000_000]);
    }
    daemon.assert_alive(idle);
}

#[test]
fn how_a_transfer_ended_is_told() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--stall-timeout", "200ms"]);
    let idle = daemon.idle_descriptors();
    let large = |id: &str| Packet::get(stream_target(&["large.bin", "a.txt"])).header("X-Request-Id", id);
    assert_eq!(daemon.send(&large("whole")).parts().len(), 2);
    let whole = daemon.request_record("whole");
    assert!(whole["cut"].is_null(), "{whole}");

    let mut stream = connect(daemon.socket());
    stream.write_all(&large("gone").to_bytes()).expect("room for a packet");
    stream.read_exact(&mut [0; 5000]).expect("the start of an answer");
    drop(stream);
    let mut stalled = connect(daemon.socket());
    stalled.write_all(&large("stalled").to_bytes()).expect("room for a packet");
    for (id, cut) in [("gone", "client"), ("stalled", "stalled")] {
        let record = daemon.request_record(id);
        assert_eq!((&record["cut"], &record["status"]), (&cut.into(), &200.into()), "{record}");
        let bytes = record["bytes"].as_u64().expect("a count");
        assert!(bytes > 0 && bytes < 2_000_000, "what was sent of it: {record}");
        assert_eq!(record["parts"], 2, "{record}");
    }
    daemon.assert_alive(idle);
}

#[test]
fn the_peers_faults_are_told_at_debug_and_ours_at_error() {
    let site = site();
    for (level, expected) in [
        ("error", &["ERROR"][..]),
        ("warn", &["ERROR"]),
        ("info", &["ERROR", "INFO"]),
        ("debug", &["DEBUG", "ERROR", "INFO"]),
    ] {
        site.write("large.bin", vec![b'x'; 2_000_000]);
        let arguments = ["--log-level", level, "--stall-timeout", "200ms", "--head-timeout", "200ms"];
        let mut daemon = Daemon::start(&site, &arguments);
        let idle = daemon.idle_descriptors();
        let packet = Packet::get(stream_target(&["large.bin"])).to_bytes();
        let begin = || {
            let mut stream = connect(daemon.socket());
            stream.write_all(&packet).expect("room for a packet");
            stream.read_exact(&mut [0; 1000]).expect("the start of an answer");
            stream
        };
        // The peer's: goes away, stalls, sends what is no request, or half of one, or none in time.
        drop(begin());
        begin().set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
        exchange(daemon.socket(), b"GET / HTTP/1.0\r\n\r\n").problem(400);
        exchange_half_closed(daemon.socket(), &packet[..9]).problem(400);
        exchange(daemon.socket(), &packet[..9]).problem(408);
        daemon.send(&Packet::get("/api/health").with("CONTENT_LENGTH", "x")).problem(400);
        daemon.send(&Packet::get(stream_target(&["none"]))).problem(404);
        let mut stalled = begin();
        let mut received = Vec::new();
        std::thread::sleep(Duration::from_millis(300)); // longer than it may stall
        stalled.read_to_end(&mut received).expect("an end");
        // Ours: a file is not what was promised.
        let mut cut = begin();
        File::options().write(true).open(site.path("large.bin")).and_then(|f| f.set_len(5)).expect("shorter");
        cut.read_to_end(&mut received).expect("an end");
        daemon.recorded("of our own fault", |record| record["level"] == "ERROR");
        daemon.assert_alive(idle);
        daemon.signal("TERM");
        assert!(daemon.wait().success());
        let records = daemon.records();
        let mut levels: Vec<_> = records.iter().map(|record| record["level"].as_str().expect("a level")).collect();
        levels.sort_unstable();
        levels.dedup();
        assert_eq!(levels, expected, "{level}: {}", daemon.log());
        let errors: Vec<_> = records.iter().filter(|record| record["level"] == "ERROR").collect();
        assert_eq!((errors.len(), &errors[0]["parameter"]), (1, &"file0".into()), "{errors:?}");
        std::fs::write(site.beside("axon.log"), "").expect("an empty log for the next one");
    }
}

#[test]
fn the_access_log_can_be_switched_off_alone() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--access-log", "off"]);
    let idle = daemon.idle_descriptors();
    assert_eq!(daemon.get("/api/health").status, 200);
    exchange(daemon.socket(), b"GET / HTTP/1.0\r\n\r\n").problem(400);
    let mut stream = connect(daemon.socket());
    stream.write_all(&Packet::get(stream_target(&["large.bin"])).to_bytes()).expect("room for a packet");
    stream.read_exact(&mut [0; 1000]).expect("the start of an answer");
    File::options().write(true).open(site.path("large.bin")).and_then(|f| f.set_len(5)).expect("shorter");
    stream.read_to_end(&mut Vec::new()).expect("an end");
    // What is wrong is still told.
    daemon.recorded("of our own fault", |record| record["level"] == "ERROR");
    daemon.assert_alive(idle);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
    assert!(daemon.records().iter().all(|record| record["message"] != "request"), "{}", daemon.log());
}

#[test]
fn text_is_one_line_a_record() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--log-format", "text"]);
    let idle = daemon.idle_descriptors();
    daemon.send(&Packet::get(format!("{STREAM}?file1=a.txt")).header("X-Request-Id", "plain"));
    let line = daemon.logged(&["request_id=plain"]);
    for word in
        ["INFO", "method=\"GET\"", "path=/api/stream-files", "query=file1=a.txt", "status=200", "bytes=10", "parts=1"]
    {
        assert!(line.contains(word), "{word} in {line}");
    }
    assert!(line.contains("peer=192.0.2.10") && line.contains("duration_us="), "{line}");
    // Control bytes, colours and line breaks of a peer do not reach a terminal.
    let nasty: Vec<u8> = (0..=255).collect();
    daemon
        .send(&Packet::get("/").with("PATH_INFO", &nasty).with("QUERY_STRING", &nasty).header("X-Request-Id", "nasty"));
    daemon.logged(&["request_id=nasty", "status=404"]);
    assert!(daemon.log().bytes().all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)), "visible ASCII only");
    // Nor does a path look like another field.
    daemon.send(&Packet::get("/x status=500 peer=203.0.113.9").header("X-Request-Id", "forged"));
    let line = daemon.logged(&["request_id=forged"]);
    assert!(!line.contains(" status=500") && !line.contains(" peer=203.0.113.9"), "{line}");
    daemon.assert_alive(idle);
}
