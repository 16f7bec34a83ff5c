//! Large answers that nginx keeps in pieces: the lines of nginx.conf marked "#cache#" and "#slice#", switched on.

use std::{fs, ops::Range};

use crate::harness::{Daemon, End, NginxOptions, Site, Stack, curl_command, noise, stream_target, wait_until};

/// The block as it is shipped.
const SLICES: NginxOptions<'_> = NginxOptions { blocks: &["cache", "slice"], replaced: &[] };

/// The size of a piece in nginx.conf.
const SLICE_LEN: usize = 1024 * 1024;

/// A site with a second large file, and what asks for a bundle of five pieces.
fn site() -> (Site, String) {
    let site = Site::awkward();
    site.write("other.bin", noise(1_500_000));
    (site, stream_target(&["a.txt", "s3000000.bin", "ünï-日本.txt", "other.bin", "b.txt"]))
}

/// Checks how many pieces have been asked of Axon. Its log comes a moment after its answer.
#[track_caller]
fn assert_pieces(stack: &Stack, expected: usize) {
    let pieces = || stack.daemon.log().matches("\"status\":206").count();
    wait_until(&format!("{expected} pieces in Axon's log"), || pieces() >= expected);
    assert_eq!(pieces(), expected);
}

#[test]
fn the_pieces_are_the_whole_and_each_is_asked_for_once() {
    let (site, target) = site();
    let stack = Stack::start_with(site, &[], &SLICES);
    let direct = stack.daemon.get(&target);
    let len = direct.body.len();
    assert!(len > 4 * SLICE_LEN && len < 5 * SLICE_LEN);
    let mut connection = stack.nginx.connect();
    for expected in ["MISS", "HIT"] {
        let answer = connection.get(&target);
        assert_eq!((answer.status, answer.end), (200, End::Open));
        assert_eq!(answer.header("x-cache-status"), Some(expected));
        assert_eq!(answer.header("etag"), direct.header("etag"));
        assert_eq!(answer.header("content-range"), None);
        assert!(answer.body == direct.body, "it differs");
        assert_eq!(answer.parts().len(), 5);
        assert_pieces(&stack, 5);
    }
    assert_eq!(stack.nginx.error_log(), "");
}

#[test]
fn a_range_brings_only_the_pieces_it_touches() {
    let (site, target) = site();
    let stack = Stack::start_with(site, &[], &SLICES);
    let whole = stack.daemon.get(&target);
    let len = whole.body.len();
    let etag = whole.header("etag").expect("a validator");
    let mut connection = stack.nginx.connect();
    let slice = |range: Range<usize>| &whole.body[range];
    for (fields, code, body, so_far) in [
        (&[("Range", "bytes=2000000-2000099")][..], 206, slice(2_000_000..2_000_100), 1),
        (&[("Range", "bytes=2000100-2000199")], 206, slice(2_000_100..2_000_200), 1),
        (&[("Range", "bytes=2097100-2097200")], 206, slice(2_097_100..2_097_201), 2),
        (&[("Range", "bytes=4000000-")], 206, slice(4_000_000..len), 4),
        (&[("Range", "bytes=4000000-"), ("If-Range", etag)], 206, slice(4_000_000..len), 5),
        (&[("If-None-Match", etag)], 304, &[], 5),
        (&[], 200, slice(0..len), 5),
    ] {
        let answer = connection.request("GET", &target, fields, b"");
        assert_eq!(answer.status, code, "{fields:?}");
        assert!(answer.body == body, "{fields:?}");
        assert_pieces(&stack, so_far);
    }
    let head = connection.head(&target);
    assert_eq!((head.status, head.content_length()), (200, len as u64));
    let beyond = connection.request("GET", &target, &[("Range", "bytes=9000000-")], b"");
    assert_eq!(beyond.header("content-range"), Some(format!("bytes */{len}").as_str()));
    beyond.problem(416);
}

#[test]
fn what_is_small_or_empty_or_missing_or_sent_is_answered_as_without_pieces() {
    let stack = Stack::start_with(Site::awkward(), &[], &SLICES);
    let mut connection = stack.nginx.connect();
    for names in [&["a.txt"][..], &["empty.bin"], &["a.txt", "empty.bin"], &["s1.bin"]] {
        let target = stream_target(names);
        let direct = stack.daemon.get(&target);
        for expected in ["MISS", "HIT"] {
            let answer = connection.get(&target);
            assert_eq!((answer.status, answer.header("x-cache-status")), (200, Some(expected)), "{target}");
            assert!(answer.body == direct.body, "{target}");
        }
        assert_eq!(connection.head(&target).content_length(), direct.body.len() as u64);
    }
    connection.get(&stream_target(&["a.txt", "none.txt"])).problem(404);
    let list = br#"{"files": ["s3000000.bin", "a.txt"]}"#;
    let sent = connection.request("POST", "/api/stream-files", &[("Content-Type", "application/json")], list);
    assert!(sent.parts()[0].body == stack.site.read("s3000000.bin"));
}

#[test]
fn pieces_of_two_versions_are_never_mixed() {
    let brief = NginxOptions { replaced: &[("200 206 1m;", "200 206 1s;")], ..SLICES };
    for (options, expires) in [(&SLICES, false), (&brief, true)] {
        let (site, target) = site();
        let stack = Stack::start_with(site, &[], options);
        let old = stack.daemon.get(&target);
        let first = stack.nginx.connect().request("GET", &target, &[("Range", "bytes=0-9")], b"");
        assert_eq!(first.status, 206);
        assert_pieces(&stack, 1);
        stack.site.write("other.bin", vec![b'x'; 1_500_000]);
        let new = stack.daemon.get(&target);
        assert_eq!(new.body.len(), old.body.len());
        if expires {
            // The old piece is good for a second; until then the answer is cut, after that it is whole and new.
            wait_until("the new version", || {
                let answer = stack.nginx.connect().get(&target);
                assert!(answer.body == new.body || answer.end != End::Open, "a mixture that looks whole");
                answer.body == new.body
            });
        } else {
            let answer = stack.nginx.connect().get(&target);
            assert_eq!((answer.status, answer.content_length()), (200, old.body.len() as u64));
            assert_ne!(answer.end, End::Open, "the connection is closed");
            assert!(answer.body.len() <= SLICE_LEN && old.body.starts_with(&answer.body), "a piece of the old one");
            let complaints = stack.nginx.error_log();
            assert!(complaints.contains("etag mismatch in slice response"), "{complaints}");
        }
    }
}

#[test]
fn a_piece_that_was_cut_by_the_end_of_axon_is_not_kept() {
    let (site, target) = site();
    let secret = site.beside("secret").display().to_string();
    let arguments = ["--secret-file", &secret];
    let slow =
        NginxOptions { replaced: &[("uwsgi_cache_lock on;", "uwsgi_cache_lock on; uwsgi_limit_rate 1m;")], ..SLICES };
    let mut stack = Stack::start_with(site, &arguments, &slow);
    let body = stack.site.beside("body");
    let mut client =
        curl_command().arg("--output").arg(&body).arg(stack.nginx.url(&target)).spawn().expect("curl runs");
    wait_until("the second piece arrives", || fs::metadata(&body).is_ok_and(|found| found.len() > SLICE_LEN as u64));
    stack.daemon.signal("KILL");
    stack.daemon.wait();
    assert_eq!(client.wait().expect("a child").code(), Some(18), "curl calls this a partial file");
    assert_pieces(&stack, 1);
    stack.daemon = Daemon::start(&stack.site, &arguments);
    let direct = stack.daemon.get(&target);
    let answer = stack.nginx.connect().get(&target);
    assert!(answer.body == direct.body, "it differs");
    assert_pieces(&stack, 5);
}
