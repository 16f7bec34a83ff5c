//! What may be typed to start a daemon, and what is said where it cannot start.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    time::Duration,
};

use crate::harness::{Daemon, DaemonOptions, Packet, Site, axon, run_axon, stderr, stream_target};

/// A port that nobody listens on; another program may be faster, but not often.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

#[test]
fn it_listens_on_several_addresses_and_on_tcp() {
    let site = Site::awkward();
    let port = free_port();
    let tcp = format!("127.0.0.1:{port}");
    let other = site.beside("other.sock");
    let unix = format!("unix:{}", other.display());
    let mut daemon = Daemon::start(&site, &["--uwsgi", &tcp, "--uwsgi", &unix]);
    let idle = daemon.idle_descriptors();
    let packet = Packet::get(stream_target(&["a.txt", "s3000000.bin", "b.txt"]));
    let expected = daemon.send(&packet);
    assert_eq!(expected.parts().len(), 3);
    let mut stream = TcpStream::connect(&tcp).expect("it listens");
    stream.write_all(&packet.to_bytes()).expect("room for a packet");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("an answer");
    assert!(received == expected.raw, "{} bytes came", received.len());
    drop(stream);
    assert!(crate::harness::exchange(&other, &packet.to_bytes()).raw == expected.raw);
    // An early answer is none the worse for a body that nobody reads.
    let mut stream = TcpStream::connect(&tcp).expect("it listens");
    let refused = Packet::new("POST", "/api/health").body(vec![0; 900_000]);
    stream.write_all(&refused.to_bytes()).expect("it is read");
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("no reset");
    assert!(received.starts_with(b"HTTP/1.1 405 "));
    drop(stream);
    daemon.assert_alive(idle);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
    assert!(!other.exists() && !daemon.socket().exists());
}

#[test]
fn a_tcp_port_that_is_taken_is_not_taken_away() {
    let site = Site::empty();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let arguments = ["--uwsgi", address.as_str()];
    let mut daemon = Daemon::spawn(&site, DaemonOptions { arguments: &arguments, ..DaemonOptions::default() });
    assert_eq!(daemon.wait().code(), Some(1), "{}", daemon.log());
    assert!(daemon.log().contains(&format!("axon: {address}: another process is listening")), "{}", daemon.log());
    assert!(!daemon.socket().exists());
}

#[test]
fn a_tcp_port_is_free_again_right_after_a_restart() {
    let site = Site::empty();
    let address = format!("127.0.0.1:{}", free_port());
    for _ in 0..2 {
        let mut daemon = Daemon::start(&site, &["--uwsgi", &address]);
        let mut stream = TcpStream::connect(&address).expect("it listens");
        stream.write_all(&Packet::get("/api/health").to_bytes()).expect("room for a packet");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("an answer");
        daemon.signal("TERM");
        assert!(daemon.wait().success(), "{}", daemon.log());
    }
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_to_type() {
    let long = format!("unix:/{}", "x".repeat(107));
    let root = ["--root", "/", "--uwsgi", "unix:./x.sock"];
    let with = |more: &[&'static str]| [&root[..], more].concat();
    for (arguments, words) in [
        (vec![], vec!["--root <DIR>", "--uwsgi <ADDR>"]),
        (vec!["--root", "/"], vec!["--uwsgi <ADDR>"]),
        (vec!["--uwsgi", "unix:./x.sock"], vec!["--root <DIR>"]),
        (vec!["--root", "/", "--uwsgi", "/run/axon.sock"], vec!["unix:/path/to/socket"]),
        (vec!["--root", "/", "--uwsgi", "unix:"], vec!["unix:/path/to/socket"]),
        (vec!["--root", "/", "--uwsgi", "localhost:3031"], vec!["127.0.0.1:3031"]),
        (vec!["--root", "/", "--uwsgi", "127.0.0.1"], vec!["127.0.0.1:3031"]),
        (vec!["--root", "/", "--uwsgi", &long], vec!["at most 107 bytes", "108"]),
        (with(&["--head-timeout", "soon"]), vec!["--head-timeout", "500ms, 10s, 5m"]),
        (with(&["--head-timeout", "0"]), vec!["--head-timeout", "1ms or more"]),
        (with(&["--stall-timeout", "5 parsecs"]), vec!["--stall-timeout", "500ms, 10s, 5m"]),
        (with(&["--drain-timeout=-1"]), vec!["--drain-timeout", "500ms, 10s, 5m"]),
        (with(&["--max-body", "big"]), vec!["--max-body", "512, 64k, 1m"]),
        (with(&["--max-files", "0"]), vec!["--max-files", "1.."]),
        (with(&["--max-connections", "0"]), vec!["--max-connections", "1.."]),
        (with(&["--workers", "0"]), vec!["--workers", "1..=1024"]),
        (with(&["--workers", "many"]), vec!["--workers"]),
        (with(&["--chunk-size", "1"]), vec!["--chunk-size", "4k to 16m"]),
        (with(&["--socket-mode", "rw"]), vec!["--socket-mode", "octal, such as 0660"]),
        (with(&["--socket-mode", "7777"]), vec!["--socket-mode", "octal, such as 0660"]),
        (with(&["--validators", "none"]), vec!["--validators", "full, mtime"]),
        (with(&["--log-format", "xml"]), vec!["--log-format", "json, text"]),
        (with(&["--log-level", "loud"]), vec!["--log-level", "error", "trace"]),
        (with(&["--access-log", "maybe"]), vec!["--access-log", "on, off"]),
        (with(&["--no-such-option"]), vec!["--no-such-option", "--help"]),
        (with(&["stray"]), vec!["stray", "--help"]),
    ] {
        let output = run_axon([&["serve"][..], &arguments].concat());
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {words:?} in {error}");
        assert!(output.stdout.is_empty());
    }
    for (arguments, words) in [(&[][..], "serve"), (&["no-such-command"], "--help"), (&["serv"], "serve")] {
        let output = run_axon(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn what_is_missing_ends_with_1_and_is_named() {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    fs::write(site.beside("short"), "0123456789").expect("a file");
    fs::set_permissions(site.beside("short"), fs::Permissions::from_mode(0o644)).expect("a mode");
    let path = |name: &str| site.beside(name).to_str().expect("a path").to_owned();
    let (root, socket) = (path("root"), format!("unix:{}", path("axon.sock")));
    let missing = path("missing");
    let file = path("root/a.txt");
    for (root, more, words) in [
        (&missing, vec![], vec![missing.as_str(), "root directory", "No such file"]),
        (&file, vec![], vec![&file, "root directory", "Not a directory"]),
        (&root, vec!["--secret-file".into(), path("short")], vec!["secret", "10 bytes", "16"]),
        (&root, vec!["--secret-file".into(), path("no/secret")], vec!["secret", "No such file"]),
        (&root, vec!["--log-file".into(), path("no/log")], vec!["no/log", "No such file"]),
        (&root, vec!["--log-file".into(), path("root")], vec!["log file", "directory"]),
    ] {
        let mut command = axon();
        command.args(["serve", "--root", root, "--uwsgi", &socket]).args(&more);
        let output = command.output().expect("it runs");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{root} {more:?}: {error}");
        let message = error.lines().find(|line| line.starts_with("axon: ")).unwrap_or_default();
        assert!(words.iter().all(|word| message.contains(word)), "{words:?} in {error}");
        assert!(!site.beside("axon.sock").exists());
    }
}

#[test]
fn few_descriptors_are_told_at_the_start() {
    let site = Site::empty();
    let shell = Some("ulimit -n 200; exec \"$@\"");
    let mut daemon = Daemon::start_with(&site, DaemonOptions { shell, ..DaemonOptions::default() });
    let idle = daemon.idle_descriptors();
    let record = daemon.recorded("of the limit", |record| record["level"] == "WARN");
    assert_eq!(record["limit"], 200, "{record}");
    assert!(record["message"].as_str().is_some_and(|text| text.contains("--max-connections")), "{record}");
    assert_eq!(record["enough"], 8192 * 17 + 128, "{record}");
    daemon.assert_alive(idle);
    drop(daemon);

    // A connection and a file each, up to a connection, sixteen files and one that is opened again each.
    for (limit, level) in [(327, Some("WARN")), (328, Some("INFO")), (1827, Some("INFO")), (1828, None)] {
        let shell = format!("ulimit -n {limit}; exec \"$@\"");
        let arguments = &["--max-connections", "100"];
        let site = Site::empty();
        let daemon =
            Daemon::start_with(&site, DaemonOptions { arguments, shell: Some(&shell), ..DaemonOptions::default() });
        daemon.recorded("of the start", |record| record["message"] == "listening");
        let told: Vec<_> = daemon.records().into_iter().filter(|record| record["limit"] == limit).collect();
        assert_eq!(told.first().and_then(|record| record["level"].as_str()), level, "{limit}: {told:?}");
        if level == Some("INFO") {
            assert_eq!(told[0]["large_bundles"], (limit - 128) / 17, "{told:?}");
        }
    }

    // The soft limit is no limit: it is raised as far as it goes.
    let shell = Some("ulimit -S -n 50; exec \"$@\"");
    let mut daemon = Daemon::start_with(&site, DaemonOptions { shell, ..DaemonOptions::default() });
    let idle = daemon.idle_descriptors();
    let held: Vec<_> = (0..100).map(|_| crate::harness::connect(daemon.socket())).collect();
    let answer = daemon.get("/api/health");
    assert!(answer.status == 200 && answer.duration < Duration::from_secs(1), "{answer:?}");
    drop(held);
    daemon.assert_alive(idle);
}
