//! Every limit from both sides: what just fits is served, what just does not is told so.
//!
//! | limit | where both sides are tried |
//! | --- | --- |
//! | variables: 65,535 bytes, 1,000 of them | `protocol::packets`, `protocol::variables` |
//! | files of a query, descriptors of a request | `faults::load`, `faults::descriptors` |
//! | connections at once | `faults::load` |
//! | time to send a request, to take nothing, to finish | `protocol::packets`, `faults::load`, `sockets::shutdown`, here |
//! | threads that wait for a disk | `faults::disks` |
//! | a log's queue | `faults::sinks` |
//! | all others | here |

use std::{
    fs::File,
    io::{Read as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use crate::harness::{
    Answer, Daemon, End, Packet, STREAM, Site, connect, exchange_in_pieces, leave_out, read_answer, run_axon, stderr,
    stream_target,
};

/// Longer than this no answer may take, however large what was asked for.
const PROMPT: Duration = Duration::from_secs(2);

fn site() -> Site {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("b.txt", "abcdef");
    site
}

/// A list in JSON.
fn list(body: impl AsRef<[u8]>) -> Packet {
    Packet::new("POST", STREAM).with("CONTENT_TYPE", "application/json").body(body)
}

#[test]
fn a_body_is_read_up_to_its_limit() {
    let site = site();
    let padded = |len: usize| {
        let mut body = br#"{"files": ["a.txt", "b.txt"]}"#.to_vec();
        body.resize(len, b' ');
        list(body)
    };
    for (limit, len) in [("200", 200), ("64k", 65_536), ("1m", 1_048_576)] {
        let mut daemon = Daemon::start(&site, &["--max-body", limit]);
        let idle = daemon.idle_descriptors();
        assert_eq!(daemon.send(&padded(len)).parts().len(), 2, "{limit}");
        let answer = daemon.send(&padded(len + 1));
        let problem = answer.problem(413);
        assert!(problem.contains(&(len + 1).to_string()) && problem.contains(&len.to_string()), "{problem}");
        // It is the announced length that counts: nothing of such a body is waited for.
        let announced = list("{}").with("CONTENT_LENGTH", u64::MAX.to_string());
        let answer = daemon.send(&announced);
        answer.problem(413);
        assert!(answer.duration < PROMPT, "{:?}", answer.duration);
        daemon.assert_alive(idle);
    }
}

#[test]
fn a_list_names_files_up_to_their_limit() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let files = |count: usize| list(format!(r#"{{"files": [{}]}}"#, vec![r#""a.txt""#; count].join(",")));
    assert_eq!(daemon.send(&files(1000)).parts().len(), 1000);
    for count in [1001, 100_000] {
        let answer = daemon.send(&files(count));
        assert!(answer.problem(400).contains("more than 1000 files"), "{}", answer.text());
        assert!(answer.duration < PROMPT, "{:?}", answer.duration);
    }
    daemon.assert_alive(idle);
}

#[test]
fn names_are_taken_up_to_their_limits() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let parameter = |len: usize| daemon.get(format!("{STREAM}?file{}=a.txt", "x".repeat(len - 4)));
    assert_eq!(parameter(100).text(), "0123456789");
    for len in [101, 30_000] {
        assert!(parameter(len).problem(400).contains("longer than 100 bytes"), "{len}");
    }
    let save_under = |len: usize| {
        let name = "n".repeat(len);
        daemon.send(&list(format!(r#"{{"files": [{{"path": "a.txt", "name": "{name}"}}]}}"#)))
    };
    let answer = save_under(255);
    assert!(answer.header("content-disposition").is_some_and(|value| value.contains(&"n".repeat(255))), "{answer:?}");
    for len in [256, 100_000] {
        assert!(save_under(len).problem(400).contains("1 to 255 bytes"), "{len}");
    }
    // A path has 4,095 bytes: then it is looked for, and a longer one is not (`paths::names`).
    let path = |len: usize| daemon.get(stream_target(&["x".repeat(len)]));
    path(4095).problem(404);
    assert!(path(4096).problem(400).contains("too long"));
    daemon.assert_alive(idle);
}

#[test]
fn ranges_are_answered_up_to_their_limit() {
    let site = Site::empty();
    let content: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    site.write("c.bin", &content);
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let ranges = |count: usize| {
        let specs: Vec<String> = (0..count).map(|index| format!("{}-{}", 10 * index, 10 * index + 1)).collect();
        daemon.send(&Packet::get(stream_target(&["c.bin"])).header("Range", format!("bytes={}", specs.join(","))))
    };
    let answer = ranges(64);
    assert_eq!(answer.status, 206);
    let parts = String::from_utf8_lossy(&answer.body).matches("Content-Range: bytes ").count();
    assert_eq!((parts, answer.content_length()), (64, answer.body.len() as u64));
    for count in [65, 500] {
        let answer = ranges(count);
        assert_eq!((answer.status, &answer.body), (200, &content), "{count}");
    }
    daemon.assert_alive(idle);
}

#[test]
fn header_fields_may_be_as_long_as_a_packet() {
    /// What is left of 65,535 bytes beside the other variables.
    const LONGEST: usize = 64_000;
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let target = stream_target(&["a.txt", "b.txt"]);
    let whole = daemon.get(&target);
    let tag = whole.header("etag").expect("a tag").to_owned();
    let long = |start: &str, piece: &str, end: &str| {
        start.to_owned() + &piece.repeat((LONGEST - start.len() - end.len()) / piece.len()) + end
    };
    let ask = |name: &str, value: &str| -> Answer {
        let answer = daemon.send(&Packet::get(&target).header(name, value));
        assert!(answer.duration < PROMPT, "{name} took {:?}", answer.duration);
        assert_eq!(answer.end, End::Closed, "{name}");
        answer
    };
    // What a field means counts, also where it stands at the end.
    assert_eq!(ask("If-None-Match", &long("", "\"x\",", &tag)).status, 304);
    assert_eq!(ask("If-None-Match", &long("", "\"x\",", "\"y\"")).raw, whole.raw);
    assert_eq!(ask("If-Match", &long("", "\"x\",", &tag)).raw, whole.raw);
    ask("If-Match", &long("", "\"x\",", "\"y\"")).problem(412);
    let accepted = ask("Accept", &long("", "a/b;q=0.1,", "multipart/form-data"));
    assert!(accepted.header("content-type").is_some_and(|value| value.starts_with("multipart/form-data")));
    // More ranges than are answered, and a set that is none: the whole.
    assert_eq!(ask("Range", &long("bytes=", "0-0,", "0-0")).status, 206, "all of them are one");
    assert_eq!(ask("Range", &long("bytes=", "0-0,8-8,", "x")).raw, whole.raw);
    ask("Range", &long("bytes=", "9", "-")).problem(416);
    for (name, start) in [("If-Range", "\""), ("If-Modified-Since", ""), ("If-Unmodified-Since", ""), ("Cookie", "")] {
        assert_eq!(ask(name, &long(start, "x", "")).raw, whole.raw, "{name}");
    }
    let id = "i".repeat(LONGEST);
    assert_eq!(ask("X-Request-Id", &id).raw, whole.raw);
    let record =
        daemon.recorded("of a long id", |record| record["request_id"].as_str().is_some_and(|id| id.starts_with("iii")));
    assert!(record["request_id"].as_str().is_some_and(|id| id.len() < 600), "{record}");
    daemon.assert_alive(idle);
}

#[test]
fn a_request_that_is_slow_but_in_time_is_answered() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--head-timeout", "1s"]);
    let idle = daemon.idle_descriptors();
    let bytes = Packet::get(stream_target(&["a.txt"])).to_bytes();
    let pieces: Vec<&[u8]> = bytes.chunks(bytes.len().div_ceil(4)).collect();
    let answer = exchange_in_pieces(daemon.socket(), &pieces, Duration::from_millis(50));
    assert_eq!((answer.status, answer.text()), (200, "0123456789"));
    // A body has to arrive in the same time, and one that does not is told so.
    let bytes = list(r#"{"files": ["a.txt"]}"#).to_bytes();
    let (most, last) = bytes.split_at(bytes.len() - 1);
    let answer = exchange_in_pieces(daemon.socket(), &[most, last], Duration::from_millis(100));
    assert_eq!((answer.status, answer.text()), (200, "0123456789"));
    let started = Instant::now();
    let mut stream = connect(daemon.socket());
    stream.write_all(most).expect("room for a packet");
    let answer = read_answer(&mut stream, started);
    drop(stream);
    answer.problem(408);
    assert!(answer.duration >= Duration::from_secs(1), "{:?}", answer.duration);
    daemon.assert_alive(idle);
}

#[test]
fn options_have_bounds() {
    let site = site();
    let root = site.root();
    let root = root.to_str().expect("a path");
    for (option, least, most, outside) in [
        ("--chunk-size", "4k", "16m", &["4095", "16777217"][..]),
        ("--workers", "1", "8", &["0", "1025"]),
        ("--max-files", "1", "4294967295", &["0", "4294967296"]),
        ("--max-connections", "2", "4294967295", &["0", "4294967296"]),
        ("--head-timeout", "1s", "876000h", &["0", "876001h"]),
        ("--stall-timeout", "1s", "876000h", &["0", "876001h"]),
        ("--drain-timeout", "0", "876000h", &["876001h"]),
        ("--max-body", "100", "17179869183g", &["17179869184g"]),
    ] {
        for value in [least, most] {
            let mut daemon = Daemon::start(&site, &[option, value]);
            let idle = daemon.idle_descriptors();
            assert_eq!(daemon.get(stream_target(&["a.txt"])).text(), "0123456789", "{option} {value}");
            daemon.assert_alive(idle);
        }
        for value in outside {
            let output = run_axon(["serve", "--root", root, "--uwsgi", "unix:./x.sock", option, value]);
            assert_eq!(output.status.code(), Some(2), "{option} {value}");
            assert!(stderr(&output).contains(option), "{}", stderr(&output));
        }
    }
}

#[test]
fn files_have_a_longest_sum() {
    /// nginx and the kernel count in 64 bits with a sign.
    const MAX_LEN: u64 = i64::MAX.cast_unsigned();

    // A tmpfs holds sparse files of every length; most other file systems end sooner.
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return leave_out("there is no /dev/shm for files of 8 EiB");
    }
    let site = Site::empty_in(memory);
    let sparse = |name, len| {
        File::create(site.path(name)).and_then(|file| file.set_len(len)).expect("a sparse file");
    };
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let length = |target: String| {
        let answer = daemon.send(&Packet::new("HEAD", target));
        (answer.status, answer.content_length())
    };
    sparse("max.bin", MAX_LEN);
    assert_eq!(length(stream_target(&["max.bin"])), (200, MAX_LEN));
    // As many digits as there can be, so that the heads are as long.
    sparse("a.bin", MAX_LEN - 1000);
    let bundle = format!("{}&format=mixed", stream_target(&["a.bin"]));
    let (status, len) = length(bundle.clone());
    assert_eq!(status, 200);
    let fitting = MAX_LEN - (len - (MAX_LEN - 1000));
    sparse("a.bin", fitting);
    assert_eq!(length(bundle.clone()), (200, MAX_LEN));
    sparse("a.bin", fitting + 1);
    // By HEAD first: were it served, it would never end.
    assert_eq!(length(bundle.clone()).0, 400);
    let problem = daemon.get(bundle);
    assert!(problem.problem(400).contains("more than 9223372036854775807 bytes"), "{}", problem.text());
    // Of a sum beyond 64 bits only a little would be left.
    for count in [2, 3, 4, 1000] {
        assert_eq!(length(stream_target(&vec!["max.bin"; count])).0, 400, "{count}");
    }
    // Ranges apart have heads of their own: where they and what lies between them fill it up, the whole is the answer.
    for (gap, status) in [(2, 200), (1_u64 << 62, 206)] {
        let apart = format!("bytes=0-99,{}-", 100 + gap);
        let packet = Packet::get(stream_target(&["max.bin"])).header("Range", &apart);
        let mut stream = connect(daemon.socket());
        stream.write_all(&packet.to_bytes()).expect("room for a packet");
        let mut head = vec![0; 1000];
        stream.read_exact(&mut head).expect("the start of an answer");
        let head = String::from_utf8_lossy(&head).to_lowercase();
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{apart}: {head}");
        let announced =
            head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).expect("a length");
        let announced: u64 = announced.parse().expect("a number");
        assert!(announced <= MAX_LEN && (status == 206 || announced == MAX_LEN), "{apart}: {announced}");
    }
    daemon.assert_alive(idle);
}
