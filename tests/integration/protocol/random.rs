//! Packets at random, and good ones that were tampered with.

use std::{
    env,
    io::{ErrorKind, Read as _, Write as _},
    net::Shutdown,
    path::Path,
    thread,
};

use crate::harness::{Daemon, Packet, STREAM, Site, connect};

/// How many are sent, and by how many at once.
const PACKETS: usize = 10_000;
const SENDERS: usize = 4;

/// How much memory may be held in the end beyond what is held after a fifth of them.
const MAX_GROWTH_KIB: u64 = 4 * 1024;

/// What no answer may contain.
const OUTSIDE: &[u8] = b"content from outside the root";

/// The same numbers from the same seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `bound`, or 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or(0) % bound.max(1)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_be_bytes()[0]).collect()
    }
}

/// Requests that are as they should be.
fn good_ones() -> Vec<Vec<u8>> {
    let bundle = format!("{STREAM}?file1=a.txt&file2=sub%2Fc.txt&file3=large.bin");
    let list = r#"{"files": ["a.txt", {"path": "sub/c.txt", "name": "x"}], "format": "related", "missing": "part"}"#;
    [
        Packet::get("/api/health"),
        Packet::get(format!("{STREAM}?file1=a.txt")),
        Packet::get(&bundle),
        Packet::new("HEAD", &bundle),
        Packet::get(&bundle).header("Range", "bytes=0-99,200-,-5").header("If-Range", "\"x\""),
        Packet::get(&bundle).header("If-None-Match", "*").header("Accept", "multipart/form-data, */*;q=0.1"),
        Packet::get(format!("{STREAM}?file1=../secret.txt&file2=out")),
        Packet::new("POST", STREAM).with("CONTENT_TYPE", "application/json").body(list),
    ]
    .map(|packet| packet.to_bytes())
    .to_vec()
}

/// A packet that may be anything.
fn packet(dice: &mut Dice, good: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = good[dice.below(good.len())].clone();
    if dice.below(10) == 0 {
        let len = dice.below(3000);
        bytes = dice.bytes(len);
    }
    for _ in 0..dice.below(8) {
        let at = dice.below(bytes.len());
        let len = dice.below(bytes.len() - at).min(200);
        match dice.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
            1 if !bytes.is_empty() => bytes[at] = dice.next().to_be_bytes()[0],
            2 => drop(bytes.splice(at..at + len, [])),
            3 => {
                let inserted = dice.bytes(len);
                drop(bytes.splice(at..at, inserted));
            }
            4 => {
                let again = bytes[at..at + len].to_vec();
                drop(bytes.splice(at..at, again));
            }
            5 => {
                let other = &good[dice.below(good.len())];
                let from = dice.below(other.len());
                bytes.extend_from_slice(&other[from..]);
            }
            6 => bytes.truncate(at),
            // The lengths of the packet and of its variables are what a reader trusts most.
            _ if bytes.len() > 4 => {
                let length = [0, 1, 0xff, 0x7f, 0x80][dice.below(5)];
                let place = [1, 2, 4, 5, at][dice.below(5)];
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = length;
                }
            }
            _ => {}
        }
    }
    bytes
}

/// Sends bytes, at once or in two pieces, and sometimes goes away before the answer. Whatever comes must be an answer.
fn provoke(socket: &Path, bytes: &[u8], dice: &mut Dice) -> Result<(), String> {
    let mut stream = connect(socket);
    let (first, second) = bytes.split_at(if dice.below(4) == 0 { dice.below(bytes.len()) } else { bytes.len() });
    let sent = stream.write_all(first).and_then(|()| stream.write_all(second));
    if dice.below(5) == 0 {
        return Ok(());
    }
    // It may have answered and closed by now.
    let _ = sent.and_then(|()| stream.shutdown(Shutdown::Write));
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        // What was sent after the answer may make it a reset.
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err("hangs".into()),
        _ => {}
    }
    let answers = received.is_empty() || received.starts_with(b"HTTP/1.1 ") || received == [100, 0, 0, 1];
    if !answers {
        return Err(format!("is answered by {}", received.escape_ascii()));
    }
    if received.windows(OUTSIDE.len()).any(|window| window == OUTSIDE) {
        return Err("leads outside".into());
    }
    Ok(())
}

#[test]
fn ten_thousand_packets_at_random_change_nothing() {
    let seed = env::var("AXON_TEST_SEED").map_or(0x00a5_0a11, |seed| seed.parse().expect("AXON_TEST_SEED is a number"));
    let site = Site::awkward();
    site.write("large.bin", vec![b'x'; 100_000]);
    std::fs::write(site.beside("secret.txt"), OUTSIDE).expect("a file");
    std::os::unix::fs::symlink("../secret.txt", site.path("outside.txt")).expect("a link");
    let mut daemon = Daemon::start(&site, &["--head-timeout", "2s", "--log-level", "debug"]);
    let idle = daemon.idle_descriptors();
    let threads = daemon.threads();
    let good = good_ones();
    let provoke_with = |count: usize, round: u64| {
        thread::scope(|scope| {
            for sender in 0..SENDERS as u64 {
                let (socket, good) = (daemon.socket(), &good);
                scope.spawn(move || {
                    let mut dice = Dice(seed ^ (round << 32) ^ (sender << 48) ^ 0x9e37_79b9_7f4a_7c15);
                    for index in 0..count / SENDERS {
                        let bytes = packet(&mut dice, good);
                        if let Err(what) = provoke(socket, &bytes, &mut dice) {
                            panic!("AXON_TEST_SEED={seed}, {sender}/{index}: {} {what}", bytes.escape_ascii());
                        }
                    }
                });
            }
        });
    };
    provoke_with(PACKETS / 5, 0);
    let before = daemon.resident_kib();
    provoke_with(PACKETS - PACKETS / 5, 1);
    daemon.assert_alive(idle);
    let after = daemon.resident_kib();
    println!("{before} KiB after {} packets, {after} KiB after {PACKETS}", PACKETS / 5);
    assert!(after <= before + MAX_GROWTH_KIB, "AXON_TEST_SEED={seed}: {before} KiB, then {after} KiB");
    assert!(daemon.threads() <= threads + 8 * SENDERS, "AXON_TEST_SEED={seed}: {} threads", daemon.threads());
    daemon.assert_cpu_idle();
    let errors: Vec<_> = daemon.records().into_iter().filter(|record| record["level"] == "ERROR").collect();
    assert!(errors.is_empty(), "AXON_TEST_SEED={seed}: {errors:?}");
    // And it still does what it is for.
    let parts = daemon.get(format!("{STREAM}?file1=a.txt&file2=sub/c.txt")).parts();
    assert_eq!((&parts[0].body[..], &parts[1].body[..]), (&b"0123456789"[..], &b"insub"[..]));
}
