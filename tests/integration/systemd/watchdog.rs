//! Signs of life, and their end where a worker is stuck.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::harness::{
    Daemon, DaemonOptions, Download, Manager, Packet, Site, binary, exchange, noise, parse_records, program,
    stream_target,
};

/// The least time that tells that there are no pings, where they would come every 100 ms.
const SILENCE: Duration = Duration::from_secs(1);

/// Four pings fit it.
const TIMEOUT: &str = "WATCHDOG_USEC=400000";

/// A program that runs a daemon and can hold a thread of it.
struct Held {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Held {
    /// Runs a daemon on a socket beside a site's root.
    fn start(site: &Site, manager: &Manager) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/systemd/hold_thread.py");
        // As whoever runs the tests: an unprivileged user may not look where the script is, or Python.
        let mut command = Command::new(program("python3", "python3"));
        command.arg(script).arg("axon-worker");
        command.arg(binary()).args(["serve", "--workers", "2", "--root"]).arg(site.root());
        command.arg("--uwsgi").arg(format!("unix:{}", site.beside("axon.sock").display()));
        let (name, value) = TIMEOUT.split_once('=').expect("a variable");
        command.env("NOTIFY_SOCKET", manager.path()).env(name, value);
        command.stderr(File::create(site.beside("axon.log")).expect("a log"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python runs");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, answers }
    }

    /// Says what to do and waits until it is done.
    #[track_caller]
    fn tell(&mut self, word: &str, log: &Path) {
        let mut stdin = self.child.stdin.as_ref().expect("a pipe");
        writeln!(stdin, "{word}").expect("it reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("an answer");
        assert_eq!(answer.trim(), word, "{}", fs::read_to_string(log).unwrap_or_default());
    }

    /// Ends the daemon, and gives its exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn a_worker_that_is_stuck_stops_the_pings() {
    let site = Site::empty();
    let manager = Manager::new(&site);
    let log = site.beside("axon.log");
    let mut held = Held::start(&site, &manager);
    manager.hear("READY=1");
    for _ in 0..5 {
        manager.hear("WATCHDOG=1");
    }
    for _ in 0..2 {
        held.tell("hold", &log);
        // What was on its way, and one more for the sign of life that the worker gave before.
        let heard = manager.heard_within(SILENCE);
        let pings = heard.iter().filter(|message| *message == "WATCHDOG=1\n").count();
        assert!(pings <= 3, "{heard:?}");
        assert_eq!(manager.heard_within(SILENCE), [""; 0]);
        // The other worker goes on, and that is not enough.
        let answer = exchange(&site.beside("axon.sock"), &Packet::get("/api/health").to_bytes());
        assert_eq!(answer.status, 200);
        held.tell("release", &log);
        for _ in 0..3 {
            manager.hear("WATCHDOG=1");
        }
    }
    assert_eq!(held.end(), Some(0));
    let records = parse_records(&fs::read_to_string(log).expect("a log"));
    let told: Vec<_> = records.iter().filter_map(|record| record["message"].as_str()).collect();
    assert_eq!(told.iter().filter(|text| text.contains("workers do not answer")).count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|text| text.contains("answers again")).count(), 2, "{told:?}");
}

#[test]
fn pings_go_on_under_load_and_in_the_drain() {
    let site = Site::empty();
    site.write("large.bin", noise(3_000_000));
    let manager = Manager::new(&site);
    let shell = format!("export NOTIFY_SOCKET={} {TIMEOUT}; exec \"$@\"", manager.path().display());
    let options = DaemonOptions { shell: Some(&shell), ..DaemonOptions::default() };
    let mut daemon = Daemon::start_with(&site, options);
    let download = Download::begin(daemon.socket(), stream_target(&["large.bin"]), "slow");
    for _ in 0..5 {
        assert_eq!(daemon.get(stream_target(&["large.bin"])).body.len(), 3_000_000);
        manager.hear("WATCHDOG=1");
    }
    daemon.signal("TERM");
    manager.hear("STOPPING=1");
    // The workers that have nothing left to do are gone, which is not to be stuck.
    for _ in 0..5 {
        manager.hear("WATCHDOG=1");
    }
    assert!(download.finish().body == site.read("large.bin"));
    assert!(daemon.wait().success());
}

#[test]
fn without_a_watchdog_there_are_no_pings() {
    for variables in ["UNUSED=1", "WATCHDOG_USEC=0", "WATCHDOG_USEC=soon", "WATCHDOG_USEC=400000 WATCHDOG_PID=1"] {
        let site = Site::empty();
        let manager = Manager::new(&site);
        let shell = format!("export NOTIFY_SOCKET={} {variables}; exec \"$@\"", manager.path().display());
        let options = DaemonOptions { shell: Some(&shell), ..DaemonOptions::default() };
        let mut daemon = Daemon::start_with(&site, options);
        manager.hear("READY=1");
        assert_eq!(manager.heard_within(SILENCE), [""; 0], "{variables}");
        daemon.signal("TERM");
        assert!(daemon.wait().success());
    }
    // One that is for this process, and the shortest there is.
    for variables in ["WATCHDOG_PID=$$ WATCHDOG_USEC=400000", "WATCHDOG_USEC=1"] {
        let site = Site::empty();
        let manager = Manager::new(&site);
        let shell = format!("export NOTIFY_SOCKET={} {variables}; exec \"$@\"", manager.path().display());
        let options = DaemonOptions { shell: Some(&shell), ..DaemonOptions::default() };
        let mut daemon = Daemon::spawn(&site, options);
        for _ in 0..5 {
            manager.hear("WATCHDOG=1");
        }
        daemon.signal("TERM");
        manager.hear("STOPPING=1");
        assert!(daemon.wait().success());
    }
}
