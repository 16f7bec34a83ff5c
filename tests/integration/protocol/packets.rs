//! Packets whole, in pieces, at their limits, and what only looks like one.

use std::{io::Write as _, net::Shutdown, time::Duration, time::Instant};

use crate::harness::{
    Daemon, End, Packet, STREAM, connect, exchange, exchange_half_closed, exchange_in_pieces, read_answer,
};

use super::{PROMPT, block_len, site};

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
    for modifier in (1..=255).filter(|modifier: &u8| *modifier != 100) {
        let mut packet = Packet::get("/api/health");
        packet.modifiers.0 = modifier;
        for bytes in [packet.to_bytes(), vec![modifier]] {
            let answer = exchange(daemon.socket(), &bytes);
            let problem = answer.problem(400).to_owned();
            assert!(problem.contains(&format!("modifier1 {modifier} ")), "{problem}");
            assert!(answer.duration < PROMPT, "{modifier} took {:?}", answer.duration);
        }
    }
    for modifier in (1..=255).filter(|modifier| *modifier != 100) {
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
