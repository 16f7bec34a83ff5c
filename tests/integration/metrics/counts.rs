//! Numbers after requests that are known.

use std::{fs::File, io::Write as _};

use axon::wire::uwsgi;

use crate::harness::{Daemon, Metrics, Packet, STREAM, Site, connect, exchange, noise, stream_target, wait_until};

fn requests(route: &str, status: u16) -> String {
    format!("axon_requests_total{{route=\"{route}\",status=\"{status}\"}}")
}

/// How many requests have been counted, whatever became of them.
fn answered(metrics: &Metrics) -> u64 {
    metrics.above_zero("axon_requests_total").iter().map(|(_, count)| count).sum()
}

#[test]
fn after_requests_that_are_known_every_number_is_right() {
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("b.txt", "abcdef");
    site.write("large.bin", noise(300_000));
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let target = stream_target(&["a.txt", "large.bin", "b.txt"]);
    let whole = daemon.get(&target);
    assert_eq!(whole.parts().len(), 3);
    let etag = whole.header("etag").expect("a validator").to_owned();
    let one = daemon.get(stream_target(&["a.txt"]));
    let as_bundle = daemon.get(stream_target(&["a.txt"]) + "&format=mixed");
    let mut answers = vec![
        daemon.get("/api/health"),
        daemon.get("/api/health"),
        daemon.send(&Packet::new("HEAD", "/api/health")),
        daemon.send(&Packet::new("POST", "/api/health")),
        daemon.send(&Packet::new("HEAD", &target)),
        daemon.send(&Packet::get(&target).header("If-None-Match", &etag)),
        daemon.send(&Packet::get(&target).header("Range", "bytes=100-199")),
        daemon.send(&Packet::get(stream_target(&["a.txt", "none.txt"]))),
        daemon.get(stream_target(&["a.txt", "none.txt"]) + "&missing=part"),
        daemon.get(STREAM),
        daemon.get("/somewhere"),
        // No request at all.
        daemon.send(&Packet { modifiers: (1, 0), ..Packet::get("/") }),
    ];
    let lens = [whole.body.len(), as_bundle.body.len(), answers[8].body.len()];
    answers.extend([whole, one, as_bundle]);
    let sent: usize = answers.iter().map(|answer| answer.body.len()).sum();

    let mut pages = 0;
    let mut pages_len = 0;
    let mut metrics = Metrics::default();
    wait_until("all are counted", || {
        pages_len += daemon.get("/api/metrics").body.len();
        pages += 1;
        // Between two pages nobody else asks: what the last one says of those before it is final.
        let (found, len) = daemon.metrics();
        metrics = found;
        let before = pages_len;
        pages_len += len;
        pages += 1;
        answered(&metrics) == (answers.len() + pages - 1) as u64
            && metrics.count("axon_sent_bytes_total") == (sent + before) as u64
    });
    let mut expected = [
        (requests("health", 200), 3),
        (requests("health", 405), 1),
        (requests("metrics", 200), pages as u64 - 1),
        (requests("other", 400), 1),
        (requests("other", 404), 1),
        (requests("stream-files", 200), 5),
        (requests("stream-files", 206), 1),
        (requests("stream-files", 304), 1),
        (requests("stream-files", 400), 1),
        (requests("stream-files", 404), 1),
    ];
    expected.sort();
    let found = metrics.above_zero("axon_requests_total");
    assert!(found.iter().copied().eq(expected.iter().map(|(name, count)| (&name[..], *count))), "{found:?}");

    // Three in each of: the bundle, HEAD, the range; of the others one, one, and one with a part that stands in.
    assert_eq!(metrics.count("axon_parts_total"), 3 * 3 + 1 + 1 + 2);
    // The same and those of the 304, and one of each of the two where another was missing.
    assert_eq!(metrics.count("axon_files_opened_total"), 4 * 3 + 1 + 1 + 1 + 1);
    // Whole bundles: neither a piece of one nor its head.
    assert_eq!(metrics.count("axon_bundle_size_bytes_count"), 3);
    assert_eq!(metrics.count("axon_bundle_size_bytes_sum"), lens.iter().sum::<usize>() as u64);
    let small = lens.iter().filter(|&&len| len <= 1024).count() as u64;
    assert_eq!(metrics.count("axon_bundle_size_bytes_bucket{le=\"1024\"}"), small);
    assert_eq!(small, 2);
    for (route, count) in [("health", 4), ("stream-files", 9), ("other", 2)] {
        for histogram in ["axon_time_to_first_byte_seconds", "axon_request_duration_seconds"] {
            assert_eq!(metrics.count(&format!("{histogram}_count{{route=\"{route}\"}}")), count, "{histogram} {route}");
            let rest = metrics.count(&format!("{histogram}_bucket{{route=\"{route}\",le=\"+Inf\"}}"));
            assert_eq!(rest, count, "{histogram} {route}");
        }
        let sum = |name: &str| metrics.value(&format!("{name}_seconds_sum{{route=\"{route}\"}}"));
        let (first, duration) = (sum("axon_time_to_first_byte"), sum("axon_request_duration"));
        assert!(0.0 < first && first <= duration && duration < 100.0, "{route}: {first} s of {duration} s");
    }
    assert_eq!(metrics.above_zero("axon_cut_transfers_total"), []);
    assert_eq!(metrics.count("axon_log_records_dropped_total"), 0);
    assert_eq!(metrics.count(concat!("axon_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}")), 1);
    // The connection that asks.
    assert_eq!(metrics.count("axon_open_connections"), 1);
    assert_eq!(metrics.count("axon_stalled_connections"), 0);
    daemon.assert_alive(idle);
}

#[test]
fn what_is_no_request_is_not_counted() {
    let site = Site::empty();
    let daemon = Daemon::start(&site, &[]);
    for _ in 0..5 {
        drop(connect(daemon.socket()));
        // A ping of uwsgi's own.
        assert_eq!(exchange(daemon.socket(), &[100, 0, 0, 0]).raw, uwsgi::PONG);
    }
    let mut pages = 0;
    let metrics = daemon.metrics_when("those before are counted", |metrics| {
        pages += 1;
        metrics.count("axon_open_connections") == 1 && answered(metrics) == pages - 1
    });
    assert_eq!(metrics.count(&requests("metrics", 200)), pages - 1);
}

#[test]
fn files_that_do_not_stay_open_are_counted_again() {
    let site = Site::empty();
    let names: Vec<String> = (0..40).map(|index| format!("{index}.txt")).collect();
    for name in &names {
        site.write(name, "content");
    }
    let daemon = Daemon::start(&site, &["--workers", "1"]);
    assert_eq!(daemon.get(stream_target(&names)).parts().len(), 40);
    // All are measured, 15 stay open, and each of the others is opened once more.
    daemon.metrics_when("all opens are counted", |metrics| metrics.count("axon_files_opened_total") == 40 + 25);
}

#[test]
fn what_is_read_from_the_disk_is_counted() {
    let site = Site::empty();
    let path = site.write("cold.bin", noise(1_000_000));
    site.write("warm.bin", noise(1_000_000));
    let daemon = Daemon::start(&site, &[]);
    let target = stream_target(&["cold.bin"]);
    assert_eq!(daemon.get(stream_target(&["warm.bin"])).body.len(), 1_000_000);
    assert_eq!(daemon.metrics().0.count("axon_cold_reads_total"), 0, "it has just been written");
    let file = File::open(&path).expect("a file");
    file.sync_all().expect("on the disk");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
    assert!(daemon.get(&target).body == site.read("cold.bin"));
    let cold = daemon.metrics().0.count("axon_cold_reads_total");
    assert!(cold > 0, "TMPDIR must be on a disk, not in memory: nothing there is ever read from one");
}

#[test]
fn bytes_are_counted_while_they_are_sent_and_a_reader_that_waits_as_stalled() {
    const READERS: usize = 3;
    let site = Site::empty();
    site.write("large.bin", noise(3_000_000));
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let mut readers: Vec<_> = (0..READERS).map(|_| connect(daemon.socket())).collect();
    daemon.metrics_when("all are open", |metrics| metrics.count("axon_open_connections") == READERS as u64 + 1);
    for reader in &mut readers {
        let packet = Packet::get(stream_target(&["large.bin"]));
        reader.write_all(&packet.to_bytes()).expect("room for a packet");
    }
    let metrics =
        daemon.metrics_when("all are stalled", |metrics| metrics.count("axon_stalled_connections") == READERS as u64);
    let sent = metrics.count("axon_sent_bytes_total");
    assert!(sent > 100_000 && sent < READERS as u64 * 3_000_000, "{sent} bytes");
    assert_eq!(metrics.count(&requests("stream-files", 200)), 0, "none of them is over");
    drop(readers);
    let metrics = daemon.metrics_when("none is open", |metrics| metrics.count("axon_open_connections") == 1);
    assert_eq!(metrics.count("axon_stalled_connections"), 0);
    daemon.assert_alive(idle);
}
