//! What arrives: bytes, lengths, order of parts.

use std::{
    fs::{self, File},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    slice,
};

use percent_encoding::percent_decode_str;

use crate::harness::{Answer, BIG_LEN, Part, STREAM, Site, Stack, curl, stream_target};

/// Sizes around one call of 64 KiB, and one of many.
const SIZES: [u64; 6] = [0, 1, 65_535, 65_536, 65_537, 3_000_000];

/// All names but that of the file too large to be read into a test.
fn names(site: &Site) -> Vec<PathBuf> {
    let names: Vec<_> = site.names().into_iter().filter(|name| name != Path::new("big.bin")).collect();
    for size in SIZES {
        let has_size = |name| fs::metadata(site.path(name)).is_ok_and(|found| found.len() == size);
        assert!(names.iter().any(has_size), "a file of {size} bytes is missing");
    }
    assert!(names.len() > 30, "{names:?}");
    names
}

/// The target that asks for these files.
fn target(names: &[PathBuf]) -> String {
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_os_str().as_bytes()).collect();
    stream_target(&names)
}

/// Which file a part is, by its Content-Location.
fn location(part: &Part) -> Vec<u8> {
    percent_decode_str(part.header("content-location").expect("a location")).collect()
}

/// Which files an answer's parts are.
fn locations(answer: &Answer) -> Vec<String> {
    answer.parts().iter().map(|part| String::from_utf8(location(part)).expect("text")).collect()
}

#[test]
fn every_file_arrives_as_it_is() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    for name in names(&stack.site) {
        let answer = connection.get(&target(slice::from_ref(&name)));
        let content = stack.site.read(&name);
        assert_eq!(answer.status, 200, "{name:?}");
        assert_eq!(answer.content_length(), content.len() as u64, "{name:?}");
        assert!(answer.body == content, "{name:?} differs");
        let head = connection.head(&target(slice::from_ref(&name)));
        assert_eq!((head.status, head.content_length()), (200, content.len() as u64), "HEAD of {name:?}");
        assert_eq!(head.header("etag"), answer.header("etag"), "HEAD of {name:?}");
    }
}

#[test]
fn every_file_arrives_in_one_bundle_with_exact_lengths() {
    let stack = Stack::awkward();
    let names = names(&stack.site);
    let target = target(&names);
    let answer = curl(&[stack.nginx.url(&target)]).answer;
    let parts = answer.parts(); // checks every part's length and the whole
    assert_eq!(answer.header("axon-parts"), Some(names.len().to_string().as_str()));
    assert_eq!(parts.len(), names.len());
    for (part, name) in parts.iter().zip(&names) {
        assert_eq!(location(part), name.as_os_str().as_bytes());
        assert!(part.body == stack.site.read(name), "{name:?} differs");
    }
    // Unchanged files give the same bytes.
    assert!(stack.nginx.connect().get(&target).body == answer.body);
}

#[test]
fn a_bundle_is_mixed_and_begins_and_ends_with_its_boundary() {
    let stack = Stack::awkward();
    let answer = curl(&[stack.nginx.url(&stream_target(&["a.txt", "b.txt"]))]).answer;
    let content_type = answer.header("content-type").expect("a type");
    let boundary = content_type.strip_prefix("multipart/mixed; boundary=").expect("multipart/mixed");
    let (first, last) = (format!("--{boundary}\r\nContent-Type: "), format!("abcdef\r\n--{boundary}--\r\n"));
    assert!(answer.body.starts_with(first.as_bytes()), "{}", answer.text());
    assert!(answer.body.ends_with(last.as_bytes()), "{}", answer.text());
    assert_eq!(answer.parts().len(), 2);
}

#[test]
fn lengths_are_exact_beyond_32_bits() {
    let stack = Stack::awkward();
    let url = stack.nginx.url(&stream_target(&["big.bin"]));
    let alone = curl(&["--head", &url]);
    assert_eq!((alone.code, alone.answer.status, alone.answer.content_length()), (0, 200, BIG_LEN));

    // The same bundle with an empty file has a length that can be counted; then only the file grows, and the
    // digits of its length.
    let mut connection = stack.nginx.connect();
    let target = stream_target(&["big.bin", "a.txt", "s65537.bin"]);
    let big = File::options().write(true).open(stack.site.path("big.bin")).expect("a file");
    big.set_len(0).expect("an empty file");
    let framing = connection.get(&target);
    assert_eq!(framing.parts().len(), 3);
    big.set_len(BIG_LEN).expect("a sparse file");
    let whole = connection.head(&target);
    let more_digits = (BIG_LEN.to_string().len() - "0".len()) as u64;
    assert_eq!((whole.status, whole.content_length()), (200, framing.content_length() + BIG_LEN + more_digits));
}

#[test]
fn parts_come_in_the_order_of_the_query_and_as_often_as_asked_for() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    for (query, expected) in [
        ("file2=b.txt&file1=a.txt", vec!["b.txt", "a.txt"]),
        ("file1=a.txt&file1=b.txt", vec!["a.txt", "b.txt"]),
        ("file1=a.txt&file2=a.txt", vec!["a.txt", "a.txt"]),
        ("file10=a.txt&file9=b.txt", vec!["a.txt", "b.txt"]),
        ("file1=a.txt&&file2=b.txt&", vec!["a.txt", "b.txt"]),
    ] {
        assert_eq!(locations(&connection.get(&format!("{STREAM}?{query}"))), expected, "{query}");
    }
    for query in ["file1=a.txt&x=1", "file1=", "file1", "", "file1=a.txt&file2="] {
        connection.get(&format!("{STREAM}?{query}")).problem(400);
    }
    // Only & separates: this is one name, and no file has it.
    connection.get(&format!("{STREAM}?file1=a.txt;file2=b.txt")).problem(404);
}

#[test]
fn names_are_decoded_once_as_forms_are() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    for (name, content) in [
        ("p+q.txt", "space"),
        ("p%2Bq.txt", "plus"),
        ("p%20q.txt", "space"),
        ("100%2525.txt", "pct"),
        ("100%25.txt", "pct1"),
        ("a%2etxt", "0123456789"),
        ("sub%2Fc.txt", "insub"),
    ] {
        assert_eq!(connection.get(&format!("{STREAM}?file1={name}")).text(), content, "{name}");
    }
    connection.get(&format!("{STREAM}?file1=100%.txt")).problem(400);
    connection.get(&format!("{STREAM}?file1=..%252fetc%252fhostname")).problem(404);
}

#[test]
fn as_many_files_as_a_request_may_name() {
    let stack = Stack::awkward();
    let mut connection = stack.nginx.connect();
    let answer = connection.get(&stream_target(&["b.txt"; 1000]));
    assert_eq!(locations(&answer), vec!["b.txt"; 1000]);
    assert!(connection.get(&stream_target(&["b.txt"; 1001])).problem(400).contains("1000"));
}

#[test]
fn nothing_is_compressed_on_the_way() {
    let stack = Stack::awkward();
    stack.site.write("text.txt", "a line of text\n".repeat(70_000));
    stack.site.write("list.json", format!("[{}0]", "0,".repeat(500_000)));
    for names in [&["text.txt"][..], &["list.json"], &["a.txt", "text.txt", "list.json"]] {
        let url = stack.nginx.url(&stream_target(names));
        let plain = curl(&[&url]).answer;
        let asked = curl(&["--header", "Accept-Encoding: gzip, deflate, br", &url]).answer;
        assert_eq!(asked.header("content-encoding"), None, "{names:?}");
        assert_eq!(asked.header("transfer-encoding"), None, "{names:?}");
        assert_eq!(asked.content_length(), plain.content_length(), "{names:?}");
        assert!(asked.body == plain.body, "{names:?}");
        let etag = asked.header("etag").expect("a validator");
        assert!(etag.starts_with('"'), "a weak one: {etag}");
        assert_eq!(Some(etag), plain.header("etag"));
    }
}
