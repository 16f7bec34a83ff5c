//! How a daemon ends: it drains, then it cuts.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    time::{Duration, Instant},
};

use crate::harness::{
    Daemon, DaemonOptions, Download, Packet, Site, connect, injecting, noise, stream_target, wait_until,
};

const LARGE_LEN: usize = 3_000_000;

fn begin(daemon: &Daemon, id: &str) -> Download {
    Download::begin(daemon.socket(), stream_target(&["large.bin"]), id)
}

fn site() -> Site {
    let site = Site::empty();
    site.write("large.bin", noise(LARGE_LEN));
    site
}

#[test]
fn a_start_that_hangs_can_be_stopped() {
    let site = site();
    let secret = site.beside("secret");
    fs::write(&secret, "a secret that is long enough").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("a mode");
    let Some(shell) = injecting(Some(&secret), &["openat:delay_enter=5000000"]) else { return };
    let arguments = &["--secret-file", secret.to_str().expect("a path")];
    for signals in [&["TERM"][..], &["HUP", "INT", "TERM"]] {
        let options = DaemonOptions { arguments, shell: Some(&shell), ..DaemonOptions::default() };
        let mut daemon = Daemon::spawn(&site, options);
        let task = format!("/proc/{}/task", daemon.pid());
        let has_begun = || fs::read_dir(&task).is_ok_and(|threads| threads.count() >= 4);
        wait_until("it hears signals, and opens", has_begun);
        let begun = Instant::now();
        for signal in signals {
            daemon.signal(signal);
        }
        daemon.logged(&["told to stop before it had started"]);
        assert!(begun.elapsed() < Duration::from_secs(4), "{signals:?}: {:?}", begun.elapsed());
        // The tracer keeps what is left of the process until the call has taken its time.
        assert!(daemon.wait().success(), "{}", daemon.log());
        assert!(!daemon.socket().exists());
        fs::write(site.beside("axon.log"), "").expect("an empty log for the next one");
    }
}

#[test]
fn running_answers_finish_before_the_end() {
    for signal in ["TERM", "INT"] {
        let site = site();
        let mut daemon = Daemon::start(&site, &[]);
        let download = begin(&daemon, "slow");
        daemon.signal(signal);
        // From now on nobody else is let in, and the front end learns it at once.
        wait_until("connections are refused", || UnixStream::connect(daemon.socket()).is_err());
        assert!(!daemon.socket().exists());
        daemon.logged(&["draining"]);
        assert_eq!(daemon.ended(), None, "{signal}: a download still runs");
        let answer = download.finish();
        assert!(answer.body == site.read("large.bin"), "{signal}: {} bytes came", answer.body.len());
        assert!(daemon.wait().success());
        let record = daemon.request_record("slow");
        assert!(record["cut"].is_null() && record["bytes"] == LARGE_LEN, "{record}");
    }
}

#[test]
fn who_was_in_the_queue_is_still_answered() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    // While it is stopped the kernel takes connections for it.
    daemon.signal("STOP");
    let mut waiting: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = connect(daemon.socket());
            stream.write_all(&Packet::get("/api/health").to_bytes()).expect("room for a packet");
            stream
        })
        .collect();
    daemon.signal("TERM");
    daemon.signal("CONT");
    for (index, stream) in waiting.iter_mut().enumerate() {
        let mut received = String::new();
        stream.read_to_string(&mut received).expect("an answer");
        assert!(received.ends_with("{\"status\":\"available\"}"), "{index}: {received:?}");
    }
    assert!(daemon.wait().success());
}

#[test]
fn the_drain_has_a_deadline() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--drain-timeout", "300ms"]);
    let download = begin(&daemon, "stalled");
    let started = Instant::now();
    daemon.signal("TERM");
    assert!(daemon.wait().success(), "{}", daemon.log());
    let took = started.elapsed();
    assert!((Duration::from_millis(300)..Duration::from_secs(2)).contains(&took), "{took:?}");
    let answer = download.finish();
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() < LARGE_LEN, "it is seen to be cut");
    let record = daemon.request_record("stalled");
    assert_eq!((&record["cut"], &record["status"]), (&"shutdown".into(), &200.into()), "{record}");
    assert!(record["bytes"].as_u64().is_some_and(|bytes| bytes < LARGE_LEN as u64), "{record}");
}

#[test]
fn without_a_drain_everything_is_cut_at_once() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--drain-timeout", "0"]);
    let download = begin(&daemon, "stalled");
    daemon.signal("TERM");
    assert!(daemon.wait().success(), "{}", daemon.log());
    assert!(download.finish().body.len() < LARGE_LEN);
    assert_eq!(daemon.request_record("stalled")["cut"], "shutdown");
}

#[test]
fn a_second_signal_cuts_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "INT"), ("TERM", "INT")] {
        let site = site();
        let mut daemon = Daemon::start(&site, &[]);
        let download = begin(&daemon, "stalled");
        daemon.signal(first);
        daemon.logged(&["draining", "connections"]);
        let started = Instant::now();
        daemon.signal(second);
        assert!(daemon.wait().success(), "{}", daemon.log());
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert!(download.finish().body.len() < LARGE_LEN);
        assert_eq!(daemon.request_record("stalled")["cut"], "shutdown");
    }
}

#[test]
fn an_idle_daemon_ends_at_once() {
    let site = site();
    for signal in ["TERM", "INT"] {
        let mut daemon = Daemon::start(&site, &[]);
        assert_eq!(daemon.get("/api/health").status, 200);
        let started = Instant::now();
        daemon.signal(signal);
        assert!(daemon.wait().success(), "{}", daemon.log());
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
}

#[test]
fn a_hangup_does_not_end_it() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    daemon.signal("HUP");
    daemon.signal("HUP");
    daemon.assert_alive(idle);
}

#[test]
fn a_tcp_port_is_closed_while_it_drains() {
    let site = site();
    let port = super::start::free_port();
    let mut daemon = Daemon::start(&site, &["--uwsgi", &format!("127.0.0.1:{port}")]);
    let download = begin(&daemon, "slow");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    daemon.signal("TERM");
    daemon.logged(&["draining", "connections"]);
    // Taken into a queue that nobody will serve, a front end would wait until the end; refused, it goes elsewhere.
    wait_until("connections are refused", || TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(download.finish().body.len() == LARGE_LEN);
    assert!(daemon.wait().success());
}
