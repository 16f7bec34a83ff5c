//! What SIGHUP renews, and that no request notices.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crate::harness::{
    Answer, Daemon, DaemonOptions, Download, Packet, Site, noise, parse_records, read_multipart, stream_target,
    tests_run_as_root, wait_until,
};

const LARGE_LEN: usize = 3_000_000;

fn site() -> Site {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("large.bin", noise(LARGE_LEN));
    site
}

/// Writes a file beside the root that the daemon may read.
fn write(path: &Path, content: &str) {
    fs::write(path, content).expect("a file");
    fs::set_permissions(path, Permissions::from_mode(0o644)).expect("a mode");
}

/// Sends SIGHUP and waits until everything is done: nothing is left for a later moment.
fn reload(daemon: &Daemon) {
    let count = || daemon.log().matches("\"reloaded\"").count();
    let before = count();
    daemon.signal("HUP");
    wait_until("it has reloaded", || count() == before + 1);
}

/// Whether a request that is no request leaves its record, which is one at debug.
fn tells_debug(daemon: &Daemon, id: &str) -> bool {
    let seen = daemon.log().matches("the peer sent no request").count();
    let packet = Packet::get("/").with("CONTENT_LENGTH", "x").header("X-Request-Id", id);
    assert_eq!(daemon.send(&packet).status, 400);
    // Records come in their order: when this one is there, the other is or never will be.
    daemon.send(&Packet::get("/api/health").header("X-Request-Id", id));
    daemon.request_record(id);
    daemon.log().matches("the peer sent no request").count() > seen
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").expect("a tag").to_owned()
}

#[test]
fn the_log_level_follows_the_reload_file() {
    let site = site();
    let file = site.beside("axon.env");
    write(&file, "# nothing yet\n#AXON_LOG_LEVEL=trace\n");
    let path = file.to_str().expect("a path");
    let daemon = Daemon::start(&site, &["--reload-file", path]);
    for (index, (content, expected)) in [
        ("AXON_LOG_LEVEL=debug\n", true),
        ("AXON_LOG_LEVEL=\"info\"\n", false),
        ("OTHER=x\nAXON_LOG_LEVEL='trace'\n", true),
        ("# AXON_LOG_LEVEL=trace\n", false),
    ]
    .into_iter()
    .enumerate()
    {
        write(&file, content);
        assert_ne!(tells_debug(&daemon, &format!("before-{index}")), expected, "{content}");
        reload(&daemon);
        assert_eq!(tells_debug(&daemon, &format!("after-{index}")), expected, "{content}");
    }
    assert!(daemon.records().iter().all(|record| record["level"] != "WARN" && record["level"] != "ERROR"));
    // What makes no sense changes nothing, and is named.
    write(&file, "AXON_LOG_LEVEL=debug\n");
    reload(&daemon);
    write(&file, "AXON_LOG_LEVEL=lo\u{1b}ud\n");
    reload(&daemon);
    let record = daemon.recorded("of the value", |record| record["level"] == "ERROR");
    assert_eq!((&record["value"], &record["path"]), (&r"lo\u{1b}ud".into(), &path.into()), "{record}");
    assert!(tells_debug(&daemon, "still"));
    fs::remove_file(&file).expect("gone");
    reload(&daemon);
    daemon.recorded("of the want", |record| {
        record["level"] == "ERROR" && record["cause"].as_str().is_some_and(|cause| cause.contains("No such file"))
    });
    assert!(tells_debug(&daemon, "even now"));
}

#[test]
fn a_level_goes_when_its_line_goes() {
    for (typed, from_file) in [(false, true), (false, false), (true, true)] {
        let site = site();
        let file = site.beside("axon.env");
        // As systemd does: the environment is what the file says, and perhaps more.
        write(&file, if from_file { "AXON_LOG_LEVEL=debug\n" } else { "" });
        let shell = format!("export AXON_LOG_LEVEL=debug AXON_RELOAD_FILE='{}'; exec \"$@\"", file.display());
        let arguments: &[&str] = if typed { &["--log-level", "debug"] } else { &[] };
        let options = DaemonOptions { arguments, shell: Some(&shell), ..DaemonOptions::default() };
        let mut daemon = Daemon::start_with(&site, options);
        assert!(tells_debug(&daemon, "at the start"));
        write(&file, "");
        reload(&daemon);
        // What did not come from the file stays.
        assert_eq!(tells_debug(&daemon, "without its line"), typed || !from_file);
        // What was typed is stronger than any file.
        write(&file, "AXON_LOG_LEVEL=warn\nAXON_ACCESS_LOG=on\n");
        daemon.signal("HUP");
        daemon.recorded("of what else has changed", |record| record["settings"] == "AXON_ACCESS_LOG");
        assert_eq!(daemon.send(&Packet::get("/api/health").header("X-Request-Id", "last")).status, 200);
        daemon.signal("TERM");
        assert!(daemon.wait().success());
        assert_eq!(daemon.log().contains("\"last\""), typed, "{}", daemon.log());
    }
}

#[test]
fn what_needs_a_restart_is_named() {
    let site = site();
    let file = site.beside("axon.env");
    write(&file, "AXON_MAX_FILES=1000\nAXON_MAX_BODY=1m\n");
    let daemon = Daemon::start(&site, &["--reload-file", file.to_str().expect("a path")]);
    write(&file, "AXON_MAX_FILES=1\nAXON_DOTFILES=true\nOTHER=1\n");
    for times in 1..=2 {
        reload(&daemon);
        let warnings: Vec<_> = daemon.records().into_iter().filter(|record| record["level"] == "WARN").collect();
        assert_eq!(warnings.len(), times, "{warnings:?}");
        assert_eq!(warnings[times - 1]["settings"], "AXON_DOTFILES AXON_MAX_BODY AXON_MAX_FILES");
    }
    assert_eq!(daemon.get(stream_target(&["a.txt", "a.txt"])).status, 200, "the limit is what it was");
    write(&file, "AXON_MAX_FILES=1000\nAXON_MAX_BODY=1m\n");
    reload(&daemon);
    assert_eq!(daemon.records().iter().filter(|record| record["level"] == "WARN").count(), 2);
}

#[test]
fn a_reload_file_that_cannot_be_read_is_told_at_the_start() {
    let site = site();
    let missing = site.beside("missing.env");
    let daemon = Daemon::start(&site, &["--reload-file", missing.to_str().expect("a path")]);
    assert!(daemon.records().iter().all(|record| record["level"] == "INFO"), "{}", daemon.log());
    drop(daemon);
    if !tests_run_as_root() {
        // A mode keeps nobody from their own files.
        return;
    }
    let locked = site.beside("locked.env");
    fs::write(&locked, "AXON_LOG_LEVEL=debug\n").expect("a file");
    fs::set_permissions(&locked, Permissions::from_mode(0o600)).expect("a mode");
    let daemon = Daemon::start(&site, &["--reload-file", locked.to_str().expect("a path")]);
    let record = daemon.recorded("of the file", |record| record["level"] == "WARN");
    assert!(record["cause"].as_str().is_some_and(|cause| cause.contains("Permission denied")), "{record}");
    // Once it can be, it counts.
    fs::set_permissions(&locked, Permissions::from_mode(0o644)).expect("a mode");
    reload(&daemon);
    assert!(tells_debug(&daemon, "now"));
}

#[test]
fn answers_planned_after_a_reload_have_the_new_secret() {
    let site = site();
    let secret = site.beside("secret");
    write(&secret, "the first secret of the two\n");
    let mut daemon = Daemon::start(&site, &["--secret-file", secret.to_str().expect("a path")]);
    let idle = daemon.idle_descriptors();
    let (one, both) = (stream_target(&["a.txt"]), stream_target(&["a.txt", "large.bin"]));
    let before = [tag(&daemon.get(&one)), tag(&daemon.get(&both))];
    let running = Download::begin(daemon.socket(), &both, "running");
    write(&secret, "the second secret of the two\n");
    assert_eq!([tag(&daemon.get(&one)), tag(&daemon.get(&both))], before, "nobody has asked for it yet");
    reload(&daemon);
    let after = [tag(&daemon.get(&one)), tag(&daemon.get(&both))];
    assert!(after[0] != before[0] && after[1] != before[1], "{before:?} {after:?}");
    // What was begun ends as it began.
    let answer = running.finish();
    assert_eq!(tag(&answer), before[1]);
    let parts = read_multipart(&answer.body, answer.header("content-type").expect("a type"));
    assert_eq!((parts.len(), answer.content_length()), (2, answer.body.len() as u64));
    assert!(parts[1].body == site.read("large.bin"));
    // A secret that cannot be used changes nothing.
    write(&secret, "short\n");
    reload(&daemon);
    assert_eq!([tag(&daemon.get(&one)), tag(&daemon.get(&both))], after);
    let record = daemon.recorded("of the secret", |record| record["level"] == "ERROR");
    assert!(record["cause"].as_str().is_some_and(|cause| cause.contains("5 bytes")), "{record}");
    write(&secret, "the first secret of the two\n");
    reload(&daemon);
    assert_eq!([tag(&daemon.get(&one)), tag(&daemon.get(&both))], before, "and back");
    daemon.assert_alive(idle);
}

#[test]
fn a_pipe_or_a_device_in_the_place_of_a_file_holds_up_no_reload() {
    let site = site();
    let (secret, file) = (site.beside("secret"), site.beside("axon.env"));
    let put = |path: &Path, kind: &str| {
        let _ = fs::remove_file(path);
        match kind {
            "pipe" => {
                rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o644)).expect("a pipe");
            }
            "device" => std::os::unix::fs::symlink("/dev/zero", path).expect("a link"),
            "directory" => fs::create_dir(path).expect("a directory"),
            content => write(path, content),
        }
        if kind == "pipe" {
            fs::set_permissions(path, Permissions::from_mode(0o644)).expect("a mode");
        }
    };
    let content = "AXON_LOG_LEVEL=info and a secret that is long enough\n";
    for path in [&secret, &file] {
        put(&secret, content);
        put(&file, "AXON_LOG_LEVEL=info\n");
        let arguments =
            ["--secret-file", secret.to_str().expect("a path"), "--reload-file", file.to_str().expect("a path")];
        let mut daemon = Daemon::start(&site, &arguments);
        let idle = daemon.idle_descriptors();
        let before = tag(&daemon.get(stream_target(&["a.txt"])));
        for kind in ["pipe", "device"] {
            let complaints = || daemon.log().matches("it is not a regular file").count();
            let seen = complaints();
            put(path, kind);
            reload(&daemon);
            assert_eq!(complaints(), seen + 1, "{kind}: {}", daemon.log());
            assert_eq!(tag(&daemon.get(stream_target(&["a.txt"]))), before);
        }
        daemon.assert_alive(idle);
        daemon.signal("TERM");
        assert!(daemon.wait().success());
    }
}

#[test]
fn a_start_from_what_is_no_file_fails_at_once() {
    let site = site();
    let pipe = site.beside("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    fs::set_permissions(&pipe, Permissions::from_mode(0o644)).expect("a mode");
    for path in [pipe.to_str().expect("a path"), "/dev/zero"] {
        let arguments = &["--secret-file", path];
        let mut daemon = Daemon::spawn(&site, DaemonOptions { arguments, ..DaemonOptions::default() });
        assert_eq!(daemon.wait().code(), Some(1), "{}", daemon.log());
        daemon.logged(&["cannot read or make the secret file", "not a regular file"]);
        fs::write(site.beside("axon.log"), "").expect("an empty log for the next one");
    }
}

#[test]
fn a_log_file_that_cannot_be_opened_anew_is_told() {
    let site = site();
    let (logs, moved) = (site.beside("logs"), site.beside("moved"));
    fs::create_dir(&logs).expect("a directory");
    fs::set_permissions(&logs, Permissions::from_mode(0o777)).expect("a mode");
    let own = logs.join("own.log");
    let mut daemon = Daemon::start(&site, &["--log-file", own.to_str().expect("a path")]);
    let idle = daemon.idle_descriptors();
    fs::rename(&logs, &moved).expect("moved away");
    daemon.signal("HUP");
    let told = || {
        let records = parse_records(&fs::read_to_string(moved.join("own.log")).expect("the old log"));
        records.into_iter().find(|record| record["level"] == "ERROR")
    };
    wait_until("it is told", || told().is_some());
    let record = told().expect("a record");
    assert_eq!(record["path"], own.to_str().expect("a path"));
    assert!(record["cause"].as_str().is_some_and(|cause| cause.contains("No such file")), "{record}");
    daemon.assert_alive(idle);
}

#[test]
fn many_reloads_cost_no_request() {
    let site = site();
    let secret = site.beside("secret");
    write(&secret, "a secret that is long enough\n");
    let file = site.beside("axon.env");
    write(&file, "AXON_LOG_LEVEL=info\n");
    let own = site.beside("own.log");
    let arguments = ["--secret-file", "--reload-file", "--log-file"].into_iter().zip([&secret, &file, &own]);
    let arguments: Vec<&str> = arguments.flat_map(|(name, path)| [name, path.to_str().expect("a path")]).collect();
    let mut daemon = Daemon::start(&site, &arguments);
    let idle = daemon.idle_descriptors();
    for number in 0..50 {
        fs::rename(&own, site.beside("own.log.1")).expect("moved");
        daemon.signal("HUP");
        let answer = daemon.send(&Packet::get(stream_target(&["a.txt", "large.bin"])));
        assert_eq!((answer.parts().len(), answer.parts()[1].body.len()), (2, LARGE_LEN), "{number}");
        wait_until("the log file is there again", || own.exists());
    }
    daemon.assert_alive(idle);
}
