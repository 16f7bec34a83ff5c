//! What a service manager is told.

use std::{fs, time::Duration};

use crate::harness::{
    Daemon, DaemonOptions, Download, Manager, Site, leave_out, listening_socket, noise, stream_target, wait_until,
};

fn site() -> Site {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("large.bin", noise(3_000_000));
    site
}

/// Starts a daemon with an address of its own and these variables. Does not wait.
fn spawn(site: &Site, variables: &str, arguments: &[&str]) -> Daemon {
    let shell = format!("export {variables}; exec \"$@\"");
    Daemon::spawn(site, DaemonOptions { arguments, shell: Some(&shell), ..DaemonOptions::default() })
}

fn notify(manager: &Manager) -> String {
    format!("NOTIFY_SOCKET={}", manager.path().display())
}

#[test]
fn ready_is_told_once_and_then_it_answers() {
    for workers in ["1", "8"] {
        let site = site();
        let manager = Manager::new(&site);
        let mut daemon = spawn(&site, &notify(&manager), &["--workers", workers]);
        let first = manager.next();
        // No waiting, no second try.
        assert_eq!(daemon.get("/api/health").status, 200);
        assert_eq!(first, "READY=1\nSTATUS=0 open connections; 0 requests answered, 0 MB sent\n");
        daemon.signal("TERM");
        let last = manager.next();
        assert!(last.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000\nSTATUS=draining, "), "{last}");
        assert!(last.ends_with("; 1 requests answered, 0 MB sent\n"), "{last}");
        assert!(daemon.wait().success());
        assert_eq!(manager.heard_within(Duration::from_millis(50)), [""; 0]);
    }
}

#[test]
fn a_start_that_fails_is_never_told_to_be_ready() {
    let site = site();
    let manager = Manager::new(&site);
    for arguments in [&["--socket-group", "no-such-group"][..], &["--secret-file", "/no/such/directory/secret"]] {
        let shell = format!("export {}; exec \"$@\"", notify(&manager));
        let options = DaemonOptions { arguments, shell: Some(&shell), ..DaemonOptions::default() };
        assert!(!Daemon::spawn(&site, options).wait().success());
        assert_eq!(manager.heard_within(Duration::from_millis(50)), [""; 0], "{arguments:?}");
    }
}

#[test]
fn the_status_tells_connections_and_totals_where_they_change() {
    let site = site();
    let manager = Manager::new(&site);
    let mut daemon = manager.start(&site, &[&listening_socket(&site)], &[]);
    // Nothing has changed: nothing is told.
    assert_eq!(manager.heard_within(Duration::from_secs(6)), [""; 0]);
    assert_eq!(daemon.get(stream_target(&["large.bin"])).status, 200);
    assert_eq!(daemon.get(stream_target(&["none"])).status, 404);
    let download = Download::begin(daemon.socket(), stream_target(&["a.txt", "large.bin"]), "slow");
    manager.hear("STATUS=1 open connections; 2 requests answered, 3 MB sent");
    drop(download);
    daemon.signal("TERM");
    manager.hear("STOPPING=1");
    assert!(daemon.wait().success());
}

#[test]
fn the_end_is_put_off_for_as_long_as_answers_run() {
    let site = site();
    let manager = Manager::new(&site);
    // Time enough for a busy machine: what is looked at is what is told meanwhile.
    let mut daemon = manager.start(&site, &[&listening_socket(&site)], &["--drain-timeout", "5m"]);
    let download = Download::begin(daemon.socket(), stream_target(&["large.bin"]), "slow");
    daemon.signal("TERM");
    let first = manager.next();
    assert!(first.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000\nSTATUS=draining, 1 open"), "{first}");
    // The next comes well before the time that the last one asked for is over.
    for _ in 0..2 {
        let next = manager.next_within(Duration::from_secs(15)).expect("in time");
        assert!(next.starts_with("EXTEND_TIMEOUT_USEC=15000000\nSTATUS=draining, 1 open"), "{next}");
    }
    assert!(download.finish().body == site.read("large.bin"));
    assert!(daemon.wait().success());
}

#[test]
fn nobody_to_tell_is_no_reason_not_to_serve() {
    let site = site();
    fs::write(site.beside("file"), "").expect("a file");
    for place in ["no/such/socket", "file"] {
        let mut daemon = spawn(&site, &format!("NOTIFY_SOCKET={}", site.beside(place).display()), &[]);
        let record = daemon.recorded("of the want", |record| record["level"] == "WARN");
        assert!(record["message"].as_str().is_some_and(|text| text.contains("NOTIFY_SOCKET")), "{record}");
        assert_eq!(daemon.get("/api/health").status, 200);
        daemon.signal("HUP");
        daemon.recorded("of the reload", |record| record["message"] == "reloaded");
        daemon.signal("TERM");
        assert!(daemon.wait().success());
        let complaints = daemon.records().iter().filter(|record| record["level"] == "WARN").count();
        assert_eq!(complaints, 1, "{}", daemon.log());
        fs::write(site.beside("axon.log"), "").expect("an empty log for the next one");
    }
}

#[test]
fn a_manager_that_does_not_listen_holds_up_no_reload() {
    let site = site();
    let manager = Manager::new(&site);
    let queue = fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").expect("a limit");
    let queue: usize = queue.trim().parse().expect("a number");
    if queue > 100 {
        leave_out("no queue of notifications that is full: net.unix.max_dgram_qlen is too large");
        return;
    }
    let mut daemon = spawn(&site, &notify(&manager), &[]);
    daemon.recorded("of the start", |record| record["message"] == "listening");
    let reloads = || daemon.records().iter().filter(|record| record["message"] == "reloaded").count();
    // Each is told twice, and nobody reads it.
    let count = queue / 2 + 3;
    for number in 1..=count {
        daemon.signal("HUP");
        wait_until("it has reloaded", || reloads() == number);
    }
    // It hears all of it once it listens, in its order.
    let mut heard = Vec::new();
    while heard.len() < 2 * count + 1 {
        heard.push(manager.next());
    }
    assert!(heard[0].starts_with("READY=1\n"), "{heard:?}");
    for pair in heard[1..].chunks(2) {
        assert!(pair[0].starts_with("RELOADING=1\n") && pair[1].starts_with("READY=1\n"), "{heard:?}");
    }
    daemon.signal("TERM");
    assert!(daemon.wait().success());
}

#[test]
fn a_reload_is_told_from_its_beginning_to_its_end() {
    let site = site();
    let manager = Manager::new(&site);
    let mut daemon = manager.start(&site, &[&listening_socket(&site)], &[]);
    for _ in 0..3 {
        let before = monotonic_micros();
        daemon.signal("HUP");
        let begun = manager.next();
        let after = monotonic_micros();
        let micros = begun.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{begun}"));
        let micros: u64 = micros.trim().parse().expect("a number");
        assert!((before..=after).contains(&micros), "{before} <= {micros} <= {after}");
        assert!(manager.next().starts_with("READY=1\n"));
    }
    // Who ends does not say that it is ready.
    let download = Download::begin(daemon.socket(), stream_target(&["large.bin"]), "slow");
    daemon.signal("TERM");
    manager.hear("STOPPING=1");
    daemon.signal("HUP");
    wait_until("it has reloaded once more", || {
        daemon.records().iter().filter(|record| record["message"] == "reloaded").count() == 4
    });
    assert!(download.finish().body == site.read("large.bin"));
    assert!(daemon.wait().success());
    let rest = manager.heard_within(Duration::from_millis(50));
    assert!(rest.iter().all(|message| !message.contains("READY") && !message.contains("RELOADING")), "{rest:?}");
}

/// The clock that a service manager compares with.
fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000 + now.tv_nsec / 1000).expect("it counts from the start of the machine")
}
