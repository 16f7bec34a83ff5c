//! What nginx says when something is wrong, in its own words: docs/operations.md has a table of them, and here each is
//! brought about.

use std::{
    fs::{self, File, Permissions},
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::harness::{NginxOptions, STREAM, Site, Stack, curl, noise, stream_target, wait_until};

const OPERATIONS: &str = include_str!("../../../docs/operations.md");

/// Waits until nginx has said it, and looks it up in the table.
#[track_caller]
fn says(stack: &Stack, words: &str) {
    let mut log = String::new();
    wait_until(&format!("nginx says {words}"), || {
        log = stack.nginx.error_log();
        log.contains(words)
    });
    is_explained(words);
}

#[track_caller]
fn is_explained(words: &str) {
    let row =
        |line: &&str| line.starts_with("| `") && line.split(" | ").next().is_some_and(|first| first.contains(words));
    assert!(OPERATIONS.lines().any(|line| row(&line)), "docs/operations.md explains {words}");
}

fn replaced<'a>(replaced: &'a [(&'a str, &'a str)]) -> NginxOptions<'a> {
    NginxOptions { replaced, ..NginxOptions::default() }
}

fn status(stack: &Stack, target: &str) -> u16 {
    stack.nginx.connect().get(target).status
}

#[test]
fn nobody_is_there_or_may_be_spoken_to() {
    let mut stack = Stack::awkward();
    fs::set_permissions(stack.daemon.socket(), Permissions::from_mode(0o000)).expect("a mode");
    assert_eq!(status(&stack, "/api/health"), 502);
    says(&stack, "failed (13: Permission denied)");
    fs::set_permissions(stack.daemon.socket(), Permissions::from_mode(0o660)).expect("a mode");
    stack.daemon.signal("KILL");
    stack.daemon.wait();
    assert_eq!(status(&stack, "/api/health"), 502);
    says(&stack, "failed (111: Connection refused)");
    fs::remove_file(stack.daemon.socket()).expect("it is still there");
    assert_eq!(status(&stack, "/api/health"), 502);
    says(&stack, "failed (2: No such file or directory)");
    // One that takes nobody in, whose queue has room for two.
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddrUnix::new(stack.daemon.socket()).expect("a name")).expect("it is free");
    fs::set_permissions(stack.daemon.socket(), Permissions::from_mode(0o666)).expect("a mode");
    rustix::net::listen(&socket, 1).expect("it listens");
    let _waiting: Vec<UnixStream> =
        (0..2).map(|_| UnixStream::connect(stack.daemon.socket()).expect("there is room")).collect();
    assert_eq!(status(&stack, "/api/health"), 502);
    says(&stack, "failed (11: Resource temporarily unavailable)");
}

#[test]
fn an_answer_ends_too_early_or_does_not_come() {
    let options = replaced(&[("uwsgi_read_timeout 60s", "uwsgi_read_timeout 1s")]);
    let stack = Stack::start_with(Site::awkward(), &[], &options);
    let file = File::create(stack.site.path("shrinks.bin")).expect("a file");
    file.set_len(1 << 30).expect("a sparse file");
    let mut reader = stack.nginx.connect();
    reader.send("GET", &stream_target(&["shrinks.bin"]), &[], b"").expect("a request");
    assert!(reader.take(1000).starts_with(b"HTTP/1.1 200 OK\r\n"));
    file.set_len(1000).expect("a shorter file");
    while reader.take(1_000_000).len() == 1_000_000 {}
    says(&stack, "upstream prematurely closed connection while reading upstream");

    stop(&stack);
    assert_eq!(status(&stack, "/api/health"), 504);
    says(&stack, "upstream timed out (110: Connection timed out) while reading response header from upstream");
}

#[test]
fn axon_is_killed_with_requests_in_its_queue() {
    let mut stack = Stack::awkward();
    stop(&stack);
    let mut waiting = stack.nginx.connect();
    waiting.send("GET", "/api/health", &[], b"").expect("a request");
    let socket = stack.daemon.socket().to_string_lossy().into_owned();
    wait_until("a connection waits beside the socket that listens", || {
        let table = fs::read_to_string("/proc/net/unix").expect("a table");
        table.lines().filter(|line| line.ends_with(&socket)).count() >= 2
    });
    // And nginx has sent what it has to say.
    let master = fs::read_to_string(stack.nginx.prefix().join("nginx.pid")).expect("a number");
    let master = master.trim();
    wait_until("nginx waits", || {
        let workers = fs::read_to_string(format!("/proc/{master}/task/{master}/children")).expect("a process");
        workers.split_whitespace().all(|worker| states(worker).iter().all(|state| *state == 'S'))
    });
    stack.daemon.signal("KILL");
    stack.daemon.wait();
    says(&stack, "recv() failed (104: Connection reset by peer) while reading response header from upstream");
}

/// Stops the daemon: a signal is on its way for a moment.
fn stop(stack: &Stack) {
    stack.daemon.signal("STOP");
    wait_until("all of its threads have stopped", || {
        states(&stack.daemon.pid().to_string()).iter().all(|state| *state == 'T')
    });
}

/// What the threads of a process do: S is to wait, T to be stopped (proc_pid_stat(5)).
fn states(pid: &str) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let state = |thread: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    threads.filter_map(state).collect()
}

#[test]
fn a_head_is_too_large_for_a_buffer_or_a_packet() {
    let options = replaced(&[("uwsgi_buffer_size 64k", "uwsgi_buffer_size 128")]);
    let stack = Stack::start_with(Site::awkward(), &[], &options);
    assert_eq!(status(&stack, &stream_target(&["a.txt", "b.txt"])), 502);
    says(&stack, "upstream sent too big header while reading response header from upstream");

    let options = replaced(&[
        ("large_client_header_buffers 3 20k", "large_client_header_buffers 4 32k"),
        ("error_log error.log warn", "error_log error.log info"),
    ]);
    let stack = Stack::start_with(Site::awkward(), &[], &options);
    let long = "x".repeat(25_000);
    let fields = [("X-A", long.as_str()), ("X-B", &long), ("X-C", &long)];
    assert_eq!(stack.nginx.connect().request("GET", "/api/health", &fields, b"").status, 500);
    says(&stack, "uwsgi request is too big");
    assert_eq!(status(&stack, &format!("{STREAM}?file1={}", "x".repeat(33_000))), 414);
    says(&stack, "client sent too long URI");
    let longer = "x".repeat(33_000);
    assert_eq!(stack.nginx.connect().request("GET", "/api/health", &[("X-A", &longer)], b"").status, 400);
    says(&stack, "client sent too long header line");
}

#[test]
fn a_body_is_too_long_or_goes_to_disk() {
    let stack = Stack::awkward();
    let json = [("Content-Type", "application/json")];
    assert_eq!(stack.nginx.connect().request("POST", STREAM, &json, &noise(100_000)).status, 400);
    says(&stack, "a client request body is buffered to a temporary file");
    let url = stack.nginx.url(STREAM);
    let body = stack.site.beside("body");
    fs::write(&body, noise(1_100_000)).expect("a file");
    let data = format!("@{}", body.display());
    assert_eq!(curl(&["--data-binary", &data, &url]).answer.status, 413);
    says(&stack, "client intended to send too large body");
}

#[test]
fn an_answer_goes_to_disk() {
    let options = replaced(&[
        ("        uwsgi_buffering off;", "        uwsgi_buffering on;"),
        ("uwsgi_max_temp_file_size 0", "uwsgi_max_temp_file_size 1024m"),
    ]);
    let stack = Stack::start_with(Site::awkward(), &[], &options);
    let mut reader = stack.nginx.connect();
    reader.send("GET", &stream_target(&["big.bin"]), &[("Range", "bytes=0-99999999")], b"").expect("a request");
    assert!(reader.take(1000).starts_with(b"HTTP/1.1 206 "));
    says(&stack, "an upstream response is buffered to a temporary file");
}

#[test]
fn axon_is_spoken_to_in_another_protocol() {
    let shipped = "        location / {\n            uwsgi_pass axon;";
    let with = |pass: &str| {
        let changed =
            format!("        location / {{\n            {pass} axon;").replace("proxy_pass ", "proxy_pass http://");
        Stack::start_with(Site::awkward(), &[], &replaced(&[(shipped, changed.as_str())]))
    };
    let stack = with("fastcgi_pass");
    assert_eq!(status(&stack, "/api/health"), 502);
    says(&stack, "upstream sent unsupported FastCGI protocol version");
    // Axon takes HTTP for a packet that is too long or of another kind, and says so.
    let stack = with("proxy_pass");
    assert_eq!(status(&stack, "/api/health"), 400);
}

#[test]
fn nginx_has_too_few_of_something_or_does_not_start() {
    let options = replaced(&[
        ("worker_processes auto", "worker_processes 1"),
        ("worker_connections 8192", "worker_connections 16"),
    ]);
    let stack = Stack::start_with(Site::awkward(), &[], &options);
    let address = stack.nginx.url("").trim_start_matches("http://").to_owned();
    let _open: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(&address).expect("the kernel takes it")).collect();
    says(&stack, "worker_connections are not enough");

    let told = |configuration: &str| {
        let site = Site::empty();
        let prefix = crate::harness::empty_prefix(&site, "prefix");
        let path = site.beside("some.conf");
        let paths = "pid nginx.pid;\nerror_log error.log;\nevents {}\nhttp {\naccess_log off;\n";
        let temporary =
            ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {name};\n"));
        fs::write(&path, format!("{paths}{}{configuration}\n}}\n", temporary.concat())).expect("a file");
        let output =
            crate::harness::run_as_tests_do(crate::harness::nginx_command(&prefix, Path::new(&path)).arg("-t"))
                .output()
                .expect("nginx runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let words = "\"uwsgi_busy_buffers_size\" must be less than the size of all \"uwsgi_buffers\" minus one buffer";
    let said = told("server { location / { uwsgi_pass unix:/a; uwsgi_buffer_size 64k; } }");
    assert!(said.contains(words), "{said}");
    is_explained(words);
    let words = "no \"uwsgi_cache_key\" for \"uwsgi_cache\"";
    let said = told("uwsgi_cache_path c keys_zone=a:1m;\nserver { location / { uwsgi_pass unix:/a; uwsgi_cache a; } }");
    assert!(said.contains(words), "{said}");
    is_explained(words);
}
