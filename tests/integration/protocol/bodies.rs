//! Request bodies: what frames them, and that none becomes a reset or a second request.

use std::{io::Write as _, time::Instant};

use crate::harness::{Answer, Daemon, End, Packet, STREAM, connect, read_answer};

use super::{PROMPT, site};

/// Sends all of it and reads to the end. A reset is told to whoever sends as well, and then not to who reads.
#[track_caller]
fn send_all(daemon: &Daemon, bytes: &[u8]) -> Answer {
    let started = Instant::now();
    let mut stream = connect(daemon.socket());
    stream.write_all(bytes).expect("all of it is taken");
    read_answer(&mut stream, started)
}

#[test]
fn a_content_length_is_empty_or_digits_that_fit() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for length in ["", "0", "00", "5"] {
        let answer = daemon.send(&Packet::get("/api/health").with("CONTENT_LENGTH", length));
        assert_eq!((answer.status, answer.end), (200, End::Closed), "{length:?}");
    }
    let odd =
        ["+5", "-1", "5x", " 5", "5 ", "\t5", "0x5", "5,5", "5, 5", "5.0", "1e3", "\u{ff15}", "99999999999999999999"];
    for length in odd.into_iter().chain(["18446744073709551616", "-0", "\0", "5\0"]) {
        for method in ["GET", "POST"] {
            let packet = Packet::new(method, "/api/health").body("hello").with("CONTENT_LENGTH", length);
            let answer = daemon.send(&packet);
            assert!(answer.problem(400).contains("CONTENT_LENGTH"), "{length:?}: {}", answer.text());
            assert!(answer.duration < PROMPT, "{length:?} took {:?}", answer.duration);
        }
    }
    let largest = Packet::new("POST", "/api/health").with("CONTENT_LENGTH", u64::MAX.to_string());
    daemon.send(&largest).problem(405);
    daemon.assert_alive(idle);
}

#[test]
fn only_content_length_frames_a_body() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let framed = |packet: Packet| packet.header("Transfer-Encoding", "chunked").header("Expect", "100-continue");
    let get = daemon.send(&framed(Packet::get("/api/health").header("Content-Length", "7")));
    assert_eq!((get.status, get.text(), get.end), (200, "{\"status\":\"available\"}", End::Closed));
    assert!(get.duration < PROMPT, "{:?}", get.duration);
    for body in ["hello", "5\r\nhello\r\n0\r\n\r\n"] {
        let answer = daemon.send(&framed(Packet::new("POST", "/api/health").body(body)));
        answer.problem(405);
        assert!(answer.raw.starts_with(b"HTTP/1.1 405 "), "no interim answer");
        assert!(answer.duration < PROMPT, "{:?}", answer.duration);
    }
    daemon.assert_alive(idle);
}

#[test]
fn an_answer_before_the_body_never_becomes_a_reset() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--max-body", "1m"]);
    let idle = daemon.idle_descriptors();
    for (len, times) in [(1, 20), (65_536, 20), (900_000, 20), (1_048_577, 5), (5_000_000, 2)] {
        let packet = Packet::new("POST", "/api/health").body(vec![0; len]);
        for _ in 0..times {
            let answer = send_all(&daemon, &packet.to_bytes());
            answer.problem(405);
            assert!(answer.duration < PROMPT, "{len} bytes took {:?}", answer.duration);
        }
        // With a body that is of no use to a GET it is the same.
        let get = Packet::get(format!("{STREAM}?file1=a.txt&file2=b.txt")).body(vec![0; len]);
        let answer = send_all(&daemon, &get.to_bytes());
        assert_eq!((answer.parts().len(), answer.end), (2, End::Closed), "{len}");
    }
    // There is a bound on what is read for nothing; beyond it the answer still has come before the end.
    let answer = daemon.send(&Packet::new("POST", "/api/health").body(vec![0; 20 << 20]));
    assert_eq!((answer.status, answer.content_length()), (405, answer.body.len() as u64));
    assert_ne!(answer.end, End::Hanging);
    daemon.assert_alive(idle);
}

#[test]
fn a_body_that_never_comes_is_not_waited_for() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (packet, status) in [
        (Packet::new("POST", "/api/health"), 405),
        (Packet::get("/api/health"), 200),
        (Packet::get(format!("{STREAM}?file1=none")), 404),
    ] {
        let answer = daemon.send(&packet.with("CONTENT_LENGTH", "900000"));
        assert_eq!((answer.status, answer.end), (status, End::Closed));
        assert_eq!(answer.content_length(), answer.body.len() as u64);
        assert!(answer.duration < PROMPT, "{:?}", answer.duration);
    }
    daemon.assert_alive(idle);
}

#[test]
fn what_follows_a_request_is_never_another_one() {
    let site = site();
    site.write("large.bin", vec![b'x'; 2_000_000]);
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let second = Packet::get(format!("{STREAM}?file1=b.txt")).to_bytes();
    let smuggled = |mut packet: Packet, copies: usize| {
        packet.body.extend(second.repeat(copies));
        packet.to_bytes()
    };
    let large = Packet::get(format!("{STREAM}?file1=large.bin"));
    for (bytes, status, body_len) in [
        (Packet::new("POST", "/api/health").body(&second).to_bytes(), 405, None),
        (smuggled(Packet::new("POST", "/api/health").body("hello"), 1), 405, None),
        (smuggled(Packet::get("/api/health"), 1), 200, Some(22)),
        (smuggled(Packet::get("/api/health"), 1000), 200, Some(22)),
        (smuggled(Packet::get("/api/nothing"), 1), 404, None),
        (smuggled(large, 1), 200, Some(2_000_000)),
    ] {
        let answer = send_all(&daemon, &bytes);
        assert_eq!((answer.status, answer.end), (status, End::Closed));
        assert_eq!(answer.content_length(), answer.body.len() as u64, "one answer and nothing more");
        assert!(body_len.is_none_or(|len| len == answer.body.len()));
        assert!(!answer.raw.windows(6).any(|window| window == b"abcdef"));
    }
    daemon.assert_alive(idle);
}
