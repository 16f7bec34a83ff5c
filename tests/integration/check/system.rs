//! This machine: what Axon would find.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
};

use axon::server::{DESCRIPTORS_PER_CONNECTION, MAX_DESCRIPTORS_PER_CONNECTION, SPARE_DESCRIPTORS};

use super::Report;
use crate::harness::{Daemon, Site, axon, binary, run_as_tests_do, tests_run_as_root};

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn unix(path: &Path) -> String {
    format!("unix:{}", path.display())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

#[test]
fn a_root_is_entered_and_its_files_are_tried() {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    let root = site.root();
    let report = Report::of(&["--root", text(&root)]);
    for subject in ["openat2", "sendfile", "read-nowait", "file-system"] {
        assert!(report.has("ok", subject), "{subject}: {:?}", report.findings);
    }
    assert!(report.only("root").1.contains("can be entered"));
    assert!(report.only("sendfile").1.contains("a file of the root"));
    // A file that may not be read is a 403, and told.
    let locked = site.write("sub/locked.txt", "no");
    set_mode(&locked, 0o000);
    let report = Report::of(&["--root", text(&root)]);
    let (severity, message) = report.only("root");
    assert!(severity == "warning" && message.contains("locked.txt") && message.contains("403"), "{message}");
    set_mode(&locked, 0o644);
    let everybody = Command::new("chmod").args(["o+w", text(&root)]).status();
    assert!(everybody.is_ok_and(|status| status.success()));
    assert!(Report::of(&["--root", text(&root)]).messages("warning", "root").any(|m| m.contains("everybody")));

    for (path, words) in
        [(site.beside("none"), "No such file"), (site.path("a.txt"), "Not a directory"), ("/".into(), "whole machine")]
    {
        let report = Report::of(&["--root", text(&path)]);
        assert!(report.messages("error", "root").any(|message| message.contains(words)), "{:?}", report.findings);
    }
}

#[test]
fn a_root_without_files_or_without_a_list_is_tried_with_the_program() {
    let site = Site::empty();
    let root = site.root();
    for mode in [0o755, 0o311] {
        set_mode(&root, mode);
        let report = Report::of(&["--root", text(&root)]);
        assert!(report.only("sendfile").1.contains("no file that could be tried"), "{:?}", report.findings);
        assert_eq!((report.only("sendfile").0, report.only("read-nowait").0), ("ok", "ok"));
    }
    set_mode(&root, 0o000);
    let report = Report::of(&["--root", text(&root)]);
    assert!(report.has("error", "openat2") || report.has("error", "root"), "{:?}", report.findings);
}

#[test]
fn file_systems_that_answer_otherwise_are_warned_of() {
    // Files of /proc are neither sent by the kernel nor known to be in memory.
    let report = Report::of(&["--root", "/proc/self/net"]);
    assert!(report.has("ok", "openat2"), "{:?}", report.findings);
    let root = Report::of(&["--root", "/dev/shm"]);
    assert!(root.only("file-system").1.contains("tmpfs"), "{:?}", root.findings);
}

#[test]
fn root_hears_that_it_is_root() {
    if !tests_run_as_root() {
        eprintln!("left out: only root can check as root");
        return;
    }
    let site = Site::empty();
    let root = site.root();
    let as_root = || {
        let output = Command::new(binary()).args(["check", "--json", "--root", text(&root)]).output().expect("it runs");
        Report::from_output(&output).messages("warning", "root").collect::<Vec<_>>().join("\n")
    };
    assert!(as_root().contains("service's user"), "{}", as_root());
    set_mode(&root, 0o750);
    assert!(as_root().contains("only the owner and the group of"), "{}", as_root());
    assert!(!Report::of(&["--root", text(&root)]).has("warning", "root"));
}

#[test]
fn a_socket_can_be_made_or_is_told_why_not() {
    let site = Site::empty();
    let check = |path: &Path, more: &[&str]| {
        let report = Report::of(&[&["--uwsgi", &unix(path)], more].concat());
        let (severity, message) = report.only("socket");
        (severity.to_owned(), message.to_owned())
    };
    let socket = site.beside("axon.sock");
    let (severity, message) = check(&socket, &[]);
    assert!(severity == "ok" && message.contains("mode 0755") && message.contains("of 107 bytes"), "{message}");

    fs::write(site.beside("file"), "").expect("a file");
    symlink("/none", site.beside("link")).expect("a link");
    for path in [site.beside("file"), site.beside("link")] {
        let (severity, message) = check(&path, &[]);
        assert!(severity == "error" && message.contains("not a socket"), "{message}");
    }
    let (severity, message) = check(&site.beside("none/axon.sock"), &[]);
    assert!(severity == "error" && message.contains("no directory"), "{message}");

    // Left behind by one that was killed: it will be replaced.
    drop(UnixListener::bind(&socket).expect("a socket"));
    set_mode(&socket, 0o666);
    assert_eq!(check(&socket, &[]).0, "ok");
    if tests_run_as_root() {
        set_mode(&socket, 0o600);
        let (severity, message) = check(&socket, &[]);
        assert!(severity == "warning" && message.contains("may not connect (mode 0600, group root)"), "{message}");
    }

    let directory = |mode: u32| {
        let path = site.beside(&format!("d{mode:o}"));
        let made = run_as_tests_do(Command::new("mkdir").arg(&path)).status();
        assert!(made.is_ok_and(|status| status.success()));
        set_mode(&path, mode);
        path.join("axon.sock")
    };
    for (mode, severity, words) in [
        (0o755, "ok", "can be made"),
        (0o750, "ok", "can be made"),
        (0o700, "warning", "may not enter"),
        (0o777, "warning", "everybody may write"),
        (0o1777, "warning", "PrivateTmp"),
        (0o555, "error", "may not make"),
    ] {
        let found = check(&directory(mode), &[]);
        assert!(found.0 == severity && found.1.contains(words), "{mode:o}: {found:?}");
    }
    let report = Report::of(&["--root", text(&site.root()), "--uwsgi", &unix(&site.path("axon.sock"))]);
    assert!(report.messages("warning", "socket").any(|message| message.contains("lies in the root")));
}

#[test]
fn an_instance_that_is_running_is_no_error_and_something_else_is() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let report = Report::of(&["--uwsgi", &unix(daemon.socket()), "--root", text(&site.root())]);
    assert!(report.messages("ok", "socket").any(|message| message.contains("is running")), "{:?}", report.findings);
    daemon.assert_alive(idle);

    let listener = UnixListener::bind(site.beside("silent.sock")).expect("a socket");
    set_mode(site.beside("silent.sock"), 0o666);
    let closes = std::thread::spawn(move || {
        // Once to see whether somebody listens, once more for room in the queue, and once to ask.
        for _ in 0..3 {
            drop(listener.accept());
        }
    });
    let report = Report::of(&["--uwsgi", &unix(&site.beside("silent.sock"))]);
    let (severity, message) = report.only("socket");
    assert!(severity == "error" && message.contains("not Axon"), "{message}");
    closes.join().expect("three connections");
}

#[test]
fn without_an_address_those_of_nginx_are_asked() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let configuration = site.beside("some.conf");
    let dead = site.beside("dead.sock");
    drop(UnixListener::bind(&dead).expect("a socket"));
    set_mode(&dead, 0o666);
    for (socket, severity, words) in [
        (daemon.socket().to_owned(), "ok", "is running"),
        (site.beside("none.sock"), "error", "(2: No such file or directory)"),
        (dead, "error", "(111: Connection refused)"),
    ] {
        let text_of = format!("http {{ server {{ location / {{ uwsgi_pass {}; }} }} }}", unix(&socket));
        fs::write(&configuration, text_of).expect("a file");
        let report = Report::of(&["--nginx", text(&configuration)]);
        let found = report.only("socket");
        assert!(found.0 == severity && found.1.contains(words), "{found:?}");
        if severity == "error" && socket.exists() && tests_run_as_root() {
            // That of a socket unit is for nginx, and not for whoever checks.
            set_mode(&socket, 0o600);
            let report = Report::of(&["--nginx", text(&configuration)]);
            let found = report.only("socket");
            assert!(found.0 == "ok" && found.1.contains("(mode 0600, group root), and need not"), "{found:?}");
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn ports_are_free_or_taken_and_open_to_others_or_not() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let free = |address: &str| Report::of(&["--uwsgi", address]);
    let answering = std::thread::spawn(move || {
        for _ in 0..3 {
            drop(taken.accept());
        }
    });
    assert!(free(&address).has("error", "socket"));
    answering.join().expect("three connections");
    assert_eq!(free(&address).only("socket").0, "ok");
    let report = free("0.0.0.0:0");
    assert!(
        report.messages("warning", "socket").any(|message| message.contains("other machines")),
        "{:?}",
        report.findings
    );
    let report = free("192.0.2.1:1");
    assert!(report.has("warning", "socket") && !report.has("ok", "socket"), "{:?}", report.findings);
}

#[test]
fn modes_and_groups_of_sockets_are_looked_at() {
    let site = Site::empty();
    let socket = unix(&site.beside("axon.sock"));
    let report = |more: &[&str]| Report::of(&[&["--uwsgi", &socket], more].concat());
    for (arguments, severity, subject, words) in [
        (&["--socket-mode", "0666"][..], "warning", "socket-mode", "everybody"),
        (&["--socket-mode", "0444"], "error", "socket-mode", "nobody but root"),
        (&["--socket-mode", "0600", "--socket-group", "nogroup"], "warning", "socket-mode", "no effect"),
        (&["--socket-group", "no-such-group"], "error", "socket-group", "no group no-such-group"),
    ] {
        let report = report(arguments);
        assert!(report.messages(severity, subject).any(|message| message.contains(words)), "{:?}", report.findings);
    }
    if tests_run_as_root() {
        // Then the command runs as nobody, who is in nogroup and nowhere else.
        assert_eq!(report(&["--socket-group", "65534"]).only("socket-group").0, "ok");
        assert_eq!(report(&["--socket-group", "daemon"]).only("socket-group").0, "error");
    }
}

#[test]
fn a_secret_is_long_and_nobody_elses() {
    let site = Site::empty();
    let check = |path: &Path| {
        let report = Report::of(&["--root", text(&site.root()), "--secret-file", text(path)]);
        let (severity, message) = report.only("secret-file");
        (severity.to_owned(), message.to_owned())
    };
    let path = site.beside("secret");
    assert!(check(&path).1.contains("Axon makes it"), "{:?}", check(&path));
    for (content, mode, severity, words) in [
        ("sixteen bytes...\n", 0o600, "ok", "16 bytes, mode 0600"),
        ("sixteen bytes...", 0o640, "ok", "mode 0640"),
        ("sixteen bytes...", 0o604, "warning", "everybody"),
        ("fifteen bytes..\n\n", 0o600, "error", "15 bytes"),
        ("sixteen bytes...", 0o000, "error", "cannot be read"),
    ] {
        fs::write(&path, content).expect("a file");
        set_mode(&path, mode);
        let _ = std::os::unix::fs::chown(&path, Some(crate::harness::NOBODY), None);
        let found = check(&path);
        assert!(found.0 == severity && found.1.contains(words), "{content:?} {mode:o}: {found:?}");
        set_mode(&path, 0o600);
    }
    assert!(check(&site.beside("no/secret")).1.contains("no directory"));
    assert_eq!(check(Path::new("/proc/secret")).0, "error");
    assert!(check(&site.path("secret")).1.contains("lies in the root"));
    assert_eq!(check(Path::new("/")).0, "error");
    // What Axon itself says of the same.
    fs::write(&path, "fifteen bytes..").expect("a file");
    let served = axon()
        .args([
            "serve",
            "--root",
            text(&site.root()),
            "--uwsgi",
            &unix(&site.beside("s")),
            "--secret-file",
            text(&path),
        ])
        .output()
        .expect("it ends");
    assert_eq!(served.status.code(), Some(1));
}

#[test]
fn a_log_file_can_be_written_or_not() {
    let site = Site::empty();
    let check = |path: &Path| {
        let report = Report::of(&["--root", text(&site.root()), "--log-file", text(path)]);
        let (severity, message) = report.only("log-file");
        (severity.to_owned(), message.to_owned())
    };
    let path = site.beside("own.log");
    assert_eq!(check(&path).0, "ok");
    fs::write(&path, "").expect("a file");
    set_mode(&path, 0o666);
    assert!(check(&path).1.contains("may be written to"));
    set_mode(&path, 0o444);
    assert!(check(&path).1.contains("may not be written to"));
    assert!(check(&site.beside("no/log")).1.contains("no directory"));
    assert!(check(&site.root().join("log")).1.contains("lies in the root"));
    assert!(check(Path::new("/etc")).1.contains("is a directory"));
}

#[test]
fn limits_of_the_process_count() {
    let run = |limit: u64| {
        let script = format!("ulimit -n {limit}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(binary()).args(["check", "--json", "--max-connections", "10"]);
        Report::from_output(&run_as_tests_do(&mut command).output().expect("a shell runs"))
    };
    let most = 10 * MAX_DESCRIPTORS_PER_CONNECTION + SPARE_DESCRIPTORS;
    let least = 10 * DESCRIPTORS_PER_CONNECTION + SPARE_DESCRIPTORS;
    for (limit, severity, words) in [
        (most, "ok", "enough for 10"),
        (most - 1, "warning", "enough for 9"),
        (least, "warning", "enough for 1"),
        (least - 1, "warning", "too few for 10"),
    ] {
        let report = run(limit);
        let found = report.only("descriptors");
        assert!(found.0 == severity && found.1.contains(words), "{limit}: {found:?}");
    }
}
