//! Many files as one: lengths, order, identity, names, and one that cannot be served.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::harness::{BIG_LEN, Daemon, End, Packet, Part, STREAM, Site, connect, noise, read_multipart, stream_target};

const PAIR: &str = "/api/stream-files?file1=a.txt&file2=b.txt";

fn bodies(parts: &[Part]) -> Vec<&str> {
    parts.iter().map(|part| std::str::from_utf8(&part.body).expect("text")).collect()
}

fn boundary(content_type: &str) -> &str {
    content_type.strip_prefix("multipart/mixed; boundary=").expect("a type of a bundle")
}

/// The names of all files that can be served and are not huge, in a fixed order.
fn ordinary_files(site: &Site) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(site.root()).expect("a directory").map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.metadata().expect("an entry").is_file());
    let mut names: Vec<_> = files.map(|entry| entry.file_name().into_vec()).collect();
    names.retain(|name| !name.starts_with(b".") && name != b"big.bin" && name != b"locked.txt");
    names.push(b"sub/c.txt".to_vec());
    names.sort();
    names
}

#[test]
fn a_bundle_is_mixed_and_has_nothing_around_it() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let answer = daemon.get(PAIR);
    let content_type = answer.header("content-type").expect("a type");
    // Neither quoted nor followed by anything: some readers take it up to the end of the line.
    let boundary = boundary(content_type);
    assert!((32..=70).contains(&boundary.len()), "{boundary}");
    assert!(boundary.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')), "{boundary}");
    assert!(answer.body.starts_with(format!("--{boundary}\r\nContent-Type: ").as_bytes()));
    assert!(answer.body.ends_with(format!("abcdef\r\n--{boundary}--\r\n").as_bytes()));
    assert_eq!(bodies(&answer.parts()), ["0123456789", "abcdef"]);
    assert_eq!((answer.end, answer.header("axon-parts")), (End::Closed, Some("2")));
    assert!(answer.header("etag").is_some_and(|tag| tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2));
    let text = answer.text();
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "line breaks are CRLF");
    assert_eq!(text.matches(boundary).count(), 3);
    daemon.assert_alive(idle);
}

#[test]
fn one_file_is_sent_as_itself() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (name, media_type) in [
        ("a.txt", "text/plain; charset=utf-8"),
        ("empty.bin", "application/octet-stream"),
        ("s65537.bin", "application/octet-stream"),
        ("s3000000.bin", "application/octet-stream"),
    ] {
        let answer = daemon.get(stream_target(&[name]));
        assert_eq!((answer.status, answer.end), (200, End::Closed));
        assert_eq!(answer.header("content-type"), Some(media_type));
        assert_eq!(answer.content_length(), answer.body.len() as u64);
        assert!(answer.body == site.read(name), "{name}");
        let disposition = format!("inline; filename=\"{name}\"");
        assert_eq!(answer.header("content-disposition"), Some(&*disposition));
        assert!(answer.header("etag").is_some() && answer.header("last-modified").is_some());
        assert_eq!(answer.header("axon-parts"), None);
    }
    daemon.assert_alive(idle);
}

#[test]
fn every_part_has_its_length_and_its_content() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let names = ordinary_files(&site);
    assert!(names.len() > 25, "{}", names.len());
    let mut backwards = names.clone();
    backwards.reverse();
    for names in [&names, &backwards] {
        let parts = daemon.get(stream_target(names)).parts();
        assert_eq!(parts.len(), names.len());
        for (part, name) in parts.iter().zip(names) {
            // The length of each was compared with its content when it was read.
            assert!(part.body == site.read(OsStr::from_bytes(name)), "{}", name.escape_ascii());
            let location = part.header("content-location").expect("a location");
            assert!(location.is_ascii());
            assert_eq!(percent_decode_str(location).collect::<Vec<u8>>(), *name, "{location}");
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn the_size_of_a_write_makes_no_difference() {
    let site = Site::awkward();
    let secret = site.beside("secret");
    let target = stream_target(&ordinary_files(&site));
    let mut expected: Option<Vec<u8>> = None;
    for chunk_size in ["64k", "4k", "65535", "16m"] {
        let arguments = ["--chunk-size", chunk_size, "--secret-file", secret.to_str().expect("a path")];
        let mut daemon = Daemon::start(&site, &arguments);
        let idle = daemon.idle_descriptors();
        let raw = daemon.get(&target).raw;
        assert!(expected.get_or_insert_with(|| raw.clone()) == &raw, "{chunk_size}");
        daemon.assert_alive(idle);
    }
}

#[test]
fn lengths_beyond_32_bits_are_exact() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let alone = daemon.send(&Packet::new("HEAD", stream_target(&["big.bin"])));
    assert_eq!((alone.status, alone.content_length(), alone.body.len()), (200, BIG_LEN, 0));
    assert!(alone.duration < Duration::from_secs(1), "{:?}", alone.duration);

    // What comes before the content is read; what comes after it is known from a small bundle.
    let target = stream_target(&["big.bin", "a.txt"]);
    let total = daemon.send(&Packet::new("HEAD", &target)).content_length();
    let mut stream = connect(daemon.socket());
    stream.write_all(&Packet::get(&target).to_bytes()).expect("room for a packet");
    let mut start = [0; 4096];
    stream.read_exact(&mut start).expect("the start of an answer");
    drop(stream);
    let ends: Vec<usize> = (0..4000).filter(|&at| start[at..].starts_with(b"\r\n\r\n")).collect();
    let first_part_head = ends[1] - ends[0];
    assert!(start[ends[0]..ends[1]].windows(28).any(|line| line == b"\r\nContent-Length: 5368709120"));
    let small = daemon.get(stream_target(&["b.txt", "a.txt"]));
    let content = small.text().find("abcdef").expect("the first content");
    assert_eq!(total, first_part_head as u64 + BIG_LEN + (small.body.len() - content - "abcdef".len()) as u64);
    daemon.assert_alive(idle);
}

#[test]
fn head_says_what_get_would_and_sends_nothing() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let stream = |query: &str| format!("{STREAM}{query}");
    for (target, status) in [
        ("/api/health".to_owned(), 200),
        (stream("?file1=a.txt"), 200),
        (stream("?file1=empty.bin"), 200),
        (stream("?file1=s3000000.bin"), 200),
        (PAIR.to_owned(), 200),
        (stream("?file1=none"), 404),
        (stream("?file1=a.txt&file2=none"), 404),
        (stream("?file1=locked.txt"), 403),
        (stream(""), 400),
        ("/nothing".to_owned(), 404),
    ] {
        let get = daemon.get(&target);
        assert_eq!((get.status, get.end), (status, End::Closed), "{target}");
        for range in [None, Some("bytes=0-1"), Some("bytes=99-")] {
            let mut packet = Packet::new("HEAD", &target);
            if let Some(range) = range {
                packet = packet.header("Range", range);
            }
            let head = daemon.send(&packet);
            assert_eq!((head.status, &head.headers), (status, &get.headers), "{target}");
            assert_eq!((head.body.len(), head.end), (0, End::Closed), "{target}");
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn parts_come_in_the_order_of_the_query() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (query, expected) in [
        ("file1=a.txt&file2=b.txt", ["0123456789", "abcdef"]),
        ("file2=b.txt&file1=a.txt", ["abcdef", "0123456789"]),
        ("file10=a.txt&file9=b.txt", ["0123456789", "abcdef"]),
        ("file1=a.txt&file1=b.txt", ["0123456789", "abcdef"]),
        ("file=b.txt&file=a.txt", ["abcdef", "0123456789"]),
        ("file1=a.txt&file2=a.txt", ["0123456789", "0123456789"]),
        ("file1=a.txt&file1=a.txt", ["0123456789", "0123456789"]),
        ("file1=a.txt&&file2=b.txt&", ["0123456789", "abcdef"]),
        ("&file1=a.txt&file2=b.txt", ["0123456789", "abcdef"]),
        ("fileb=a.txt&filea=b.txt", ["0123456789", "abcdef"]),
        ("file[]=a.txt&file[]=b.txt", ["0123456789", "abcdef"]),
    ] {
        let answer = daemon.get(format!("{STREAM}?{query}"));
        let parts = answer.parts();
        assert_eq!(bodies(&parts), expected, "{query}");
        for part in &parts {
            let name = if part.body == b"abcdef" { "b.txt" } else { "a.txt" };
            assert_eq!(part.header("content-location"), Some(name), "{query}");
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn a_query_that_names_no_files_is_refused() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (query, detail) in [
        ("?", "no file"),
        ("?&&", "no file"),
        ("", "no file"),
        ("?file1=a.txt&x=1", "unknown parameter x"),
        ("?x=1", "unknown parameter x"),
        ("?File1=a.txt", "unknown parameter File1"),
        ("?file1=a.txt&=b.txt", "unknown parameter"),
        ("?=a.txt", "unknown parameter"),
        ("?file1=", "file1"),
        ("?file1", "file1"),
        ("?file1=a.txt&file2", "file2"),
    ] {
        let answer = daemon.get(format!("{STREAM}{query}"));
        let problem = answer.problem(400);
        assert!(problem.contains(detail), "{query}: {problem}");
    }
    // Only `&` separates: this is one name that nothing has.
    daemon.get(format!("{STREAM}?file1=a.txt;file2=b.txt")).problem(404);
    assert_eq!(daemon.get(format!("{STREAM}?file1=a;b=c.txt")).text(), "semi");
    daemon.assert_alive(idle);
}

#[test]
fn one_file_that_cannot_be_served_fails_the_whole_request_and_is_named() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (value, status) in [
        ("none.txt", 404),
        ("sub", 404),
        ("locked.txt", 403),
        ("pipe", 404),
        ("out/passwd", 404),
        (".env", 404),
        ("%00", 400),
        ("", 400),
    ] {
        for (place, query) in [
            format!("?file1={value}"),
            format!("?file1={value}&file2=a.txt&file3=b.txt"),
            format!("?file1=a.txt&file2={value}&file3=b.txt"),
            format!("?file1=a.txt&file2=b.txt&file3={value}"),
        ]
        .into_iter()
        .enumerate()
        {
            let index = place.saturating_sub(1);
            let answer = daemon.get(format!("{STREAM}{query}"));
            let problem: Value = serde_json::from_str(answer.problem(status)).expect("JSON");
            assert_eq!(problem["status"], status);
            assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
            let files = problem["files"].as_array().expect("the files to blame");
            assert_eq!(files.len(), 1, "{query}: {problem}");
            assert_eq!(
                (&files[0]["index"], &files[0]["status"]),
                (&Value::from(index), &Value::from(status)),
                "{query}"
            );
            assert_eq!(files[0]["parameter"], format!("file{}", index + 1), "{query}");
            for secret in ["0123456789", "abcdef", "/root", "/tmp", "etc"] {
                assert!(!answer.text().contains(secret), "{secret} in {}", answer.text());
            }
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn every_file_that_cannot_be_served_is_named() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let query = "?file1=none&file2=a.txt&file3=locked.txt&file3=sub&files=b.txt&file%C3%BC%22=%00&fileX=";
    let answer = daemon.get(format!("{STREAM}{query}"));
    let problem: Value = serde_json::from_str(answer.problem(400)).expect("JSON");
    let files = problem["files"].as_array().expect("the files to blame");
    let told: Vec<_> = files.iter().map(|file| (file["index"].as_u64(), file["status"].as_u64())).collect();
    let expected = [(0, 404), (2, 403), (3, 404), (5, 400), (6, 400)];
    assert_eq!(told, expected.map(|(index, status)| (Some(index), Some(status))), "{problem}");
    let parameters: Vec<_> = files.iter().filter_map(|file| file["parameter"].as_str()).collect();
    assert_eq!(parameters[..3], ["file1", "file3", "file3"]);
    assert_eq!(parameters[4], "fileX");

    // Also where all of many fail: the list is whole.
    let all: Vec<String> = (0..1000).map(|index| format!("none{index}")).collect();
    let answer = daemon.get(stream_target(&all));
    let problem: Value = serde_json::from_str(answer.problem(404)).expect("JSON");
    assert_eq!(problem["files"].as_array().map(Vec::len), Some(1000));
    daemon.assert_alive(idle);
}

#[test]
fn unchanged_files_give_the_same_bytes() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let names = ordinary_files(&site);
    let first = daemon.get(stream_target(&names)).raw;
    for _ in 0..3 {
        assert!(daemon.get(stream_target(&names)).raw == first);
    }
    let tag = |target: &str| {
        let answer = daemon.get(target);
        let content_type = answer.header("content-type").expect("a type").to_owned();
        (answer.header("etag").expect("a tag").to_owned(), boundary(&content_type).to_owned())
    };
    // Each of these is another body, so each has another tag and another boundary.
    let mut known = vec![tag(PAIR)];
    let other = |known: &mut Vec<_>, what: &str, target: &str| {
        let new = tag(target);
        assert!(known.iter().all(|(etag, boundary)| *etag != new.0 && *boundary != new.1), "{what}");
        known.push(new);
    };
    other(&mut known, "another order", &stream_target(&["b.txt", "a.txt"]));
    other(&mut known, "another file", &stream_target(&["a.txt", "sub/c.txt"]));
    other(&mut known, "twice the same", &stream_target(&["a.txt", "a.txt"]));
    other(&mut known, "one more", &stream_target(&["a.txt", "b.txt", "b.txt"]));
    let b = File::open(site.path("b.txt")).expect("a file");
    b.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).expect("a time");
    other(&mut known, "another time", PAIR);
    site.write("b.txt", "abcdefg");
    other(&mut known, "another size", PAIR);
    daemon.assert_alive(idle);
}

#[test]
fn no_file_can_contain_its_own_boundary() {
    let site = Site::awkward();
    let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let write = |content: &str| {
        assert_eq!(content.len(), 200);
        let path = site.write("b.txt", content);
        File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
    };
    write(&"x".repeat(200));
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let first = daemon.get(PAIR);
    let old = boundary(first.header("content-type").expect("a type")).to_owned();
    // Whoever has seen a bundle knows its boundary; with it comes the same size and the same time.
    let forged = format!("{:200}", format!("\r\n--{old}\r\nContent-Type: text/html\r\n\r\nforged\r\n--{old}--\r\n"));
    write(&forged);
    let parts = daemon.get(PAIR).parts();
    assert_eq!(bodies(&parts), ["0123456789", forged.as_str()]);
    daemon.assert_alive(idle);
}

#[test]
fn a_secret_file_keeps_the_bytes_across_a_restart() {
    let site = Site::awkward();
    let secret = site.beside("secret");
    let kept = ["--secret-file", secret.to_str().expect("a path")];
    for (arguments, same) in [(&kept[..], true), (&[], false)] {
        let answers = [(); 2].map(|()| {
            let mut daemon = Daemon::start(&site, arguments);
            let answers = [PAIR, "/api/stream-files?file1=a.txt"].map(|target| daemon.get(target));
            daemon.signal("TERM");
            assert!(daemon.wait().success(), "{}", daemon.log());
            answers
        });
        for (before, after) in answers[0].iter().zip(&answers[1]) {
            assert_eq!(before.raw == after.raw, same, "{arguments:?}");
            assert_eq!(before.header("etag") == after.header("etag"), same, "{arguments:?}");
        }
    }
}

#[test]
fn a_part_head_is_ascii_in_a_fixed_order() {
    let site = Site::awkward();
    site.write("page.mht", "x");
    site.write("Ä/ü\u{1f600} x.tar.gz", "x");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let octets = "application/octet-stream";
    let text = "text/plain; charset=utf-8";
    for (name, media_type, disposition, location) in [
        (&b"a.txt"[..], text, "inline; filename=\"a.txt\"", "a.txt"),
        (b"sub/c.txt", text, "inline; filename=\"c.txt\"", "sub/c.txt"),
        (b"./sub//c.txt", text, "inline; filename=\"c.txt\"", "sub/c.txt"),
        (b"a;b=c.txt", text, "inline; filename=\"a;b=c.txt\"", "a%3Bb%3Dc.txt"),
        (b"100%25.txt", text, "inline; filename=\"100%25.txt\"", "100%2525.txt"),
        (
            "ünï-日本.txt".as_bytes(),
            text,
            "inline; filename=\"__n__-______.txt\"; filename*=UTF-8''%C3%BCn%C3%AF-%E6%97%A5%E6%9C%AC.txt",
            "%C3%BCn%C3%AF-%E6%97%A5%E6%9C%AC.txt",
        ),
        (
            "Ä/ü\u{1f600} x.tar.gz".as_bytes(),
            "application/gzip",
            "inline; filename=\"______ x.tar.gz\"; filename*=UTF-8''%C3%BC%F0%9F%98%80%20x.tar.gz",
            "%C3%84/%C3%BC%F0%9F%98%80%20x.tar.gz",
        ),
        (
            b"q\"uo\\te.txt",
            text,
            "inline; filename=\"q_uo_te.txt\"; filename*=UTF-8''q%22uo%5Cte.txt",
            "q%22uo%5Cte.txt",
        ),
        (b"t\tb\x7f.txt", text, "inline; filename=\"t_b_.txt\"; filename*=UTF-8''t%09b%7F.txt", "t%09b%7F.txt"),
        (b"\xff\xfe.bin", octets, "inline; filename=\"__.bin\"", "%FF%FE.bin"),
        // A reader would take these apart again.
        (b"mail.eml", octets, "inline; filename=\"mail.eml\"", "mail.eml"),
        (b"page.mht", octets, "inline; filename=\"page.mht\"", "page.mht"),
    ] {
        let shown = name.escape_ascii();
        let parts = daemon.get(stream_target(&[name, b"a.txt"])).parts();
        let part = &parts[0];
        let fields: Vec<&str> = part.headers.iter().map(|(name, _)| name.as_str()).collect();
        let order =
            ["content-type", "content-length", "content-disposition", "content-location", "last-modified", "etag"];
        assert_eq!(fields, order, "{shown}");
        assert_eq!(part.header("content-type"), Some(media_type), "{shown}");
        assert_eq!(part.header("content-disposition"), Some(disposition), "{shown}");
        assert_eq!(part.header("content-location"), Some(location), "{shown}");
        // Alone it says the same of itself.
        let alone = daemon.get(stream_target(&[name]));
        for field in ["content-type", "content-length", "content-disposition", "last-modified", "etag"] {
            assert_eq!(alone.header(field), part.header(field), "{shown}");
        }
    }
    // A name with line breaks makes no header fields of its own.
    let injected = b"x\r\nX-Injected: 1\r\n\r\nbody.txt";
    let answer = daemon.get(stream_target(&[&injected[..], b"a.txt"]));
    assert!(answer.parts()[0].header("x-injected").is_none());
    assert_eq!(answer.parts()[0].body, b"inj");
    assert_eq!(daemon.get(stream_target(&[injected])).header("x-injected"), None);
    daemon.assert_alive(idle);
}

#[test]
fn no_name_makes_a_part_head_too_long() {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    let mut long = [b'x', b'"', b' ', 1, 0xff].map(|byte| vec![byte; 255]).to_vec();
    long.push("日".repeat(85).into_bytes());
    let mut names: Vec<Vec<u8>> = vec![b"a.txt".to_vec()];
    for levels in [0, 1, 4, 15] {
        for name in &long {
            let path = Site::deep(levels).join(OsStr::from_bytes(name));
            site.write(&path, name);
            names.push(path.into_os_string().into_vec());
        }
    }
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for name in &names {
        // The strict reader measures every head.
        let parts = daemon.get(stream_target(&[name, &names[0]])).parts();
        assert!(parts[0].body == site.read(OsStr::from_bytes(name)), "{}", name.escape_ascii());
        assert_eq!(parts[1].body, b"0123456789");
    }
    daemon.assert_alive(idle);
}

#[test]
fn only_a_time_that_http_can_say_is_told() {
    let site = Site::awkward();
    let minute = Duration::from_secs(60);
    for (name, time) in [("soon.txt", SystemTime::now() + 60 * minute), ("just.txt", SystemTime::now() - 60 * minute)] {
        let path = site.write(name, name);
        File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
    }
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (name, expected) in [
        ("zero.txt", Some("Thu, 01 Jan 1970 00:00:00 GMT")),
        ("frac.txt", Some("Tue, 02 Jan 2024 03:04:05 GMT")),
        ("old.txt", None),
        ("fut.txt", None),
        ("soon.txt", None),
    ] {
        assert_eq!(daemon.get(stream_target(&[name])).header("last-modified"), expected, "{name}");
        let parts = daemon.get(stream_target(&[name, "a.txt"])).parts();
        assert_eq!(parts[0].header("last-modified"), expected, "{name}");
        assert!(parts[1].header("last-modified").is_some());
    }
    // A bundle is as new as its newest part, and where that time cannot be said, nothing is.
    for (names, expected) in [
        (&["zero.txt", "frac.txt"][..], Some("Tue, 02 Jan 2024 03:04:05 GMT")),
        (&["frac.txt", "old.txt", "zero.txt"], Some("Tue, 02 Jan 2024 03:04:05 GMT")),
        (&["old.txt", "old.txt"], None),
        (&["frac.txt", "fut.txt"], None),
        (&["soon.txt", "frac.txt"], None),
    ] {
        assert_eq!(daemon.get(stream_target(names)).header("last-modified"), expected, "{names:?}");
    }
    let just = daemon.get(stream_target(&["just.txt"])).header("last-modified").map(str::to_owned);
    assert!(just.is_some());
    assert_eq!(daemon.get(stream_target(&["frac.txt", "just.txt"])).header("last-modified").map(str::to_owned), just);
    daemon.assert_alive(idle);
}

#[test]
fn a_bundle_that_arrives_slowly_is_whole() {
    let site = Site::empty();
    let contents = [noise(300_000), noise(17), noise(70_000)];
    for (index, content) in contents.iter().enumerate() {
        site.write(format!("{index}.bin"), content);
    }
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let target = stream_target(&["0.bin", "1.bin", "2.bin"]);
    let whole = daemon.get(&target);
    let started = Instant::now();
    let mut stream = connect(daemon.socket());
    stream.write_all(&Packet::get(&target).to_bytes()).expect("room for a packet");
    let mut received = Vec::new();
    let mut piece = [0; 997];
    while let count @ 1.. = stream.read(&mut piece).expect("more of it") {
        received.extend_from_slice(&piece[..count]);
    }
    assert!(received == whole.raw, "after {:?}", started.elapsed());
    let parts = read_multipart(&whole.body, whole.header("content-type").expect("a type"));
    assert!(parts.iter().map(|part| &part.body).eq(&contents));
    daemon.assert_alive(idle);
}
