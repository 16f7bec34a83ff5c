//! The uwsgi protocol: packets whole, in pieces, at their limits, and what only looks like one.

use std::{io::Write as _, net::Shutdown, time::Duration, time::Instant};

use crate::harness::{
    Daemon, End, Packet, STREAM, Site, connect, exchange, exchange_half_closed, exchange_in_pieces, read_answer,
};

/// From here on an answer does not count as given at once.
const PROMPT: Duration = Duration::from_secs(1);

/// A site with what these tests ask for.
fn site() -> Site {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("b.txt", "abcdef");
    site
}

/// The length of a packet's variables: what the 16-bit size field counts.
fn block_len(packet: &Packet) -> usize {
    packet.to_bytes().len() - 4 - packet.body.len()
}

#[test]
fn variable_blocks_up_to_the_16_bit_limit_are_served() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for len in [500, 4095, 4096, 4097, 8192, 30_000, 65_534, 65_535] {
        let cookie = |pad: usize| Packet::get("/api/health").header("Cookie", "x".repeat(pad));
        let packet = cookie(len - block_len(&cookie(0)));
        assert_eq!(block_len(&packet), len);
        assert_eq!(daemon.send(&packet).status, 200, "a cookie in a block of {len}");
        // A separator that separates nothing: the longest query that still names one short file.
        let query = |pad: usize| {
            Packet::get("/").with("QUERY_STRING", "&".repeat(pad) + "file1=a.txt").with("PATH_INFO", STREAM)
        };
        let packet = query(len - block_len(&query(0)));
        assert_eq!(block_len(&packet), len);
        assert_eq!(daemon.send(&packet).text(), "0123456789", "a query in a block of {len}");
    }
    daemon.assert_alive(idle);
}

#[test]
fn every_split_of_a_packet_gives_the_same_answer() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let get = Packet::get(format!("{STREAM}?file1=a.txt&file2=b.txt"));
    let post = Packet::new("POST", "/api/health").body("hello");
    for (packet, status) in [(get, 200), (post, 405)] {
        let bytes = packet.to_bytes();
        let whole = daemon.send(&packet);
        assert_eq!((whole.status, whole.end), (status, End::Closed));
        for piece_len in [1, 2, 3, 4, 5, 7, 64, bytes.len()] {
            let pieces: Vec<&[u8]> = bytes.chunks(piece_len).collect();
            let answer = exchange_in_pieces(daemon.socket(), &pieces, Duration::from_micros(300));
            assert_eq!(answer.end, End::Closed, "pieces of {piece_len}");
            assert_eq!(answer.raw, whole.raw, "pieces of {piece_len}");
        }
        for first in [1, 4, 5, bytes.len() - 6, bytes.len() - 5, bytes.len() - 2, bytes.len() - 1] {
            let (head, tail) = bytes.split_at(first);
            let answer = exchange_in_pieces(daemon.socket(), &[head, tail], Duration::from_millis(5));
            assert_eq!((answer.raw, answer.end), (whole.raw.clone(), End::Closed), "split after {first}");
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn every_other_modifier_is_refused_from_the_first_byte() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for modifier in (1..=255).filter(|modifier| *modifier != 100) {
        let mut packet = Packet::get("/api/health");
        packet.modifiers.0 = modifier;
        for bytes in [packet.to_bytes(), vec![modifier]] {
            let answer = exchange(daemon.socket(), &bytes);
            let problem = answer.problem(400).to_owned();
            assert!(problem.contains(&format!("modifier1 {modifier} ")), "{problem}");
            assert!(answer.duration < PROMPT, "{modifier} took {:?}", answer.duration);
        }
        daemon.logged(&[&format!("modifier1 {modifier} "), "\"status\":400"]);
    }
    daemon.assert_alive(idle);
}

#[test]
fn other_protocols_are_told_apart_from_their_first_byte() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (bytes, modifier) in [
        (&b"GET /api/health HTTP/1.0\r\n\r\n"[..], b'G'),
        (b"POST /api/health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", b'P'),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b'P'),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 0x16), // TLS
        (b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00", 1), // FastCGI
        (b"\r\n", b'\r'),
    ] {
        let answer = exchange(daemon.socket(), bytes);
        assert!(answer.problem(400).contains(&format!("modifier1 {modifier} ")), "{}", answer.text());
        assert!(answer.duration < PROMPT, "{:?}", answer.duration);
        daemon.logged(&[&format!("modifier1 {modifier} "), "\"status\":400"]);
    }
    daemon.assert_alive(idle);
}

#[test]
fn a_ping_is_answered_and_leaves_no_record() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let ping = [100, 0, 0, 0];
    for pieces in [vec![&ping[..]], ping.chunks(1).collect()] {
        let answer = exchange_in_pieces(daemon.socket(), &pieces, Duration::from_millis(1));
        assert_eq!((&answer.raw[..], answer.end), (&[0x64, 0, 0, 1][..], End::Closed));
        assert!(answer.duration < PROMPT);
    }
    assert_eq!(exchange_half_closed(daemon.socket(), &ping).raw, [0x64, 0, 0, 1]);
    daemon.send(&Packet::get("/api/health").header("X-Request-Id", "after the pings"));
    daemon.request_record("after the pings");
    let requests = daemon.records().into_iter().filter(|record| record["message"] == "request").count();
    assert_eq!(requests, 1, "{}", daemon.log());
    daemon.assert_alive(idle);
}

#[test]
fn modifier2_makes_no_difference() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let mut packet = Packet::get(format!("{STREAM}?file1=a.txt"));
    let expected = daemon.send(&packet).raw;
    for modifier2 in 0..=255 {
        packet.modifiers.1 = modifier2;
        assert_eq!(daemon.send(&packet).raw, expected, "{modifier2}");
    }
    daemon.assert_alive(idle);
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
fn an_answer_before_the_body_never_becomes_a_reset() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--max-body", "1m"]);
    let idle = daemon.idle_descriptors();
    for (len, times) in [(1, 20), (65_536, 20), (900_000, 20), (1_048_577, 5), (5_000_000, 2)] {
        let packet = Packet::new("POST", "/api/health").body(vec![0; len]);
        for _ in 0..times {
            let answer = daemon.send(&packet);
            answer.problem(405);
            assert!(answer.duration < PROMPT, "{len} bytes took {:?}", answer.duration);
        }
        // With a body that is of no use to a GET it is the same.
        let get = Packet::get(format!("{STREAM}?file1=a.txt&file2=b.txt")).body(vec![0; len]);
        let answer = daemon.send(&get);
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
        let answer = exchange(daemon.socket(), &bytes);
        assert_eq!((answer.status, answer.end), (status, End::Closed));
        assert_eq!(answer.content_length(), answer.body.len() as u64, "one answer and nothing more");
        assert!(body_len.is_none_or(|len| len == answer.body.len()));
        assert!(!answer.raw.windows(6).any(|window| window == b"abcdef"));
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

#[test]
fn a_half_closed_connection_is_answered() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let packet = Packet::get(format!("{STREAM}?file1=a.txt&file2=b.txt"));
    let bytes = packet.to_bytes();
    let answer = exchange_half_closed(daemon.socket(), &bytes);
    assert_eq!((answer.raw, answer.end), (daemon.send(&packet).raw, End::Closed));
    for end in (1..bytes.len()).step_by(11).chain([2, 3, 4, 5, bytes.len() - 1]) {
        let answer = exchange_half_closed(daemon.socket(), &bytes[..end]);
        answer.problem(400);
        assert!(answer.duration < PROMPT, "{end} bytes took {:?}", answer.duration);
    }
    // A body that is announced and ends early.
    let cut = Packet::new("POST", "/api/health").body("he").with("CONTENT_LENGTH", "5");
    exchange_half_closed(daemon.socket(), &cut.to_bytes()).problem(405);
    // Nobody asked anything.
    let answer = exchange_half_closed(daemon.socket(), b"");
    assert_eq!((&answer.raw[..], answer.end), (&b""[..], End::Closed));
    daemon.assert_alive(idle);
}

#[test]
fn a_peer_that_goes_away_before_its_answer_does_no_harm() {
    let site = site();
    site.write("large.bin", vec![b'x'; 2_000_000]);
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for target in ["/api/health".to_owned(), format!("{STREAM}?file1=large.bin"), format!("{STREAM}?file1=none")] {
        let bytes = Packet::get(target).to_bytes();
        for end in [0, 1, 4, bytes.len() / 2, bytes.len()] {
            let mut stream = connect(daemon.socket());
            stream.write_all(&bytes[..end]).expect("room for a packet");
            drop(stream);
            let mut stream = connect(daemon.socket());
            stream.write_all(&bytes[..end]).expect("room for a packet");
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn a_request_has_to_arrive_in_time() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--head-timeout", "300ms"]);
    let idle = daemon.idle_descriptors();
    let bytes = Packet::get("/api/health").to_bytes();
    let within = Duration::from_millis(300)..Duration::from_secs(2);
    for end in [0, 1, 4, bytes.len() - 1] {
        let answer = exchange(daemon.socket(), &bytes[..end]);
        answer.problem(408);
        assert!(within.contains(&answer.duration), "{end} bytes: {:?}", answer.duration);
    }
    // A byte now and then does not earn more time.
    let started = Instant::now();
    let mut stream = connect(daemon.socket());
    let mut bytes = bytes.iter();
    let mut sent = 0;
    while started.elapsed() < Duration::from_millis(600) {
        let byte = bytes.next().expect("the packet is longer");
        sent += usize::from(stream.write_all(&[*byte]).is_ok());
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer = read_answer(&mut stream, started);
    answer.problem(408);
    assert!(sent > 2, "{sent}");
    drop(stream);
    daemon.logged(&["\"status\":408", "in time"]);
    // An answer is not a request: it may take longer.
    assert_eq!(daemon.get("/api/health").status, 200);
    daemon.assert_alive(idle);
}
