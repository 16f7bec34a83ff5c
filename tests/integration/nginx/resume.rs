//! Downloads that were cut and go on, conditions, HEAD, several ranges: curl and what it makes of the answers.

use std::{fs, path::Path, process::Command};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::harness::{
    Answer, End, NginxOptions, STREAM, Site, Stack, curl, curl_command, noise, stream_target, wait_until,
};

/// nginx.conf as it is, with the cache, and with the cache in pieces: a client sees no difference.
const CONFIGURATIONS: [&[&str]; 3] = [&[], &["cache"], &["cache", "slice"]];

/// Numbers without a pattern, the same every time, below `bound`.
fn numbers(count: usize, bound: usize) -> impl Iterator<Item = usize> {
    let bytes = noise(8 * count);
    (0..count).map(move |at| {
        let number: [u8; 8] = bytes[8 * at..8 * at + 8].try_into().expect("eight bytes");
        usize::try_from(u64::from_le_bytes(number) % bound as u64).expect("it is below the bound")
    })
}

fn bundle() -> String {
    stream_target(&["a.txt", "s131073.bin", "empty.bin", "ünï-日本.txt", "s3000000.bin", "b.txt", "s65536.bin"])
}

fn sha256(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().expect("sha256sum runs");
    String::from_utf8(output.stdout).expect("text").split(' ').next().expect("a hash").to_owned()
}

/// What a whole download gives.
fn whole(stack: &Stack, target: &str) -> (Vec<u8>, String) {
    let file = stack.site.beside("whole");
    let done = curl_command().arg("--output").arg(&file).arg(stack.nginx.url(target)).status();
    assert!(done.is_ok_and(|status| status.success()));
    (fs::read(&file).expect("a file"), sha256(&file))
}

/// Lets `curl -C -` finish what lies in a file.
fn finish(stack: &Stack, target: &str, file: &Path) {
    let mut command = curl_command();
    command.args(["--continue-at", "-", "--output"]).arg(file).arg(stack.nginx.url(target));
    assert_eq!(command.status().expect("curl runs").code(), Some(0));
}

#[test]
fn curl_finishes_a_bundle_from_any_offset() {
    let target = bundle();
    for blocks in CONFIGURATIONS {
        let stack = Stack::start_with(Site::awkward(), &[], &NginxOptions { blocks, replaced: &[] });
        let (content, hash) = whole(&stack, &target);
        let edges = [1, 1024 * 1024, content.len() - 1];
        for offset in edges.into_iter().chain(numbers(20, content.len())) {
            let part = stack.site.beside("part");
            fs::write(&part, &content[..offset]).expect("a file");
            finish(&stack, &target, &part);
            assert_eq!(sha256(&part), hash, "{blocks:?}: cut at {offset}");
        }
    }
}

#[test]
fn curl_finishes_a_bundle_after_it_was_killed() {
    // More than what may be on its way when curl is killed.
    let target = stream_target(&["s3000000.bin"; 10]);
    for blocks in CONFIGURATIONS {
        let stack = Stack::start_with(Site::awkward(), &[], &NginxOptions { blocks, replaced: &[] });
        let (content, hash) = whole(&stack, &target);
        let part = stack.site.beside("part");
        let len = || fs::metadata(&part).map_or(0, |found| found.len());
        for _ in 0..3 {
            let before = len();
            let mut command = curl_command();
            command.args(["--limit-rate", "4m", "--continue-at", "-", "--output"]).arg(&part);
            let mut child = command.arg(stack.nginx.url(&target)).spawn().expect("curl runs");
            wait_until("more has come", || len() > before);
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
        assert!(len() < content.len() as u64, "it was cut");
        finish(&stack, &target, &part);
        assert_eq!(sha256(&part), hash, "{blocks:?}");
    }
}

#[test]
fn curl_need_not_load_a_bundle_again_that_it_has() {
    let stack = Stack::awkward();
    let url = stack.nginx.url(&bundle());
    let tag = stack.site.beside("tag").display().to_string();
    let out = stack.site.beside("out");
    let ask = || {
        let mut command = curl_command();
        command.args(["--write-out", "%{http_code}", "--etag-save", &tag, "--etag-compare", &tag, "--output"]);
        let output = command.arg(&out).arg(&url).output().expect("curl runs");
        String::from_utf8(output.stdout).expect("text")
    };
    fs::write(&tag, "").expect("a file");
    assert_eq!(ask(), "200");
    let content = fs::read(&out).expect("a file");
    assert_eq!(ask(), "304");
    // curl 7.88 leaves the file of the answer that has no content as it was, or empties it.
    assert!([content.len(), 0].contains(&fs::read(&out).expect("a file").len()));
    stack.site.write("b.txt", "changed");
    assert_eq!(ask(), "200");
    assert_ne!(fs::read(&out).expect("a file"), content);

    let etag = curl(&["--head", &url]).answer.header("etag").expect("a validator").to_owned();
    for list in [etag.clone(), format!("\"other\", W/{etag}"), "*".to_owned()] {
        let answer = curl(&["--header", &format!("If-None-Match: {list}"), &url]).answer;
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{list}");
        assert_eq!((answer.header("etag"), answer.header("vary")), (Some(etag.as_str()), Some("Accept")));
    }
}

#[test]
fn a_bundle_that_has_changed_is_begun_again() {
    let target = bundle();
    for blocks in CONFIGURATIONS {
        let brief: &[(&str, &str)] = if blocks.is_empty() { &[] } else { &[("200 206 1m;", "200 206 1s;")] };
        let stack = Stack::start_with(Site::awkward(), &[], &NginxOptions { blocks, replaced: brief });
        let old = stack.nginx.connect().get(&target);
        let etag = old.header("etag").expect("a validator").to_owned();
        let resume = || {
            let range = format!("bytes={}-", old.body.len() / 2);
            stack.nginx.connect().request("GET", &target, &[("Range", &range), ("If-Range", &etag)], b"")
        };
        let rest = resume();
        assert_eq!(rest.status, 206, "{blocks:?}");
        assert!(rest.body == old.body[old.body.len() / 2..]);
        // Neither its name nor its size nor its content: the time alone.
        let content = stack.site.read("s131073.bin");
        stack.site.write("s131073.bin", content);
        wait_until("the new version", || {
            let answer = resume();
            // Pieces of two versions, for as long as an old one is good: cut, see `slices`.
            if blocks.contains(&"slice") && answer.end != End::Open {
                return false;
            }
            assert!(answer.status == 206 || answer.body.len() == old.body.len(), "{blocks:?}");
            assert!(answer.status == 200 || answer.body == old.body[old.body.len() / 2..], "{blocks:?}");
            answer.status == 200 && answer.header("etag") != Some(&etag) && answer.parts().len() == 7
        });
    }
}

#[test]
fn head_tells_the_length_that_get_has() {
    let site = Site::empty();
    let names: Vec<String> = (0..1000).map(|number| format!("{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        site.write(name, noise(number * 7 % 300));
    }
    let stack = Stack::start(site, &[]);
    for count in [1, 2, 10, 1000] {
        let pairs: Vec<String> =
            names[..count].iter().map(|name| format!("file={}", utf8_percent_encode(name, NON_ALPHANUMERIC))).collect();
        let url = stack.nginx.url(&format!("{STREAM}?{}", pairs.join("&")));
        let head = curl(&["--head", &url]);
        let mut child = curl_command();
        let counted = child.args(["--output", "/dev/null", "--write-out", "%{size_download}", &url]).output();
        let counted = String::from_utf8(counted.expect("curl runs").stdout).expect("text");
        assert_eq!((head.code, head.answer.status), (0, 200));
        assert_eq!(head.answer.content_length().to_string(), counted, "{count} files");
        let parts = (count > 1).then(|| count.to_string());
        assert_eq!(head.answer.header("axon-parts"), parts.as_deref());
        assert_eq!(head.answer.header("accept-ranges"), Some("bytes"));
    }
}

/// The parts of multipart/byteranges: where each begins, how many there are in all, the content.
fn byteranges(answer: &Answer) -> Vec<(usize, usize, &[u8])> {
    let content_type = answer.header("content-type").expect("a type");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("byteranges");
    let mut left = answer.body.strip_prefix(format!("--{boundary}\r\n").as_bytes()).expect("it begins");
    let mut parts = Vec::new();
    loop {
        let head_len = left.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&left[..head_len]).expect("text");
        let range = head.lines().find_map(|line| line.strip_prefix("Content-Range: bytes ")).expect("a range");
        let numbers: Vec<usize> = range.split(['-', '/']).map(|number| number.parse().expect("a number")).collect();
        let (content, after) = left[head_len + 4..].split_at(numbers[1] - numbers[0] + 1);
        parts.push((numbers[0], numbers[2], content));
        let after = after.strip_prefix(format!("\r\n--{boundary}").as_bytes()).expect("a delimiter");
        if after == b"--\r\n" {
            return parts;
        }
        left = after.strip_prefix(b"\r\n").expect("the next part");
    }
}

#[test]
fn several_ranges_come_as_axon_sends_them() {
    let stack = Stack::awkward();
    let target = bundle();
    let content = stack.nginx.connect().get(&target).body;
    let mut connection = stack.nginx.connect();
    let range = format!("bytes=3000000-3000009,0-99,50-149,-5,{}-", content.len() + 5);
    let answer = connection.request("GET", &target, &[("Range", &range)], b"");
    assert_eq!((answer.status, answer.content_length()), (206, answer.body.len() as u64));
    let len = content.len();
    assert_eq!(
        byteranges(&answer),
        [
            (3_000_000, len, &content[3_000_000..3_000_010]),
            (0, len, &content[..150]),
            (len - 5, len, &content[len - 5..])
        ]
    );
    let beyond = connection.request("GET", &target, &[("Range", &format!("bytes={len}-"))], b"");
    assert_eq!(beyond.header("content-range"), Some(format!("bytes */{len}").as_str()));
    beyond.problem(416);

    // Put together from as many pieces as one request may ask for.
    let mut cuts: Vec<usize> = numbers(60, len).chain([0, len]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut joined = Vec::new();
    for half in 0..2 {
        // Every second one, since neighbours would become one.
        let ranges: Vec<String> =
            cuts.windows(2).skip(half).step_by(2).map(|cut| format!("{}-{}", cut[0], cut[1] - 1)).collect();
        let answer = connection.request("GET", &target, &[("Range", &format!("bytes={}", ranges.join(",")))], b"");
        assert_eq!(answer.status, 206);
        joined.extend(byteranges(&answer).into_iter().map(|(start, _, content)| (start, content.to_vec())));
    }
    joined.sort_unstable();
    let file: Vec<u8> = joined.into_iter().flat_map(|(_, content)| content).collect();
    assert!(file == content, "it differs");
}
