//! How a name is read: decoded once, as bytes, from the query and nothing else.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

use crate::harness::{Daemon, Packet, STREAM, Site, stream_target};

use super::{assert_refused, assert_served};

#[test]
fn a_query_is_decoded_exactly_once() {
    let site = Site::awkward();
    site.write("a&b=c.txt", "ampersand");
    site.write("%61.txt", "percent");
    site.write("a=b.txt", "equals");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (value, content) in [
        ("p+q.txt", "space"),
        ("p%20q.txt", "space"),
        ("p%2Bq.txt", "plus"),
        ("p%2bq.txt", "plus"),
        ("100%2525.txt", "pct"),
        ("100%25.txt", "pct1"),
        ("a%2etxt", "0123456789"),
        ("%61.txt", "0123456789"),
        ("%2561.txt", "percent"),
        ("sub%2Fc.txt", "insub"),
        ("a%26b%3Dc.txt", "ampersand"),
        ("a=b.txt", "equals"),
        ("a;b=c.txt", "semi"),
        ("n%0Al.txt", "nl"),
    ] {
        assert_served(&daemon, value, content.as_bytes());
    }
    for value in ["100%.txt", "a%zz.txt", "a%2", "a.txt%", "%", "%%41", "a%+1", "%2g", "%u0061.txt"] {
        assert_refused(&daemon, &site, value, 400);
    }
    for value in ["..%252fetc%252fhostname", "%252e%252e%252fsecret.txt", "p%252Bq.txt", "a.txt%20", "a.txt+", "+a.txt"]
    {
        assert_refused(&daemon, &site, value, 404);
    }
    // Keys are decoded, too.
    assert_eq!(daemon.get(format!("{STREAM}?%66ile%31=a.txt")).text(), "0123456789");
    // The path arrives decoded: once more would be once too often.
    for path in
        ["/api/stream%2dfiles", "/api%2fhealth", "/api/healt%68", "/api/stream-files%3ffile1=a.txt", "/api/health/"]
    {
        daemon.send(&Packet::get(path).with("PATH_INFO", path)).problem(404);
    }
    daemon.assert_alive(idle);
}

#[test]
fn names_are_bytes() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    assert_served(&daemon, "%ff%fe.bin", b"raw");
    assert_served(&daemon, b"\xff\xfe.bin", b"raw");
    assert_served(&daemon, "%ef%bf%bd%ef%bf%bd.bin", b"trap");
    assert_served(&daemon, "\u{fffd}\u{fffd}.bin", b"trap");
    assert_refused(&daemon, &site, "%ff%ff.bin", 404);
    // Whatever is there can be had by its name.
    let mut count = 0;
    for entry in fs::read_dir(site.root()).expect("a directory").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_vec();
        if !entry.metadata().expect("a file").is_file() || name.starts_with(b".") || name == b"locked.txt" {
            continue;
        }
        if name != b"big.bin" {
            let content = site.read(OsStr::from_bytes(&name));
            let answer = daemon.get(stream_target(&[&name]));
            assert!(answer.status == 200 && answer.body == content, "{}", name.escape_ascii());
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
    daemon.assert_alive(idle);
}

#[test]
fn what_cannot_be_a_name_is_refused() {
    let site = Site::awkward();
    let longest = "x".repeat(255);
    site.write(&longest, "longest");
    site.write(Site::deep(15).join("f.txt"), "deep");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for value in ["", "%00", "a.txt%00", "a%00.txt", "a.txt%00.bin", "sub%00/c.txt"] {
        assert_refused(&daemon, &site, value, 400);
    }
    assert_refused(&daemon, &site, b"a.txt\0", 400);
    assert_served(&daemon, &longest, b"longest");
    assert_served(&daemon, Site::deep(15).join("f.txt").as_os_str().as_bytes(), b"deep");
    assert_refused(&daemon, &site, "x".repeat(256), 404);
    assert_refused(&daemon, &site, "x".repeat(4095), 404);
    assert_refused(&daemon, &site, "x/".repeat(2047), 404);
    for len in [4096, 4097, 20_000, 30_000] {
        assert_refused(&daemon, &site, "x".repeat(len), 400);
    }
    daemon.assert_alive(idle);
}

#[test]
fn dotfiles_are_not_there_unless_asked_for() {
    let site = Site::awkward();
    for name in ["sub/.hidden/x.txt", "sub/.x.txt", "..x", "...", "x.d/y.txt"] {
        site.write(name, "hidden");
    }
    let hidden =
        [".env", ".git/config", "./.env", "/.env", "sub/.hidden/x.txt", "sub/.x.txt", "sub/../.env", "..x", "..."];
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let missing = assert_refused(&daemon, &site, "none.txt", 404);
    for name in hidden.into_iter().chain([".none", ".none/x", "sub/.none", ".env/x", "%2eenv", ".locked"]) {
        // The same bytes as for what is not there, dot or not.
        assert_eq!(assert_refused(&daemon, &site, name, 404), missing, "{name}");
    }
    assert_served(&daemon, "./a.txt", b"0123456789");
    assert_served(&daemon, "sub/./c.txt", b"insub");
    assert_served(&daemon, "x.d/y.txt", b"hidden");
    daemon.assert_alive(idle);
    drop(daemon);

    let mut daemon = Daemon::start(&site, &["--dotfiles"]);
    let idle = daemon.idle_descriptors();
    for name in hidden {
        assert_served(&daemon, name, b"hidden");
    }
    for name in [".none", ".git", ".git/none", "..", ".", "../.env"] {
        assert_refused(&daemon, &site, name, 404);
    }
    daemon.assert_alive(idle);
}

#[test]
fn no_variable_but_the_query_names_a_file() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let variables = [
        ("UWSGI_FILE", "/etc/passwd"),
        ("UWSGI_SCRIPT", "x"),
        ("UWSGI_MODULE", "os"),
        ("UWSGI_CHDIR", "/etc"),
        ("UWSGI_APPID", "x"),
        ("SCRIPT_NAME", "/api"),
        ("SCRIPT_FILENAME", "/etc/hostname"),
        ("PATH_TRANSLATED", "/etc/hostname"),
        ("DOCUMENT_ROOT", "/etc"),
        ("REQUEST_URI", "/api/stream-files?file1=b.txt"),
        ("HTTP_PROXY", "http://x:1"),
        ("HTTP_X_FORWARDED_FOR", "203.0.113.9"),
        ("HTTP_X_REAL_IP", "203.0.113.9"),
        ("HTTP_FORWARDED", "for=203.0.113.9"),
        ("HTTP_X_SENDFILE", "/etc/hostname"),
        ("HTTP_X_ACCEL_REDIRECT", "/etc/hostname"),
        ("HTTP_X_ORIGINAL_URL", "/api/stream-files?file1=b.txt"),
        ("HTTP_X_HTTP_METHOD_OVERRIDE", "DELETE"),
        ("AXON_ROOT", "/etc"),
        ("AXON_DOTFILES", "1"),
    ];
    let requests = ["?file1=a.txt", "?file1=hostname", "?file1=.env", "?file1=a.txt&file2=b.txt"];
    let everything = |packet: Packet| variables.iter().fold(packet, |packet, (name, value)| packet.with(name, value));
    for query in requests {
        let plain = Packet::get(format!("{STREAM}{query}"));
        let expected = daemon.send(&plain);
        assert_eq!(expected.status, if query.contains("a.txt") { 200 } else { 404 });
        for (name, value) in variables {
            assert_eq!(daemon.send(&plain.clone().with(name, value)).raw, expected.raw, "{name}, {query}");
        }
        let id = format!("all of them, {query}");
        let answer = daemon.send(&everything(plain).header("X-Request-Id", &id));
        assert_eq!(answer.raw, expected.raw, "{query}");
        assert_eq!(daemon.request_record(&id)["peer"], "192.0.2.10");
    }
    let health = everything(Packet::get("/api/health"));
    assert_eq!(daemon.send(&health).text(), "{\"status\":\"available\"}");
    daemon.assert_alive(idle);
}
