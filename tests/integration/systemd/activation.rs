//! Sockets that a service manager has made and passes on.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{UnixDatagram, UnixStream},
        },
    },
    process::{Command, Stdio},
    time::Duration,
};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::harness::{
    Daemon, DaemonOptions, Download, Manager, Packet, Passed, Site, binary, connect, exchange, listening_socket, noise,
    program, run_as_tests_do, spawn_with, stream_target, wait_until,
};

/// A request over TCP.
fn health_over(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    stream.write_all(&Packet::get("/api/health").to_bytes()).expect("room for a packet");
    let mut received = String::new();
    stream.read_to_string(&mut received).expect("an answer");
    received
}

/// Waits until a daemon has given up, checks how, and gives what it said.
#[track_caller]
fn gives_up(mut daemon: Daemon, code: i32) -> String {
    assert_eq!(daemon.wait().code(), Some(code), "{}", daemon.log());
    daemon.log()
}

#[test]
fn a_passed_socket_is_served_by_one_life_after_the_other() {
    let site = Site::awkward();
    let listener = listening_socket(&site);
    let path = site.beside("axon.sock");
    let facts = || {
        let found = fs::symlink_metadata(&path).expect("it is there");
        (found.ino(), found.permissions().mode(), found.uid(), found.gid())
    };
    let before = facts();
    let manager = Manager::new(&site);
    for signal in ["TERM", "INT", "KILL", "TERM"] {
        let mut daemon = manager.start(&site, &[&listener], &["--socket-mode", "0600"]);
        assert_eq!(daemon.get("/api/health").status, 200);
        let answer = daemon.get(stream_target(&["a.txt", "s131073.bin"]));
        assert_eq!(answer.parts().len(), 2);
        daemon.signal(signal);
        assert_eq!(daemon.wait().success(), signal != "KILL", "{}", daemon.log());
        assert_eq!(facts(), before, "not ours to take away, nor to change");
    }
}

#[test]
fn a_passed_socket_is_non_blocking_and_not_handed_on() {
    let site = Site::empty();
    let listener = listening_socket(&site);
    let manager = Manager::new(&site);
    let daemon = manager.start(&site, &[&listener], &[]);
    let facts = fs::read_to_string(format!("/proc/{}/fdinfo/3", daemon.pid())).expect("a descriptor");
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
    let flags = u32::from_str_radix(flags, 8).expect("an octal number");
    let (non_blocking, close_on_exec) = (0o4000, 0o2_000_000);
    assert_eq!(flags & (non_blocking | close_on_exec), non_blocking | close_on_exec, "{facts}");
}

#[test]
fn unix_and_tcp_sockets_are_served_beside_an_address_of_ones_own() {
    let site = Site::awkward();
    let (unix, tcp) = (listening_socket(&site), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let own = site.beside("own.sock");
    // An address that has a passed socket already is served there, and not bound again.
    let passed = format!("unix:{}", site.beside("axon.sock").display());
    let arguments = ["--uwsgi", &format!("unix:{}", own.display()), "--uwsgi", &passed];
    let manager = Manager::new(&site);
    for _ in 0..2 {
        let mut daemon = manager.start(&site, &[&unix, &tcp], &arguments);
        assert_eq!(daemon.get("/api/health").status, 200);
        assert_eq!(exchange(&own, &Packet::get("/api/health").to_bytes()).status, 200);
        let address = tcp.local_addr().expect("an address");
        assert!(health_over(TcpStream::connect(address).expect("it listens")).starts_with("HTTP/1.1 200 "));
        daemon.signal("TERM");
        assert!(daemon.wait().success(), "{}", daemon.log());
        assert!(!own.exists(), "this one was ours");
        assert!(TcpStream::connect(address).is_ok(), "this one goes on");
    }
}

#[test]
fn connections_that_wait_are_for_the_next_life() {
    let site = Site::empty();
    site.write("large.bin", noise(3_000_000));
    let listener = listening_socket(&site);
    let manager = Manager::new(&site);
    // One connection is all that it may have at once, so nobody else leaves the queue before the end.
    let mut daemon = manager.start(&site, &[&listener], &["--max-connections", "1"]);
    let download = Download::begin(daemon.socket(), stream_target(&["large.bin"]), "slow");
    let wait = |number| {
        let mut stream = connect(daemon.socket());
        let packet = Packet::get("/api/health").header("X-Request-Id", format!("late-{number}"));
        stream.write_all(&packet.to_bytes()).expect("room for a packet");
        stream
    };
    let mut waiting: Vec<_> = (0..10).map(wait).collect();
    daemon.signal("TERM");
    manager.hear("STOPPING=1");
    // Who comes now waits, too: neither refused nor served by somebody who is about to go.
    waiting.extend((10..20).map(wait));
    assert!(download.finish().body == site.read("large.bin"), "what runs is finished");
    assert!(daemon.wait().success(), "{}", daemon.log());
    assert!(!daemon.log().contains("late-"), "{}", daemon.log());
    let next = manager.start(&site, &[&listener], &[]);
    for stream in &mut waiting {
        let mut received = String::new();
        stream.read_to_string(&mut received).expect("an answer");
        assert!(received.starts_with("HTTP/1.1 200 "), "{received:?}");
    }
    next.request_record("late-19");
}

#[test]
fn a_socket_is_for_uwsgi_unless_its_name_says_otherwise() {
    let site = Site::empty();
    let (unix, tcp) = (listening_socket(&site), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let names = |names| [("LISTEN_FDNAMES", names)];
    for good in ["uwsgi:uwsgi", "axon.socket:axon-tcp.socket", "unknown:uwsgi", ":"] {
        let both: [&dyn AsFd; 2] = [&unix, &tcp];
        let daemon = spawn_with(&site, Passed { descriptors: &both, variables: &names(good) }, &[]);
        assert_eq!(daemon.get("/api/health").status, 200, "{good}");
    }
    for (bad, words) in [
        ("uwsgi:http", "descriptor 4, which was passed to listen on, is named \"http\""),
        ("fastcgi:uwsgi", "descriptor 3, which was passed to listen on, is named \"fastcgi\""),
        ("uwsgi:metrics", "\"metrics\""),
    ] {
        let both: [&dyn AsFd; 2] = [&unix, &tcp];
        let daemon = spawn_with(&site, Passed { descriptors: &both, variables: &names(bad) }, &[]);
        let said = gives_up(daemon, 1);
        assert!(said.contains(words) && said.contains("this version speaks uwsgi only"), "{bad}: {said}");
        assert!(said.contains("FileDescriptorName=uwsgi"), "{bad}: {said}");
    }
    for bad in ["uwsgi", "uwsgi:uwsgi:uwsgi", ""] {
        let both: [&dyn AsFd; 2] = [&unix, &tcp];
        let daemon = spawn_with(&site, Passed { descriptors: &both, variables: &names(bad) }, &[]);
        let said = gives_up(daemon, 1);
        assert!(said.contains("LISTEN_FDS=2") && said.contains("LISTEN_FDNAMES"), "{bad:?}: {said}");
    }
}

#[test]
fn what_is_for_another_process_is_left_alone() {
    let site = Site::empty();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    for variables in [&[("LISTEN_PID", "1")][..], &[("LISTEN_PID", "1"), ("LISTEN_FDS", "x")], &[("LISTEN_FDS", "0")]] {
        let passed = Passed { descriptors: &[&listener], variables };
        let address = format!("unix:{}", site.beside("axon.sock").display());
        // As it is configured.
        let mut daemon = spawn_with(&site, passed, &["--uwsgi", &address]);
        wait_until("it listens", || UnixStream::connect(daemon.socket()).is_ok());
        assert_eq!(daemon.get("/api/health").status, 200);
        assert!(!daemon.log().contains(&port.to_string()), "{}", daemon.log());
        daemon.signal("TERM");
        assert!(daemon.wait().success());
        assert!(!daemon.socket().exists());
        // And without an address there is nothing to listen on.
        let said = gives_up(spawn_with(&site, passed, &[]), 2);
        assert!(said.contains("--uwsgi <ADDR>"), "{said}");
    }
}

#[test]
fn a_wrong_count_is_an_error() {
    let site = Site::empty();
    let listener = listening_socket(&site);
    for (count, words) in [
        ("2", "Bad file descriptor"),
        ("1000000000", "Bad file descriptor"),
        ("4294967295", "overflow"),
        ("x", "invalid LISTEN_FDS"),
        ("-1", "invalid LISTEN_FDS"),
        ("", "invalid LISTEN_FDS"),
        ("99999999999999999999", "invalid LISTEN_FDS"),
    ] {
        let passed = Passed { descriptors: &[&listener], variables: &[("LISTEN_FDS", count)] };
        let said = gives_up(spawn_with(&site, passed, &["--uwsgi", "unix:./own.sock"]), 1);
        assert!(said.contains(&format!("LISTEN_FDS={count})")) && said.contains(words), "{count}: {said}");
    }
    let passed = Passed { descriptors: &[&listener], variables: &[("LISTEN_PID", "x")] };
    assert!(gives_up(spawn_with(&site, passed, &[]), 1).contains("invalid LISTEN_PID"));
    // One that was closed on the way.
    let said = gives_up(spawn_with(&site, Passed { descriptors: &[], variables: &[("LISTEN_FDS", "1")] }, &[]), 1);
    assert!(said.contains("LISTEN_FDS=1") && said.contains("Bad file descriptor"), "{said}");
    let elsewhere = [("LISTEN_FDS_FIRST_FD", "1")];
    let passed = Passed { descriptors: &[&listener], variables: &elsewhere };
    assert!(gives_up(spawn_with(&site, passed, &[]), 1).contains("unset it"));
}

#[test]
fn what_is_no_listening_stream_socket_is_an_error() {
    let site = Site::empty();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let connected = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
    let (pair, _other) = UnixStream::pair().expect("a pair");
    let unbound = |family, kind| rustix::net::socket_with(family, kind, SocketFlags::empty(), None).expect("a socket");
    let cases: [(OwnedFd, &str); 9] = [
        (File::open(site.root()).expect("a directory").into(), "is not a socket"),
        (File::open("/dev/null").expect("a device").into(), "is not a socket"),
        (File::create(site.beside("file")).expect("a file").into(), "is not a socket"),
        (UnixDatagram::bind(site.beside("datagrams")).expect("a socket").into(), "is not a valid tcp socket"),
        (UdpSocket::bind("127.0.0.1:0").expect("a port").into(), "is not a valid tcp socket"),
        (unbound(AddressFamily::UNIX, SocketType::SEQPACKET), "is not a valid tcp socket"),
        (unbound(AddressFamily::UNIX, SocketType::STREAM), "it does not listen"),
        (connected.into(), "it does not listen"),
        (pair.into(), "it does not listen"),
    ];
    for (descriptor, words) in &cases {
        let descriptors: &[&dyn AsFd] = &[descriptor];
        let daemon = spawn_with(&site, Passed { descriptors, variables: &[] }, &["--uwsgi", "unix:./own.sock"]);
        let said = gives_up(daemon, 1);
        assert!(said.contains("descriptor 3, which was passed to listen on"), "{words}: {said}");
        assert!(said.contains(words) && said.contains("ListenStream="), "{words}: {said}");
    }
}

#[test]
fn a_start_that_fails_is_in_the_log_file_too() {
    let site = Site::empty();
    let log = site.beside("own.log");
    let file = File::open("/dev/null").expect("a device");
    let passed = Passed { descriptors: &[&file], variables: &[] };
    gives_up(spawn_with(&site, passed, &["--log-file", log.to_str().expect("a path")]), 1);
    let log = fs::read_to_string(log).expect("a log");
    assert!(log.contains("the server ended") && log.contains("descriptor 3"), "{log}");
}

/// systemd's own tool, which listens and becomes the daemon when somebody connects.
#[test]
fn systemd_starts_it_when_somebody_connects() {
    let site = Site::awkward();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let (socket, tcp) = (site.beside("axon.sock"), format!("127.0.0.1:{port}"));
    for (name, serves) in [(Some("uwsgi:uwsgi"), true), (None, true), (Some("uwsgi:http"), false)] {
        let mut command = Command::new(program("systemd-socket-activate", "systemd"));
        command.arg("-l").arg(&socket).arg("-l").arg(&tcp);
        command.args(name.map(|name| format!("--fdname={name}")));
        command.arg(binary()).args(["serve", "--root"]).arg(site.root());
        command.stderr(File::create(site.beside("axon.log")).expect("a log")).stdin(Stdio::null());
        let mut child = run_as_tests_do(&mut command).spawn().expect("it runs");
        wait_until("it listens", || TcpStream::connect(&tcp).is_ok());
        if serves {
            assert!(health_over(TcpStream::connect(&tcp).expect("it listens")).starts_with("HTTP/1.1 200 "));
            assert_eq!(exchange(&socket, &Packet::get(stream_target(&["a.txt", "b.txt"])).to_bytes()).parts().len(), 2);
            assert!(Command::new("kill").arg(child.id().to_string()).status().is_ok_and(|status| status.success()));
        }
        let status = child.wait().expect("it ends");
        let log = fs::read_to_string(site.beside("axon.log")).expect("a log");
        assert_eq!(status.code(), Some(i32::from(!serves)), "{name:?}: {log}");
        assert!(serves || log.contains("this version speaks uwsgi only"), "{log}");
        assert!(socket.exists(), "it is not the daemon's to take away");
    }
}

#[test]
fn an_address_that_is_passed_to_another_is_in_use() {
    let site = Site::empty();
    let _listener = listening_socket(&site);
    let daemon = Daemon::spawn(&site, DaemonOptions::default());
    assert!(gives_up(daemon, 1).contains("another process is listening"));
}
