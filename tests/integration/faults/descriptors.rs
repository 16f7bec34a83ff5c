//! What a request holds open, and what becomes of it where the system gives no more: descriptors, threads.

use std::{
    io::Read as _,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Resource;

use crate::harness::{
    Daemon, DaemonOptions, FaultyDisk, Site, connect, noise, run_as_tests_do, stream_target, wait_until,
};

use super::ask;

#[test]
fn large_sets_at_once_hold_few_descriptors() {
    const REQUESTS: usize = 100;
    let site = Site::empty();
    // The first one is more than sockets hold: while nobody reads, those behind it stay as they were planned.
    let names: Vec<String> = (0..1000).map(|index| format!("{index}.txt")).collect();
    for name in &names {
        site.write(name, "content");
    }
    site.write("0.txt", noise(1_000_000));
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let target = stream_target(&names);
    let mut readers: Vec<_> = (0..REQUESTS).map(|_| ask(&daemon, &target)).collect();
    // A byte of each: all are planned, all are held up by their readers.
    for reader in &mut readers {
        reader.read_exact(&mut [0]).expect("an answer begins");
    }
    let open = daemon.descriptors() - idle;
    // A connection and sixteen files; and what threads that wait for a disk may have open at that moment.
    assert!(open <= REQUESTS * (1 + 16) + 64, "{open} descriptors for {REQUESTS} requests");
    assert!(open >= REQUESTS * 8, "{open} descriptors: they are not held up");
    println!("{open} descriptors and {} KiB for {REQUESTS} requests of 1,000 files", daemon.proportional_kib());
    daemon.assert_cpu_idle();
    let mut len = None;
    for mut reader in readers {
        // The first byte of each is read already.
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("to the end");
        assert!(rest.ends_with(b"--\r\n"));
        if len.is_none() {
            assert_eq!(rest.windows(11).filter(|window| window == b"\r\n\r\ncontent").count(), 999);
        }
        assert_eq!(rest.len(), *len.get_or_insert(rest.len()), "they are all the same");
    }
    daemon.assert_alive(idle);
}

#[test]
fn without_descriptors_it_waits_and_says_so() {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    let target = stream_target(&["a.txt"]);
    let options = DaemonOptions {
        arguments: &["--workers", "1"],
        shell: Some("ulimit -n 40; exec \"$@\""),
        ..DaemonOptions::default()
    };
    let mut daemon = Daemon::start_with(&site, options);
    let idle = daemon.idle_descriptors();
    // One connection after the other stays open, until there is a descriptor for the last one but none for a file.
    let mut held = Vec::new();
    let answer = loop {
        assert!(held.len() < 40, "it never ran out");
        let answer = daemon.get(&target);
        if answer.status != 200 {
            break answer;
        }
        held.push(connect(daemon.socket()));
        wait_until("it is accepted", || daemon.descriptors() >= idle + held.len());
    };
    answer.problem(503);
    assert!(answer.header("retry-after").is_some());
    daemon.recorded("of our own fault", |record| record["level"] == "ERROR" && record["parameter"] == "file0");

    // Now for none at all, since one more stays open: the next ones wait in the queue, at no cost, and accepting goes
    // on afterwards.
    held.push(connect(daemon.socket()));
    wait_until("it is accepted", || daemon.descriptors() >= idle + held.len());
    let waiting: Vec<_> = (0..20).map(|_| ask(&daemon, "/api/health")).collect();
    daemon.recorded("of the accept that failed", |record| {
        record["level"] == "ERROR" && record["message"].as_str().is_some_and(|text| text.contains("accept"))
    });
    // For as long as it lasts: an accept that fails is tried again ten times a second and no more.
    let before = daemon.cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let used = daemon.cpu_time().saturating_sub(before);
    assert!(used < Duration::from_millis(200), "{used:?} of CPU time in a second of want");
    let since = Instant::now();
    drop(held);
    for mut stream in waiting {
        let mut received = String::new();
        stream.read_to_string(&mut received).expect("an answer");
        assert!(received.ends_with("{\"status\":\"available\"}"), "{received}");
    }
    assert!(since.elapsed() < Duration::from_secs(2), "it took {:?} to recover", since.elapsed());
    assert_eq!(daemon.get(&target).text(), "0123456789");
    let complaints = daemon.records().iter().filter(|record| record["level"] == "ERROR").count();
    assert!(complaints < 5, "{complaints} records of one want");
    daemon.assert_alive(idle);
}

#[test]
fn a_request_that_cannot_have_a_thread_is_told_to_try_again() {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    let mut daemon = Daemon::start(&site, &["--workers", "1"]);
    let idle = daemon.idle_descriptors();
    // Nothing of it is ever in memory: a thread has to wait for it.
    let Some(_disk) = FaultyDisk::mount(&site, "disk") else { return };
    // By its own user: so it is counted, and may change the lower of its limits.
    let set = |limit: &str| {
        let (limit, pid) = (format!("--nproc={limit}:"), daemon.pid().to_string());
        let set = run_as_tests_do(Command::new("prlimit").args([&limit, "--pid", &pid])).status();
        assert!(set.is_ok_and(|status| status.success()), "prlimit of util-linux");
    };
    let before = rustix::process::getrlimit(Resource::Nproc).current;
    set("1");
    for _ in 0..3 {
        let answer = daemon.get(stream_target(&["a.txt", "disk/fine-0"]));
        assert!(answer.problem(503).contains("file1"), "{}", answer.text());
        assert!(answer.header("retry-after").is_some());
        assert_eq!(daemon.get(stream_target(&["a.txt"])).text(), "0123456789");
    }
    set(&before.map_or("unlimited".to_owned(), |limit| limit.to_string()));
    assert_eq!(daemon.get(stream_target(&["a.txt", "disk/fine-0"])).parts()[1].body, FaultyDisk::content());
    daemon.assert_alive(idle);
}
