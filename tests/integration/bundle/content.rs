//! What a bundle is made of: its lengths, its order, its bytes.

use std::{
    ffi::OsStr,
    io::{Read as _, Write as _},
    os::unix::ffi::OsStrExt as _,
    time::{Duration, Instant},
};

use percent_encoding::percent_decode_str;

use crate::harness::{BIG_LEN, Daemon, End, Packet, STREAM, Site, connect, noise, read_multipart, stream_target};

use super::{PAIR, bodies, boundary, ordinary_files};

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
