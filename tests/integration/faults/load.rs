//! Readers that stall, and too many of something at once.

use std::{
    fs::File,
    io::Read as _,
    time::{Duration, Instant},
};

use crate::harness::{Daemon, STREAM, Site, noise, stream_target, wait_until};

use super::ask;

#[test]
fn stalled_readers_cost_little_memory_and_disturb_nobody() {
    const READERS: usize = 200;
    let site = Site::empty();
    let sparse = File::create(site.path("sparse.bin")).expect("a file");
    sparse.set_len(1 << 30).expect("a sparse file");
    site.write("solid.bin", noise(3_000_000));
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let solid = stream_target(&["solid.bin"]);
    assert_eq!(daemon.get(&solid).status, 200);
    let targets = [
        stream_target(&["sparse.bin"]),
        stream_target(&["sparse.bin", "solid.bin"]),
        stream_target(&["solid.bin", "solid.bin"]),
    ];
    let before = daemon.resident_kib();
    let mut first_growth = None;
    for round in 0..2 {
        let readers: Vec<_> = targets.iter().cycle().take(READERS).map(|target| ask(&daemon, target)).collect();
        // Accepted and stuck: each has begun to answer, and there is nothing left to do.
        wait_until("all are accepted", || daemon.descriptors() >= idle + 2 * READERS);
        daemon.assert_cpu_idle();
        let growth = daemon.resident_kib().saturating_sub(before);
        assert!(growth < 256 * READERS as u64, "round {round}: {growth} KiB for {READERS} readers");
        // What the first readers cost is used again for the next ones.
        let limit = first_growth.get_or_insert(growth);
        assert!(growth <= *limit + 16 * READERS as u64, "round {round}: {growth} KiB after {limit} KiB");
        let mut health: Vec<Duration> = (0..21).map(|_| daemon.get("/api/health").duration).collect();
        health.sort();
        assert!(health[10] < Duration::from_millis(50), "{health:?}");
        assert!(daemon.get(&solid).body == site.read("solid.bin"));
        let later = daemon.resident_kib().saturating_sub(before);
        assert!(later <= growth + 4 * 1024, "round {round}: {growth} KiB, then {later} KiB");
        drop(readers);
        daemon.assert_alive(idle);
    }
    daemon.assert_cpu_idle();
}

#[test]
fn a_reader_that_stalls_too_long_is_let_go() {
    let site = Site::empty();
    site.write("large.bin", vec![b'x'; 3_000_000]);
    let mut daemon = Daemon::start(&site, &["--stall-timeout", "300ms"]);
    let idle = daemon.idle_descriptors();
    let mut stalled = ask(&daemon, &stream_target(&["large.bin"]));
    // One that takes something now and then is slow, not stalled.
    let mut slow = ask(&daemon, &stream_target(&["large.bin"]));
    let started = Instant::now();
    let mut taken = 0;
    let mut piece = vec![0; 100_000];
    while started.elapsed() < Duration::from_millis(900) {
        slow.read_exact(&mut piece).expect("it goes on");
        taken += piece.len();
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).expect("to the end");
    assert!(taken + rest.len() > 3_000_000, "the slow one has got everything");
    let record = daemon.recorded("of the stalled one", |record| record["cut"] == "stalled");
    assert_eq!((&record["level"], &record["status"]), (&"INFO".into(), &200.into()));
    let mut received = Vec::new();
    stalled.read_to_end(&mut received).expect("an end");
    assert!(received.len() < 3_000_000, "{}", received.len());
    daemon.assert_alive(idle);
}

#[test]
fn many_files_in_one_request_up_to_a_limit() {
    let site = Site::empty();
    site.write("b.txt", "abcdef");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let target = |count: usize, name: &str| {
        let pairs: Vec<String> = (0..count).map(|index| format!("file{index}={name}")).collect();
        format!("{STREAM}?{}", pairs.join("&"))
    };
    let mut durations = Vec::new();
    for count in [1, 2, 10, 50, 100, 500, 1000] {
        let answer = daemon.get(target(count, "b.txt"));
        assert_eq!(answer.status, 200);
        if count > 1 {
            let parts = answer.parts();
            assert_eq!(parts.len(), count);
            assert!(parts.iter().all(|part| part.body == b"abcdef"));
            assert_eq!(answer.header("axon-parts"), Some(&*count.to_string()));
        }
        durations.push(answer.duration);
    }
    // Linear, with a wide margin for a busy machine: quadratic would be a hundred times as much.
    assert!(durations[6] < durations[4] * 40 + Duration::from_millis(100), "{durations:?}");
    for count in [1001, 2000] {
        // 400 and not 404: none of them was looked for.
        let answer = daemon.get(target(count, "x"));
        assert!(answer.problem(400).contains("1000"), "{}", answer.text());
        assert!(!answer.text().contains("\"files\""), "{}", answer.text());
    }
    daemon.assert_alive(idle);
    drop(daemon);

    let mut daemon = Daemon::start(&site, &["--max-files", "3"]);
    let idle = daemon.idle_descriptors();
    assert_eq!(daemon.get(target(3, "b.txt")).parts().len(), 3);
    assert!(daemon.get(target(4, "b.txt")).problem(400).contains('3'));
    daemon.assert_alive(idle);
}

#[test]
fn more_connections_than_allowed_wait_for_their_turn() {
    let site = Site::empty();
    site.write("large.bin", vec![b'x'; 2_000_000]);
    let mut daemon = Daemon::start(&site, &["--max-connections", "4"]);
    let idle = daemon.idle_descriptors();
    let large = stream_target(&["large.bin"]);
    let mut readers: Vec<_> = (0..12).map(|_| ask(&daemon, &large)).collect();
    let mut probe = ask(&daemon, "/api/health");
    daemon.assert_cpu_idle();
    // A connection, its file and nothing more for each of the four.
    assert!(daemon.descriptors() <= idle + 2 * 4 + 2, "{} descriptors, {idle} when idle", daemon.descriptors());
    std::thread::scope(|scope| {
        for reader in &mut readers {
            scope.spawn(move || {
                let mut received = Vec::new();
                reader.read_to_end(&mut received).expect("to the end");
                assert!(received.len() > 2_000_000);
            });
        }
    });
    let mut received = String::new();
    probe.read_to_string(&mut received).expect("an answer");
    assert!(received.ends_with("{\"status\":\"available\"}"), "{received}");
    drop(readers);
    daemon.assert_alive(idle);
}
