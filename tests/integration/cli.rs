//! `axon request`, the help and the environment.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::net::UnixListener,
    process::{Command, Stdio},
};

use crate::harness::{
    Daemon, Packet, STREAM, Site, axon, binary, run_as_tests_do, run_axon, stderr, stream_target, wait_until,
};

/// The options of `axon serve`, and what their help says of their default.
pub const OPTIONS: [(&str, &str); 20] = [
    ("--root <DIR>", ""),
    ("--uwsgi <ADDR>", ""),
    ("--workers <N>", "[default: the number of CPUs]"),
    ("--socket-mode <MODE>", "[default: 0660]"),
    ("--socket-group <GROUP>", "by default"),
    ("--secret-file <PATH>", "by default"),
    ("--max-files <N>", "[default: 1000]"),
    ("--max-body <SIZE>", "[default: 1m]"),
    ("--max-connections <N>", "[default: 8192]"),
    ("--head-timeout <TIME>", "[default: 10s]"),
    ("--stall-timeout <TIME>", "[default: 300s]"),
    ("--drain-timeout <TIME>", "[default: 30s]"),
    ("--chunk-size <SIZE>", "[default: 64k]"),
    ("--validators <FACTS>", "[default: full]"),
    ("--dotfiles", "by default"),
    ("--log-file <PATH>", "by default"),
    ("--log-format <FORMAT>", "[default: text on a terminal, else json]"),
    ("--log-level <LEVEL>", "[default: info]"),
    ("--access-log <SWITCH>", "[default: on]"),
    ("--reload-file <PATH>", ""),
];

fn address(daemon: &Daemon) -> String {
    format!("unix:{}", daemon.socket().display())
}

#[test]
fn a_request_prints_the_body() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let address = address(&daemon);
    for target in [
        "/api/health".to_owned(),
        format!("{STREAM}?file1=a.txt"),
        format!("{STREAM}?file1=empty.bin"),
        stream_target(&["\u{fc}n\u{ef}-\u{65e5}\u{672c}.txt", "s3000000.bin", "100%25.txt"]),
        format!("{STREAM}?file1=none"),
    ] {
        let expected = daemon.get(&target);
        let output = run_axon(["request", &address, &target]);
        assert_eq!(output.status.code(), Some(0), "{target}: {}", stderr(&output));
        assert!(output.stdout == expected.body && output.stderr.is_empty(), "{target}: {}", stderr(&output));

        let output = run_axon(["request", &address, &target, "-i"]);
        assert!(output.status.success() && output.stdout == expected.raw, "{target}");

        let output = run_axon(["request", &address, &target, "-X", "HEAD"]);
        assert!(output.status.success() && output.stdout.is_empty(), "{target}");
        let output = run_axon(["request", &address, &target, "-X", "HEAD", "-i"]);
        assert!(output.status.success(), "{target}");
        assert_eq!(output.stdout, expected.raw[..expected.raw.len() - expected.body.len()], "{target}");

        let file = site.beside("output");
        let _ = fs::remove_file(&file);
        let file_name = file.to_str().expect("a path");
        let output = run_axon(["request", &address, &target, "-i", "-o", file_name]);
        assert!(output.status.success() && output.stdout.is_empty(), "{target}: {}", stderr(&output));
        assert!(fs::read(&file).expect("a file") == expected.raw, "{target}");
    }
    // A path is decoded, as nginx does.
    let output = run_axon(["request", &address, "/api/healt%68"]);
    assert_eq!(output.stdout, b"{\"status\":\"available\"}");
    daemon.assert_alive(idle);
}

#[test]
fn a_request_sends_what_is_asked_for() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let address = address(&daemon);
    let run = |more: &[&str]| {
        let output = run_axon([&["request", &address, "/api/health"][..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output.stdout
    };
    let file = site.beside("body");
    fs::write(&file, vec![b'x'; 900_000]).expect("a file");
    let from_file = format!("@{}", file.display());
    for (more, method) in [
        (vec!["-X", "DELETE"], "DELETE"),
        (vec!["-d", "hello"], "POST"),
        (vec!["-d", ""], "POST"),
        (vec!["-d", &from_file], "POST"),
        (vec!["-X", "PUT", "--data", "hello"], "PUT"),
        (vec!["-d", "hello", "-H", "Content-Type: text/plain", "-H", "Content-Length: 7"], "POST"),
    ] {
        let id = format!("{more:?}");
        let header = format!("X-Request-Id:{id}");
        let text = String::from_utf8(run(&[&more[..], &["-i", "-H", &header]].concat())).expect("text");
        assert!(text.starts_with("HTTP/1.1 405 "), "{text}");
        let record = daemon.request_record(&id.escape_default().to_string());
        assert_eq!((&record["method"], &record["peer"]), (&method.into(), &"127.0.0.1".into()), "{record}");
    }
    // A body from standard input.
    let output = axon().args(["request", &address, "/api/health", "-d", "@-"]).write_stdin("hello").output();
    assert!(output.is_ok_and(|output| output.status.success() && output.stdout.starts_with(b"{\"status\":405")));
    // Repeated fields, as often as they were given and in their order.
    assert_eq!(run(&["-H", "X-Request-Id: one", "--header", "x-request-id: two"]), b"{\"status\":\"available\"}");
    daemon.request_record("one, two");
    daemon.assert_alive(idle);
}

#[test]
fn a_request_fails_on_a_bad_status_only_if_asked_to() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let address = address(&daemon);
    for (target, fails) in [
        ("/api/health", false),
        ("/nothing", true),
        ("/api/stream-files?file1=none", true),
        ("/api/stream-files?file1=locked.txt", true),
        ("/api/stream-files?file1=a.txt", false),
    ] {
        let expected = daemon.get(target);
        for method in ["GET", "HEAD"] {
            let output = run_axon(["request", &address, target, "--fail", "-X", method]);
            assert_eq!(output.status.code(), Some(i32::from(fails)), "{target}");
            assert_eq!(stderr(&output).contains(&expected.status.to_string()), fails, "{}", stderr(&output));
            // What the server says about it is shown all the same.
            assert_eq!(output.stdout, if method == "GET" { &expected.body[..] } else { b"" }, "{target}");
            assert!(run_axon(["request", &address, target, "-X", method]).status.success(), "{target}");
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn a_request_whose_answer_is_cut_fails() {
    let site = Site::empty();
    let path = site.write("large.bin", vec![b'x'; 3_000_000]);
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let mut command = Command::new(binary());
    run_as_tests_do(&mut command);
    command.args(["request", &address(&daemon), "/api/stream-files?file1=large.bin"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut received = vec![0; 1000];
    stdout.read_exact(&mut received).expect("the start of an answer");
    // Nobody reads on, so nobody is asked for more: then there is no more.
    File::options().write(true).open(path).and_then(|file| file.set_len(5)).expect("a shorter file");
    stdout.read_to_end(&mut received).expect("an end");
    let mut error = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut error).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{error}");
    assert!(error.contains("cut") && error.contains("3000000"), "{error}");
    assert!(error.contains(&format!("{} of", received.len())), "{} came: {error}", received.len());
    daemon.assert_alive(idle);
}

#[test]
fn a_request_that_gets_no_answer_fails() {
    let site = Site::awkward();
    let nobody = format!("unix:{}", site.beside("nobody.sock").display());
    let output = run_axon(["request", &nobody, "/api/health"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&nobody) && stderr(&output).contains("No such file"), "{}", stderr(&output));
    let output = run_axon(["request", "127.0.0.1:1", "/api/health"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("127.0.0.1:1"), "{}", stderr(&output));

    // One that listens and says nothing, and one that speaks something else.
    let silent = site.beside("silent.sock");
    let listener = UnixListener::bind(&silent).expect("a socket");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(&silent, mode).expect("a mode");
    let silent = format!("unix:{}", silent.display());
    let output = run_axon(["request", &silent, "/api/health", "--timeout", "200ms"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    drop(listener.accept().expect("it has connected"));
    let answers = std::thread::spawn(move || {
        for answer in [&b""[..], b"\x64\0\0\x01", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"] {
            let (mut stream, _) = listener.accept().expect("it connects");
            stream.read_exact(&mut [0; 4]).expect("a packet");
            stream.write_all(answer).expect("room for it");
        }
    });
    for _ in 0..3 {
        let output = run_axon(["request", &silent, "/api/health"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).starts_with("axon: "), "{}", stderr(&output));
    }
    answers.join().expect("three requests");
}

#[test]
fn wrong_usage_of_a_request_ends_with_2() {
    for (arguments, words) in [
        (&[][..], "<ADDR>"),
        (&["unix:./x.sock"], "<TARGET>"),
        (&["/run/axon.sock", "/api/health"], "unix:/path/to/socket"),
        (&["http://localhost/", "/api/health"], "unix:/path/to/socket"),
        (&["unix:./x.sock", "api/health"], "begins with a slash"),
        (&["unix:./x.sock", "http://localhost/api/health"], "begins with a slash"),
        (&["unix:./x.sock", "/", "-H", "no colon"], "Name: value"),
        (&["unix:./x.sock", "/", "--timeout", "soon"], "500ms, 10s, 5m"),
        (&["unix:./x.sock", "/", "-o"], "--output <FILE>"),
        (&["unix:./x.sock", "/", "--frobnicate"], "--frobnicate"),
    ] {
        let output = run_axon([&["request"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{arguments:?}: {words} in {}", stderr(&output));
    }
}

#[test]
fn a_request_that_cannot_write_its_output_fails() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let address = address(&daemon);
    let nowhere = site.beside("no/file");
    for output in [nowhere.to_str().expect("a path"), "/dev/full"] {
        let run = run_axon(["request", &address, "/api/health", "-o", output]);
        assert_eq!(run.status.code(), Some(1), "{output}: {}", stderr(&run));
        assert!(stderr(&run).contains("cannot write"), "{output}: {}", stderr(&run));
    }
    let run = run_axon(["request", &address, "/api/health", "-d", "@no-such-file"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("no-such-file"), "{}", stderr(&run));
    daemon.assert_alive(idle);
}

#[test]
fn the_help_reads_like_a_manual() {
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["request", "--help"],
        &["check", "--help"],
        &["unpack", "--help"],
        &["help", "serve"],
    ] {
        let output = run_axon(arguments);
        let help = String::from_utf8(output.stdout).expect("text");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{arguments:?}");
        assert!(help.contains("Example") && help.contains("axon"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
    let output = run_axon(["--version"]);
    assert_eq!(output.stdout, format!("axon {}\n", env!("CARGO_PKG_VERSION")).as_bytes());

    let help = String::from_utf8(run_axon(["serve", "--help"]).stdout).expect("text");
    // One paragraph an option, lines joined.
    let mut paragraphs: Vec<String> = Vec::new();
    for line in help.lines() {
        // What is wrapped is indented further.
        if line.starts_with("      --") || line.starts_with("  -h, --") {
            paragraphs.push(String::new());
        }
        if let Some(last) = paragraphs.last_mut() {
            last.push_str(line.trim());
            last.push(' ');
        }
    }
    for (option, default) in OPTIONS {
        let paragraph = paragraphs.iter().find(|paragraph| paragraph.starts_with(option));
        let paragraph = paragraph.unwrap_or_else(|| panic!("{option} is not in {help}"));
        assert!(paragraph.contains(default), "{option}: {default} in {paragraph}");
        let name = option.split(' ').next().expect("a name");
        let variable = format!("[env: AXON_{}", name.trim_start_matches('-').replace('-', "_").to_uppercase());
        assert!(paragraph.contains(&variable), "{option}: {variable} in {paragraph}");
        assert!(paragraph.contains(&format!("Example: {name}")), "{option}: an example in {paragraph}");
    }
    for word in ["SIGHUP reopens", "a bare number is seconds"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    for group in ["Listening:", "Files:", "Limits:", "Logging:"] {
        assert!(help.lines().any(|line| line == group), "{group} in {help}");
    }
    let options = paragraphs.iter().filter(|paragraph| paragraph.starts_with("--")).count();
    assert_eq!(options, OPTIONS.len(), "an option that these tests do not know");
}

#[test]
fn every_option_can_come_from_the_environment() {
    let site = Site::awkward();
    let path = |name: &str| site.beside(name).to_str().expect("a path").to_owned();
    let others = format!("unix:{},unix:{}", path("axon.sock"), path("other.sock"));
    let mut command = Command::new(binary());
    run_as_tests_do(&mut command).arg("serve").stderr(Stdio::null());
    command.envs([
        ("AXON_ROOT", site.root().to_str().expect("a path")),
        ("AXON_UWSGI", &others),
        ("AXON_SOCKET_MODE", "0600"),
        ("AXON_WORKERS", "1"),
        ("AXON_DOTFILES", "true"),
        ("AXON_VALIDATORS", "mtime"),
        ("AXON_SECRET_FILE", &path("secret")),
        ("AXON_MAX_FILES", "2"),
        ("AXON_MAX_BODY", "1k"),
        ("AXON_MAX_CONNECTIONS", "10"),
        ("AXON_HEAD_TIMEOUT", "200ms"),
        ("AXON_STALL_TIMEOUT", "1m"),
        ("AXON_DRAIN_TIMEOUT", "1"),
        ("AXON_CHUNK_SIZE", "4k"),
        ("AXON_LOG_FILE", &path("own.log")),
        ("AXON_LOG_FORMAT", "text"),
        ("AXON_LOG_LEVEL", "debug"),
        ("AXON_ACCESS_LOG", "off"),
    ]);
    let mut child = command.spawn().expect("it runs");
    let socket = site.beside("other.sock");
    wait_until("it listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let send = |packet: &Packet| crate::harness::exchange(&socket, &packet.to_bytes());
    assert_eq!(send(&Packet::get(format!("{STREAM}?file1=.env"))).text(), "hidden");
    assert!(send(&Packet::get(format!("{STREAM}?file1=a&file2=b&file3=c"))).problem(400).contains('2'));
    crate::harness::exchange(&socket, b"\0").problem(408);
    assert_eq!(
        fs::metadata(&socket).map(|found| std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777).ok(),
        Some(0o600)
    );
    assert!(site.beside("secret").exists());
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).expect("a process").flatten();
    let workers = threads.filter(|thread| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.starts_with("axon-worker"))
    });
    assert_eq!(workers.count(), 1);
    let stopped = Command::new("kill").arg(child.id().to_string()).status();
    assert!(stopped.is_ok_and(|status| status.success()));
    assert!(child.wait().expect("it ends").success());
    let log = fs::read_to_string(site.beside("own.log")).expect("a log");
    assert!(log.contains("DEBUG") && log.contains("listening") && !log.contains("status=408"), "{log}");
}

#[test]
fn an_argument_wins_over_the_environment_and_a_bad_variable_is_named() {
    let site = Site::awkward();
    let socket = format!("unix:{}", site.beside("axon.sock").display());
    let root = site.root();
    let root = root.to_str().expect("a path");
    for (variable, value) in
        [("AXON_HEAD_TIMEOUT", "soon"), ("AXON_WORKERS", "0"), ("AXON_LOG_LEVEL", "loud"), ("AXON_UWSGI", "x")]
    {
        let output = axon().env("AXON_UWSGI", &socket).env(variable, value).args(["serve", "--root", root]).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{variable}: {}", stderr(&output));
        let option = variable.trim_start_matches("AXON_").to_lowercase().replace('_', "-");
        assert!(stderr(&output).contains(&format!("--{option}")), "{variable}: {}", stderr(&output));
    }
    for (dotfiles, status) in [("0", 404), ("false", 404), ("no", 404), ("1", 200), ("yes", 200)] {
        let shell = format!("export AXON_DOTFILES={dotfiles} AXON_MAX_FILES=1; exec \"$@\"");
        let options = crate::harness::DaemonOptions {
            arguments: &["--max-files", "2"],
            shell: Some(&shell),
            ..crate::harness::DaemonOptions::default()
        };
        let mut daemon = Daemon::start_with(&site, options);
        let idle = daemon.idle_descriptors();
        assert_eq!(daemon.get(stream_target(&[".env", "a.txt"])).status, status, "AXON_DOTFILES={dotfiles}");
        daemon.assert_alive(idle);
    }
}
