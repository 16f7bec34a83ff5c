//! Answers that are not the whole: ranges, conditions, and a download that is taken up again.

use std::fs;

use crate::harness::{BIG_LEN, Stack, curl_command, stream_target};

#[test]
fn a_download_is_taken_up_where_it_was_cut() {
    let stack = Stack::awkward();
    for names in [&["s131073.bin"][..], &["a.txt", "s65537.bin", "empty.bin", "s131072.bin"]] {
        let url = stack.nginx.url(&stream_target(names));
        let whole = stack.nginx.connect().get(&stream_target(names));
        assert_eq!(whole.header("accept-ranges"), Some("bytes"));
        let len = whole.body.len();
        for cut in [1, 40, 300, 65_536, 70_000, len - 2, len - 1] {
            let file = stack.site.beside("download");
            fs::write(&file, &whole.body[..cut]).expect("a file");
            let mut command = curl_command();
            command.args(["--fail", "--continue-at", "-", "--output"]).arg(&file).arg(&url);
            let status = command.status().expect("curl runs");
            assert!(status.success(), "{names:?} cut at {cut}: {status}");
            assert!(fs::read(&file).expect("a file") == whole.body, "{names:?} cut at {cut}");
        }
    }
}

#[test]
fn a_download_begins_anew_when_a_file_has_changed() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    let target = stream_target(&["a.txt", "s65537.bin"]);
    let old = connection.get(&target).header("etag").expect("a validator").to_owned();
    let fields = [("Range", "bytes=100-"), ("If-Range", &old[..])];
    assert_eq!(connection.request("GET", &target, &fields, b"").status, 206);
    stack.site.write("a.txt", "9876543210");
    let anew = connection.request("GET", &target, &fields, b"");
    assert_eq!(anew.status, 200);
    assert_eq!(anew.parts()[0].body, b"9876543210");
    assert_ne!(anew.header("etag"), Some(&old[..]));
}

#[test]
fn a_validator_comes_through_nginx_and_back() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    for names in [&["a.txt"][..], &["s131073.bin"], &["a.txt", "s131073.bin"]] {
        let target = stream_target(names);
        let gzip = ("Accept-Encoding", "gzip");
        let etag = connection.request("GET", &target, &[gzip], b"").header("etag").expect("a validator").to_owned();
        let same = connection.request("GET", &target, &[gzip, ("If-None-Match", &etag)], b"");
        assert_eq!((same.status, same.header("etag"), &same.body[..]), (304, Some(&etag[..]), &b""[..]), "{names:?}");
        let part = connection.request("GET", &target, &[gzip, ("If-Range", &etag), ("Range", "bytes=0-1")], b"");
        assert_eq!((part.status, part.content_length()), (206, 2), "{names:?}");
        let head = connection.request("HEAD", &target, &[("Range", "bytes=0-1")], b"");
        assert!(head.status == 200 && head.content_length() > 2, "HEAD has no ranges: {names:?}");
    }
}

#[test]
fn ranges_beyond_32_bits() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    let target = stream_target(&["big.bin"]);
    for (range, first, content) in [
        ("bytes=4294967290-4294967299", 4_294_967_290, &b"MARK\0\0\0\0\0\0"[..]),
        ("bytes=4294967291-4294967293", 4_294_967_291, b"ARK"),
        ("bytes=-4", BIG_LEN - 4, b"TAIL"),
    ] {
        let answer = connection.request("GET", &target, &[("Range", range)], b"");
        assert_eq!((answer.status, &answer.body[..]), (206, content), "{range}");
        let last = first + content.len() as u64 - 1;
        assert_eq!(answer.header("content-range"), Some(&format!("bytes {first}-{last}/{BIG_LEN}")[..]), "{range}");
    }
}
