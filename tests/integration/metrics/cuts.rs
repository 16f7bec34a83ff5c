//! Answers that did not go out whole, and log records that were lost.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::unix::{fs::symlink, net::UnixStream},
};

use crate::harness::{Daemon, Packet, Site, connect, noise, stream_target};

/// More than sockets hold.
const LARGE_LEN: usize = 3_000_000;

/// Answers that were cut, by cause.
fn cuts(client: u64, stalled: u64, file: u64) -> Vec<(&'static str, u64)> {
    let all = [("client", client), ("file", file), ("stalled", stalled)];
    let name = |cause| match cause {
        "client" => "axon_cut_transfers_total{cause=\"client\"}",
        "file" => "axon_cut_transfers_total{cause=\"file\"}",
        _ => "axon_cut_transfers_total{cause=\"stalled\"}",
    };
    all.into_iter().filter(|&(_, count)| count > 0).map(|(cause, count)| (name(cause), count)).collect()
}

fn site() -> Site {
    let site = Site::empty();
    site.write("large.bin", noise(LARGE_LEN));
    site
}

/// An answer that has begun and is not read.
fn begin(daemon: &Daemon) -> UnixStream {
    let mut stream = connect(daemon.socket());
    stream.write_all(&Packet::get(stream_target(&["large.bin"])).to_bytes()).expect("room for a packet");
    stream.read_exact(&mut [0; 1000]).expect("the start of an answer");
    stream
}

#[test]
fn a_cut_is_counted_by_its_cause() {
    let site = site();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for round in 1..=3 {
        drop(begin(&daemon));
        daemon.metrics_when("the reader is gone", |metrics| {
            metrics.above_zero("axon_cut_transfers_total") == cuts(round, 0, round - 1)
        });
        let mut begun = begin(&daemon);
        let file = File::options().write(true).open(site.path("large.bin")).expect("a file");
        file.set_len(1000).expect("shorter");
        let mut rest = Vec::new();
        begun.read_to_end(&mut rest).expect("an end");
        assert!(rest.len() < LARGE_LEN);
        daemon.metrics_when("the file changed", |metrics| {
            metrics.above_zero("axon_cut_transfers_total") == cuts(round, 0, round)
        });
        site.write("large.bin", noise(LARGE_LEN));
    }
    // A cut answer had a status.
    let (metrics, _) = daemon.metrics();
    assert_eq!(metrics.count("axon_requests_total{route=\"stream-files\",status=\"200\"}"), 6);
    daemon.assert_alive(idle);
}

#[test]
fn a_reader_that_was_given_up_is_counted() {
    let site = site();
    let mut daemon = Daemon::start(&site, &["--stall-timeout", "1500ms"]);
    let idle = daemon.idle_descriptors();
    let _begun = begin(&daemon);
    daemon.metrics_when("it stalls", |metrics| metrics.count("axon_stalled_connections") == 1);
    let metrics = daemon
        .metrics_when("it is given up", |metrics| metrics.above_zero("axon_cut_transfers_total") == cuts(0, 1, 0));
    assert_eq!((metrics.count("axon_stalled_connections"), metrics.count("axon_open_connections")), (0, 1));
    daemon.assert_alive(idle);
}

#[test]
fn lost_log_records_are_counted() {
    let site = Site::empty();
    let log = site.beside("full.log");
    symlink("/dev/full", &log).expect("a link");
    let daemon = Daemon::start(&site, &["--log-file", log.to_str().expect("a path")]);
    for _ in 0..50 {
        assert_eq!(daemon.get("/api/health").status, 200);
    }
    // One for each request, those for the metrics among them; and what it says of itself.
    let mut pages = 0;
    daemon.metrics_when("the losses are counted", |metrics| {
        pages += 1;
        let lost = metrics.count("axon_log_records_dropped_total");
        assert!(lost <= 50 + pages + 5, "{lost} after {pages} pages");
        lost >= 50
    });
}
