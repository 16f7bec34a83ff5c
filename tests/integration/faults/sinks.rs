//! A log that is stuck, full or gone must not stop or slow requests, and what is lost is counted.

use std::{
    fs::{self, File},
    io::{Read, Write as _, pipe},
    os::unix::fs::symlink,
    process::Command,
    time::Duration,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::harness::{Daemon, DaemonOptions, Packet, Site, parse_records, run_as_tests_do, wait_until};

/// More requests than a pipe and the queue before it have room for records.
const REQUESTS: usize = 6000;

/// Makes requests; none may be slowed by what becomes of its record.
fn make_requests(daemon: &Daemon, count: usize) {
    for index in 0..count {
        let answer = daemon.get("/api/health");
        assert_eq!(answer.status, 200, "request {index}");
        assert!(answer.duration < Duration::from_millis(500), "request {index} took {:?}", answer.duration);
    }
}

/// Fills a pipe so that not a byte more fits.
fn fill(writer: &mut std::io::PipeWriter) {
    let flags = fcntl_getfl(&*writer).expect("flags");
    fcntl_setfl(&*writer, flags | OFlags::NONBLOCK).expect("flags");
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    while writer.write(b"\n").is_ok() {}
    // The daemon shares these flags: its writes have to block.
    fcntl_setfl(&*writer, flags).expect("flags");
}

/// Reads a log until it tells of losses: how many, how many records of requests came, and the text.
fn read_until_losses(reader: &mut impl Read) -> (u64, u64, String) {
    let mut text = String::new();
    loop {
        let mut piece = vec![0; 65_536];
        let count = reader.read(&mut piece).expect("more of the log");
        assert!(count > 0, "the log ended: {text}");
        text.push_str(std::str::from_utf8(&piece[..count]).expect("text"));
        let records = parse_records(text.trim_start_matches('\n'));
        if let Some(lost) = records.iter().find_map(|record| record["lost"].as_u64()) {
            let written = records.iter().filter(|record| record["message"] == "request").count();
            return (lost, written as u64, text);
        }
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nothing_and_losses_are_counted() {
    let site = Site::empty();
    let (mut reader, mut writer) = pipe().expect("a pipe");
    fill(&mut writer);
    let options = DaemonOptions { stderr: Some(writer.into()), ..DaemonOptions::default() };
    let mut daemon = Daemon::start_with(&site, options);
    let idle = daemon.idle_descriptors();
    make_requests(&daemon, REQUESTS);
    daemon.assert_cpu_idle();

    // Somebody reads after all: what was queued comes, and a record of what did not fit.
    let (lost, written, _) = read_until_losses(&mut reader);
    assert!(lost > 0 && written > 0, "{lost} lost, {written} written");
    assert_eq!(lost + written, REQUESTS as u64, "{lost} lost, {written} written");
    daemon.assert_alive(idle);
}

#[test]
fn a_stuck_log_does_not_hold_up_the_end() {
    let site = Site::empty();
    let (_reader, mut writer) = pipe().expect("a pipe");
    fill(&mut writer);
    let options = DaemonOptions { stderr: Some(writer.into()), ..DaemonOptions::default() };
    let mut daemon = Daemon::start_with(&site, options);
    make_requests(&daemon, 10);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
}

#[test]
fn a_log_whose_reader_is_gone_stops_nothing() {
    let site = Site::empty();
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let options = DaemonOptions { stderr: Some(writer.into()), ..DaemonOptions::default() };
    let mut daemon = Daemon::start_with(&site, options);
    let idle = daemon.idle_descriptors();
    make_requests(&daemon, 200);
    daemon.assert_cpu_idle();
    daemon.assert_alive(idle);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
}

#[test]
fn a_log_that_is_closed_stops_nothing() {
    let site = Site::empty();
    let options = DaemonOptions { shell: Some("exec \"$@\" 2>&-"), ..DaemonOptions::default() };
    let mut daemon = Daemon::start_with(&site, options);
    let idle = daemon.idle_descriptors();
    make_requests(&daemon, 200);
    // What was opened since is no log because it got the number of one.
    assert_eq!(daemon.log(), "");
    daemon.assert_cpu_idle();
    daemon.assert_alive(idle);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
}

#[test]
fn a_pipe_as_log_file_waits_for_its_reader_and_nobody_else_does() {
    let site = Site::empty();
    let log = site.beside("log.pipe");
    let made = run_as_tests_do(Command::new("mkfifo").arg(&log)).status();
    assert!(made.is_ok_and(|status| status.success()));
    // Nobody reads, from the start.
    let mut daemon = Daemon::start(&site, &["--log-file", log.to_str().expect("a path")]);
    let idle = daemon.idle_descriptors();
    make_requests(&daemon, REQUESTS);
    daemon.assert_cpu_idle();
    let mut reader = File::open(&log).expect("a pipe");
    let (lost, written, text) = read_until_losses(&mut reader);
    assert!(lost > 0 && written > 0, "{lost} lost, {written} written");
    assert_eq!(lost + written, REQUESTS as u64, "{lost} lost, {written} written");
    assert!(text.contains("\"listening\""), "the first records, too: {text:.500}");
    // One that comes and goes is no reason to end.
    drop(reader);
    make_requests(&daemon, 200);
    daemon.assert_alive(idle);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
}

#[test]
fn a_log_on_a_full_disk_stops_nothing_and_losses_are_counted() {
    let site = Site::empty();
    let log = site.beside("full.log");
    symlink("/dev/full", &log).expect("a link");
    let mut daemon = Daemon::start(&site, &["--log-file", log.to_str().expect("a path")]);
    let idle = daemon.idle_descriptors();
    make_requests(&daemon, 200);
    // Room again: the operator puts another file there and says so.
    fs::remove_file(&log).expect("gone");
    daemon.signal("HUP");
    // Records that still waited when it was told are in the new file; all others are accounted for.
    wait_until("a record of the losses", || {
        let records = parse_records(&fs::read_to_string(&log).unwrap_or_default());
        let written = records.iter().filter(|record| record["message"] == "request").count() as u64;
        let lost = records.iter().filter_map(|record| record["lost"].as_u64()).max();
        lost.is_some_and(|lost| lost > 0 && lost + written >= 200)
    });
    daemon.assert_alive(idle);
}

#[test]
fn a_hangup_reopens_the_log_file() {
    let site = Site::empty();
    let log = site.beside("own.log");
    let moved = site.beside("own.log.1");
    let mut daemon = Daemon::start(&site, &["--log-file", log.to_str().expect("a path")]);
    let idle = daemon.idle_descriptors();
    let ask = |id: &str| {
        let answer = daemon.send(&Packet::get("/api/health").header("X-Request-Id", id));
        assert_eq!(answer.status, 200);
    };
    let holds = |path: &std::path::Path, id: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        parse_records(&text).iter().any(|record| record["request_id"] == id)
    };
    for round in 0..3 {
        let [before, after] = ["before", "after"].map(|when| format!("{when}-{round}"));
        ask(&before);
        wait_until("it is written", || holds(&log, &before));
        fs::rename(&log, &moved).expect("moved away");
        // Until it is told, it goes on in the file it has.
        ask(&format!("moved-{round}"));
        wait_until("it is written", || holds(&moved, &format!("moved-{round}")));
        daemon.signal("HUP");
        // The signal arrives at some time; from the first record in the new file on, all are there.
        wait_until("there is a new file", || {
            ask("in between");
            log.exists()
        });
        ask(&after);
        wait_until("it is written", || holds(&log, &after));
        assert!(holds(&moved, &before) && !holds(&moved, &after), "round {round}");
    }
    assert_eq!(daemon.log(), "", "nothing goes to standard error as well");
    daemon.assert_alive(idle);
}
