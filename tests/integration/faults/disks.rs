//! Disks that fail, crawl or hang, and what becomes of everybody else.
//!
//! Two ways to get one. A FUSE file system, of which nothing is ever in memory: its content is read on threads that may
//! wait and copied. And system calls of a local file that are tampered with: the way of `sendfile`.

use std::{
    fs::File,
    io::Read as _,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::harness::{
    Daemon, DaemonOptions, End, FAULTY_LEN, FaultyDisk, Packet, Site, injecting, noise, read_answer, stream_target,
    wait_until,
};

use super::ask;

/// How much longer than usual others may take while a disk is slow.
const MAX_DELAY: Duration = Duration::from_millis(100);

/// How many downloads wait for it meanwhile.
const DOWNLOADS: usize = 64;

/// A daemon whose system calls on one file of the site are tampered with. All on one worker: the worst that can be.
fn tampered(site: &Site, name: &str, rules: &[&str]) -> Option<Daemon> {
    let shell = injecting(Some(&site.path(name)), rules)?;
    let options = DaemonOptions { arguments: &["--workers", "1"], shell: Some(&shell), ..DaemonOptions::default() };
    Some(Daemon::start_with(site, options))
}

/// Asks for files of which one cannot be read to its end: alone, first, last and in between. The answers are cut, each
/// leaves one record, and the next request is as good as ever.
fn assert_cuts(daemon: &mut Daemon, site: &Site, broken: &str, content: &[u8]) {
    site.write("before.txt", "before");
    site.write("after.txt", "AFTER");
    let idle = daemon.idle_descriptors();
    let errors = |daemon: &Daemon| daemon.records().iter().filter(|record| record["level"] == "ERROR").count();
    let earlier = errors(daemon);
    for (round, (names, parameter)) in [
        (&[broken][..], "file0"),
        (&[broken, "after.txt"], "file0"),
        (&["before.txt", broken], "file1"),
        (&["before.txt", broken, "after.txt"], "file1"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("broken {round}");
        let answer = daemon.send(&Packet::get(stream_target(names)).header("X-Request-Id", &id));
        assert_eq!((answer.status, answer.end), (200, End::Closed), "{names:?}");
        let body = &answer.body;
        assert!((body.len() as u64) < answer.content_length(), "{names:?}: it looks whole");
        assert!(!body.windows(5).any(|window| window == b"AFTER"), "{names:?}: no later part");
        assert!(!body.ends_with(b"--\r\n"), "{names:?}: no closing delimiter");
        if let [_] = names {
            assert!(content.starts_with(body) && body.len() > 1000, "{} bytes came", body.len());
        }
        assert_eq!(daemon.request_record(&id)["cut"], "file");
        assert_eq!(errors(daemon), earlier + round + 1, "one record each: {}", daemon.log());
        let record = daemon.records().into_iter().rfind(|record| record["level"] == "ERROR").expect("a record");
        assert_eq!(record["parameter"], parameter, "{record}");
        assert!(record["cause"].as_str().is_some_and(|cause| cause.contains("os error 5")), "EIO: {record}");
        assert_eq!(daemon.get(stream_target(&["before.txt", "after.txt"])).parts()[1].body, b"AFTER");
    }
    daemon.assert_cpu_idle();
    daemon.assert_alive(idle);
}

#[test]
fn a_disk_that_fails_cuts_the_answer() {
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &[]);
    let Some(_disk) = FaultyDisk::mount(&site, "disk") else { return };
    assert_cuts(&mut daemon, &site, "disk/broken-300000-a", &FaultyDisk::content());
    // What cannot even be opened is known before the first byte.
    for names in [&["disk/locked-a"][..], &["before.txt", "disk/locked-a"]] {
        assert!(daemon.get(stream_target(names)).problem(500).contains("cannot be read"));
    }
    // And what is not broken comes whole, although nothing of it is ever in memory.
    assert!(daemon.get(stream_target(&["disk/fine-a"])).body == FaultyDisk::content());
}

#[test]
fn calls_that_fail_on_the_way_of_sendfile_cut_the_answer() {
    let content = noise(3_000_000);
    for rules in [
        &["sendfile:error=EIO:when=4+"][..],
        &["preadv2:error=EIO:when=4+"],
        &["preadv2:error=EAGAIN", "pread64:error=EIO:when=4+"],
    ] {
        let site = Site::empty();
        site.write("broken.bin", &content);
        let Some(mut daemon) = tampered(&site, "broken.bin", rules) else { return };
        assert_cuts(&mut daemon, &site, "broken.bin", &content);
    }
}

#[test]
fn a_kernel_that_cannot_tell_or_send_is_got_around() {
    let site = Site::empty();
    let content = noise(3_000_000);
    site.write("large.bin", &content);
    for rules in [
        &["preadv2:error=EOPNOTSUPP"][..],
        &["preadv2:error=EAGAIN"],
        &["sendfile:error=EINVAL"],
        &["sendfile:error=EINVAL:when=5+"],
        &["preadv2:error=EAGAIN:when=3+4"],
    ] {
        let Some(mut daemon) = tampered(&site, "large.bin", rules) else { return };
        let idle = daemon.idle_descriptors();
        assert!(daemon.get(stream_target(&["large.bin"])).body == content, "{rules:?}");
        let parts = daemon.get(stream_target(&["large.bin", "large.bin"])).parts();
        assert!(parts.iter().all(|part| part.body == content), "{rules:?}");
        daemon.assert_alive(idle);
    }
}

/// How long a request usually takes: the median of several.
fn usual_duration(daemon: &Daemon, target: &str) -> Duration {
    let mut durations: Vec<Duration> = (0..11)
        .map(|_| {
            let answer = daemon.get(target);
            assert_eq!((answer.status, answer.end), (200, End::Closed), "{target}");
            answer.duration
        })
        .collect();
    durations.sort();
    durations[durations.len() / 2]
}

/// Ends what looks at it, however its owner ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks that health, files in memory and other targets take no longer than usual while many wait for a slow disk.
fn assert_undisturbed(daemon: &Daemon, site: &Site, slow: impl Fn(usize) -> String, others: &[String]) {
    site.write("small.txt", "0123456789");
    site.write("other.bin", noise(3_000_000));
    let in_memory = [&["small.txt"][..], &["other.bin"], &["small.txt", "other.bin", "small.txt"]].map(stream_target);
    let targets: Vec<&str> = in_memory.iter().chain(others).map(String::as_str).chain(["/api/health"]).collect();
    let usual: Vec<Duration> = targets.iter().map(|target| usual_duration(daemon, target)).collect();
    let done = AtomicBool::new(false);
    let (while_slow, threads): (Vec<Duration>, _) = thread::scope(|scope| {
        let _stop = Stop(&done);
        for index in 0..DOWNLOADS {
            let (mut stream, done) = (ask(daemon, &stream_target(&[slow(index)])), &done);
            scope.spawn(move || {
                let mut piece = vec![0; 65_536];
                while !done.load(Ordering::Relaxed) {
                    assert!(stream.read(&mut piece).expect("more of it") > 0, "it ended");
                }
            });
        }
        wait_until("all of them wait for the disk", || daemon.threads() > DOWNLOADS);
        (targets.iter().map(|target| usual_duration(daemon, target)).collect(), daemon.threads())
    });
    assert!(threads > DOWNLOADS, "they waited all the time: {threads} threads");
    println!("usually {usual:?}, with {DOWNLOADS} slow downloads {while_slow:?}: {targets:?}");
    for (index, target) in targets.iter().enumerate() {
        assert!(while_slow[index] <= usual[index] + MAX_DELAY, "{target}: {usual:?}, then {while_slow:?}");
    }
}

#[test]
fn slow_downloads_hold_up_nobody_else() {
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &["--workers", "1"]);
    let idle = daemon.idle_descriptors();
    let Some(_slow) = FaultyDisk::mount(&site, "slow") else { return };
    let Some(_healthy) = FaultyDisk::mount(&site, "healthy") else { return };
    // Of a healthy one nothing is in memory either: each open and each read needs a thread that may wait.
    let healthy = stream_target(&["healthy/fine-0"]);
    assert_undisturbed(&daemon, &site, |index| format!("slow/slow-300-{index}"), &[healthy]);
    daemon.assert_alive(idle);
}

#[test]
fn slow_downloads_from_the_same_disk_hold_up_nobody_else() {
    let site = Site::empty();
    let large = File::create(site.path("large.bin")).expect("a file");
    large.set_len(100_000_000).expect("a sparse file");
    let rules = ["preadv2:error=EAGAIN", "pread64:delay_enter=300000"];
    let Some(mut daemon) = tampered(&site, "large.bin", &rules) else { return };
    let idle = daemon.idle_descriptors();
    assert_undisturbed(&daemon, &site, |_| "large.bin".to_owned(), &[]);
    daemon.assert_alive(idle);
}

#[test]
fn a_disk_that_hangs_holds_up_no_other() {
    // More than there are threads to wait with.
    const HUNG: usize = 300;
    const THREADS: usize = axon::blocking::MAX_THREADS;
    let site = Site::empty();
    // Of neither disk anything is ever in memory. The one that hangs is mounted last, so that it is gone first if this
    // fails: a process with a read that hangs cannot end.
    let Some(_healthy) = FaultyDisk::mount(&site, "") else { return };
    let mut daemon = Daemon::start(&site, &["--workers", "1"]);
    let idle = daemon.idle_descriptors();
    let Some(disk) = FaultyDisk::mount(&site, "mount") else { return };
    let hung: Vec<_> = (0..HUNG).map(|index| ask(&daemon, &stream_target(&[format!("mount/hung-{index}")]))).collect();
    wait_until("no thread is left", || daemon.threads() > THREADS);
    // Each was opened from the one disk, and is read from the other.
    assert!(daemon.threads() <= 2 * THREADS + 8, "{} threads", daemon.threads());
    for target in ["/api/health".to_owned(), stream_target(&["fine-0"]), stream_target(&["fine-1", "fine-2"])] {
        let answer = daemon.get(&target);
        assert_eq!((answer.status, answer.end), (200, End::Closed), "{target}");
        assert!(answer.duration < Duration::from_secs(1), "{target} took {:?}", answer.duration);
    }
    println!("{} threads, {} KiB for {HUNG} reads that hang", daemon.threads(), daemon.resident_kib());
    daemon.assert_cpu_idle();
    disk.release();
    // The first ones that hung, and one that waited for a thread.
    for mut stream in hung.into_iter().step_by(HUNG / 6) {
        let answer = read_answer(&mut stream, Instant::now());
        assert_eq!((answer.status, answer.end, answer.content_length()), (200, End::Closed, FAULTY_LEN as u64));
        assert!(answer.body == FaultyDisk::content());
    }
    daemon.assert_alive(idle);
}
