//! What goes wrong meanwhile: a file that shrinks, a reader that stalls, a restart, a crowd.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::harness::{
    Answer, Daemon, End, FaultyDisk, Site, Stack, curl, curl_command, program, stream_target, wait_until,
};

/// How much may be on its way between Axon and a reader that has stopped: nginx's buffer and those of the
/// kernel, which grow to some megabytes.
const MAX_ON_THE_WAY: u64 = 64 * 1024 * 1024;

#[test]
fn a_reader_notices_a_file_that_shrinks() {
    let mut stack = Stack::awkward();
    let idle = stack.daemon.descriptors();
    let planned: u64 = 1024 * 1024 * 1024;
    for (names, parameter) in [(&["shrinks.bin"][..], "file0"), (&["a.txt", "shrinks.bin", "b.txt"], "file1")] {
        let file = File::create(stack.site.path("shrinks.bin")).expect("a file");
        file.set_len(planned).expect("a sparse file");
        let (head, body) = (stack.site.beside("head"), stack.site.beside("body"));
        let _ = fs::remove_file(&body);
        let mut command = curl_command();
        command.args(["--limit-rate", "8m", "--dump-header"]).arg(&head).arg("--output").arg(&body);
        let mut child = command.arg(stack.nginx.url(&stream_target(names))).spawn().expect("curl runs");
        wait_until("the content arrives", || fs::metadata(&body).is_ok_and(|found| found.len() > 100_000));
        file.set_len(100_000).expect("a shorter file");
        let status = child.wait().expect("a child");
        assert_eq!(status.code(), Some(18), "curl calls this a partial file");

        let raw = [fs::read(&head).expect("a head"), fs::read(&body).expect("a body")].concat();
        let answer = Answer::parse(raw, End::Closed, Duration::ZERO);
        assert_eq!(answer.status, 200);
        assert!(answer.content_length() >= planned);
        assert!((answer.body.len() as u64) < MAX_ON_THE_WAY, "{} bytes came", answer.body.len());
        // Neither a part after it, nor the end of a bundle, nor a word: the last bytes are the file's.
        assert_eq!(answer.body[answer.body.len() - 1000..], [0; 1000]);

        let words = ["\"ERROR\"", &format!("\"{parameter}\""), &planned.to_string(), "100000"];
        let fault: Value = serde_json::from_str(&stack.daemon.logged(&words)).expect("a record is JSON");
        let id = fault["request_id"].as_str().expect("a number");
        let own: Value = serde_json::from_str(&stack.daemon.logged(&["\"request\"", id])).expect("a record is JSON");
        assert_eq!(own["cut"], "file");
        let seen = stack.nginx.logged("the transfer that was cut", |record| record["id"] == id);
        assert_eq!(seen["status"], 200);
        assert_eq!(seen["length"], answer.content_length().to_string());
        assert_eq!(seen["bytes"], answer.body.len());
    }
    stack.daemon.assert_alive(idle);
}

#[test]
fn a_reader_notices_a_file_that_is_another_or_cannot_be_read() {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("other.txt", "another...");
    let stack = Stack::start(site, &[]);
    let disk = FaultyDisk::mount(&stack.site, "disk");
    let forbid = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o000)).expect("a mode");
    let replace = |path: &Path| fs::rename(stack.site.path("other.txt"), path).expect("replaced");
    let remove = |path: &Path| fs::remove_file(path).expect("removed");
    let mut downloads = Vec::new();
    for (what, change) in [("forbidden", &forbid as &dyn Fn(&Path)), ("replaced", &replace), ("removed", &remove)] {
        // More than is on the way to a slow reader; behind it more files than stay open.
        let large = File::create(stack.site.path(format!("{what}-large.bin"))).expect("a file");
        large.set_len(3 * MAX_ON_THE_WAY).expect("a sparse file");
        let mut names = vec![format!("{what}-large.bin")];
        for index in 1..40 {
            names.push(format!("{what}-{index}.txt"));
            stack.site.write(&names[index], format!("content {index:02}"));
        }
        let body = stack.site.beside(what);
        let mut command = curl_command();
        command.args(["--limit-rate", "50m", "--output"]).arg(&body).arg(stack.nginx.url(&stream_target(&names)));
        downloads.push((what, command.spawn().expect("curl runs")));
        wait_until("the content arrives", || fs::metadata(&body).is_ok_and(|found| found.len() > 100_000));
        change(&stack.site.path(format!("{what}-30.txt")));
    }
    let mut cuts = downloads.len();
    for (what, mut child) in downloads {
        assert_eq!(child.wait().expect("a child").code(), Some(18), "{what}: curl calls this a partial file");
        let body = fs::read(stack.site.beside(what)).expect("a body");
        assert!(body.len() as u64 > 3 * MAX_ON_THE_WAY, "{what}: what comes before it was sent");
        let end = &body[body.len() - 20_000..];
        assert!(!end.windows(10).any(|window| window == b"content 30"), "{what}");
        assert!(!end.ends_with(b"--\r\n"), "{what}: it looks whole");
    }
    if disk.is_some() {
        for names in [&["disk/broken-300000-x"][..], &["a.txt", "disk/broken-300000-x", "a.txt"]] {
            let cut = curl(&[stack.nginx.url(&stream_target(names))]);
            assert_eq!((cut.code, cut.answer.status), (18, 200), "{names:?}");
            assert!(cut.answer.content_length() > cut.answer.body.len() as u64);
            cuts += 1;
        }
    }
    // One record for each, and the next request is as good as any.
    let errors = || stack.daemon.records().iter().filter(|record| record["level"] == "ERROR").count();
    wait_until("all are recorded", || errors() >= cuts);
    let next = curl(&[stack.nginx.url(&stream_target(&["a.txt"]))]);
    assert_eq!((next.code, next.answer.text()), (0, "0123456789"));
    assert_eq!(errors(), cuts, "{}", stack.daemon.log());
}

#[test]
fn killed_under_load_it_costs_what_was_under_way_and_nothing_else() {
    const CLIENTS: usize = 6;
    let mut stack = Stack::awkward();
    let names = ["a.txt", "s131073.bin", "s65537.bin"];
    let target = stream_target(&names);
    let whole = stack.nginx.connect().get(&target);
    let parts = |answer: &Answer| answer.parts().into_iter().map(|part| part.body).collect::<Vec<_>>();
    let expected = parts(&whole);
    // Before the kill (0) and after the restart (2) all answers are whole, in between none has to be.
    let (phase, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let restart = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut served, mut cut, mut refused) = (0, 0, 0);
                    let mut connection = stack.nginx.connect();
                    while !done.load(Ordering::SeqCst) {
                        let begun_in = phase.load(Ordering::SeqCst);
                        let answer = connection.get(&target);
                        let is_whole = answer.status == 200 && answer.body.len() as u64 == answer.content_length();
                        match answer.status {
                            200 if is_whole => {
                                assert_eq!(parts(&answer), expected);
                                served += 1;
                            }
                            200 => cut += 1,
                            502 => refused += 1,
                            status => panic!("{status}: {}", String::from_utf8_lossy(&answer.raw)),
                        }
                        let ended_in = phase.load(Ordering::SeqCst);
                        assert!(is_whole || begun_in == 1 || begun_in != ended_in, "{} in {ended_in}", answer.status);
                        if answer.end != End::Open {
                            connection = stack.nginx.connect();
                        }
                    }
                    (served, cut, refused)
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        phase.store(1, Ordering::SeqCst);
        stack.daemon.signal("KILL");
        let started = Instant::now();
        // Its socket is still there, and nobody listens on it.
        let restarted = Daemon::start(&stack.site, &[]);
        let took = started.elapsed();
        phase.store(2, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(300));
        done.store(true, Ordering::SeqCst);
        let counts: Vec<(u32, u32, u32)> = clients.into_iter().map(|c| c.join().expect("no panic")).collect();
        println!("restarted in {took:?}; whole, cut, refused: {counts:?}");
        assert!(counts.iter().all(|(served, ..)| *served > 0));
        // One that was cut is one that was under way: at most one for each client.
        assert!(counts.iter().all(|(_, cut, _)| *cut <= 1), "{counts:?}");
        restarted
    });
    stack.daemon = restart;
    let mut connection = stack.nginx.connect();
    assert_eq!(parts(&connection.get(&target)), expected);
}

#[test]
fn a_reader_that_stalls_holds_axon_back_and_fills_no_disk() {
    let mut stack = Stack::awkward();
    let idle = stack.daemon.descriptors();
    let mut reader = stack.nginx.connect();
    let target = stream_target(&["big.bin", "a.txt"]);
    reader.send("GET", &target, &[], b"").expect("a request");
    assert!(reader.take(1000).starts_with(b"HTTP/1.1 200 OK\r\n"));

    // Until nothing moves any more: Axon has used no time at all for half a second.
    let (mut used, mut since) = (stack.daemon.cpu_time(), Instant::now());
    wait_until("Axon waits for the reader", || {
        let now = stack.daemon.cpu_time();
        if now != used {
            (used, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(500)
    });
    assert_eq!(stack.nginx.traces_of_temporary_files(), Vec::<PathBuf>::new());
    let other = stack.nginx.connect().get(&stream_target(&["s3000000.bin"]));
    assert!(other.body == stack.site.read("s3000000.bin"), "others are served meanwhile");
    drop(reader);

    let line = stack.daemon.logged(&["\"request\"", "big", "\"cut\":\"client\""]);
    let own: Value = serde_json::from_str(&line).expect("a record is JSON");
    let sent = own["bytes"].as_u64().expect("a number");
    assert!(sent < MAX_ON_THE_WAY, "{sent} bytes for a reader that took 1,000");
    let seen = stack.nginx.logged("the transfer that was cut", |record| record["id"] == own["request_id"]);
    assert_eq!((&seen["status"], &seen["complete"]), (&200.into(), &"".into()));
    assert!(seen["bytes"].as_u64() <= Some(sent), "{seen}");
    stack.daemon.assert_alive(idle);
}

#[test]
fn a_slow_download_that_stops_for_a_while_arrives_whole() {
    // With AXON_TEST_LONG=1 what users of others lost: 2 GiB, of which nginx would put the first on the disk, and a
    // stop longer than a backend's usual patience. Six minutes: `cargo test`, nextest ends a test after three.
    let is_long = std::env::var_os("AXON_TEST_LONG").is_some();
    let (len, stop) = if is_long { (1_u64 << 31, 90) } else { (24 << 20, 2) };
    let stack = Stack::awkward();
    let mut command = curl_command();
    command.args(["--max-time", "900", "--limit-rate", "8m", "--output", "/dev/null"]);
    command.args(["--write-out", "%{http_code} %{size_download}", "--range", &format!("0-{}", len - 1)]);
    command.arg(stack.nginx.url(&stream_target(&["big.bin"]))).stdout(Stdio::piped());
    let child = command.spawn().expect("curl runs");
    let tell = |signal: &str| {
        let told = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(told.is_ok_and(|status| status.success()), "cannot send {signal}");
    };
    thread::sleep(Duration::from_secs(1));
    tell("-STOP");
    thread::sleep(Duration::from_secs(stop));
    tell("-CONT");
    let output = child.wait_with_output().expect("curl ends");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), format!("206 {len}").as_bytes()));
    assert_eq!(stack.nginx.traces_of_temporary_files(), Vec::<PathBuf>::new());
}

#[test]
fn a_restart_of_axon_is_over_when_it_listens_again() {
    let mut stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    assert_eq!(connection.get("/api/health").status, 200);
    for signal in ["TERM", "KILL"] {
        stack.daemon.signal(signal);
        stack.daemon.wait();
        assert_eq!(connection.get("/api/health").status, 502, "nobody listens");
        stack.daemon = Daemon::start(&stack.site, &[]);
        // nginx does not hold the failure against it.
        let answer = connection.get("/api/health");
        assert_eq!((answer.status, answer.end), (200, End::Open));
    }
}

#[test]
fn a_crowd_of_clients_gets_answers_and_no_errors() {
    let mut stack = Stack::awkward();
    let idle = stack.daemon.descriptors();
    let bundle = stream_target(&["a.txt", "s1.bin", "s65537.bin", "empty.bin"]);
    for target in ["/api/health", &stream_target(&["a.txt"]), &stream_target(&["s131073.bin"]), &bundle] {
        let mut command = Command::new(program("wrk", "wrk"));
        command.args(["--threads", "1", "--connections", "50", "--duration", "1s", "--timeout", "10s"]);
        let output = command.arg(stack.nginx.url(target)).output().expect("wrk runs");
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{target}: {report}");
        // wrk names these lines only where there is something to count.
        assert!(!report.contains("Non-2xx") && !report.contains("Socket errors"), "{target}: {report}");
        let count = report.lines().find_map(|line| line.trim().split_once(" requests in ")).expect("a count").0;
        assert!(count.parse::<u32>().expect("a number") > 50, "{target}: {report}");
    }
    assert!(!stack.nginx.error_log().contains("[error]"), "{}", stack.nginx.error_log());
    stack.daemon.assert_alive(idle);
}
