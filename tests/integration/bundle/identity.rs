//! What makes two bundles the same, and what their heads say of names and times.

use std::{
    ffi::OsStr,
    fs::File,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::harness::{Daemon, Site, stream_target};

use super::{PAIR, bodies, boundary, ordinary_files};

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
fn two_machines_with_the_same_secret_and_copies_give_the_same_bytes() {
    let sites = [Site::empty(), Site::empty()];
    let secret = "a secret that both machines have";
    let modified = UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
    let answers = sites.each_ref().map(|site| {
        for (name, content) in [("a.txt", "0123456789"), ("b.txt", "abcdef")] {
            let path = site.write(name, content);
            File::open(path).and_then(|file| file.set_modified(modified)).expect("a time");
        }
        std::fs::write(site.beside("secret"), secret).expect("a secret");
        let path = site.beside("secret");
        [&["--validators", "mtime"][..], &[]].map(|validators| {
            let arguments = [&["--secret-file", path.to_str().expect("a path")], validators].concat();
            let mut daemon = Daemon::start(site, &arguments);
            let answers = [PAIR, "/api/stream-files?file1=a.txt"].map(|target| daemon.get(target));
            daemon.signal("TERM");
            assert!(daemon.wait().success(), "{}", daemon.log());
            answers
        })
    });
    for (one, other) in answers[0][0].iter().zip(&answers[1][0]) {
        assert!(one.raw == other.raw && one.header("etag").is_some(), "the whole answer, head and body");
    }
    for (one, other) in answers[0][1].iter().zip(&answers[1][1]) {
        assert_ne!(one.header("etag"), other.header("etag"), "the ctime of a copy is its own");
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
