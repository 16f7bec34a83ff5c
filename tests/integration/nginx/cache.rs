//! Answers that nginx keeps: the lines of nginx.conf marked "#cache#", switched on.

use std::{
    fs::{self, File},
    process::Child,
};

use crate::harness::{
    Answer, Daemon, HttpConnection, NginxOptions, Packet, STREAM, Site, Stack, curl_command, stream_target, wait_until,
};

/// The cache as it is shipped.
const CACHE: NginxOptions<'_> = NginxOptions { blocks: &["cache"], replaced: &[] };

/// The same with answers that are good for a second: what happens after that need not be waited for long.
const BRIEF: NginxOptions<'_> = NginxOptions { blocks: &["cache"], replaced: &[("200 206 1m;", "200 206 1s;")] };

fn status(answer: &Answer) -> Option<&str> {
    answer.header("x-cache-status")
}

fn get(connection: &mut HttpConnection, target: &str, accept: &str) -> Answer {
    connection.request("GET", target, &[("Accept", accept)], b"")
}

/// Checks how many requests have reached Axon. Its log comes a moment after its answer.
#[track_caller]
fn assert_reached(stack: &Stack, expected: usize) {
    let reached = || stack.daemon.log().matches("\"message\":\"request\"").count();
    wait_until(&format!("{expected} requests in Axon's log"), || reached() >= expected);
    assert_eq!(reached(), expected);
}

/// Asks again and again until nginx says this of the cache, and gives that answer.
#[track_caller]
fn ask_until(stack: &Stack, target: &str, expected: &str) -> Answer {
    let mut connection = stack.nginx.connect();
    let mut found = None;
    wait_until(&format!("an answer that is {expected}"), || {
        let answer = connection.get(target);
        found = (status(&answer) == Some(expected)).then_some(answer);
        found.is_some()
    });
    found.expect("it was found")
}

#[test]
fn an_answer_is_kept_with_its_head_and_axon_is_not_asked_again() {
    let stack = Stack::start_with(Site::awkward(), &[], &CACHE);
    let mut connection = stack.nginx.connect();
    for names in [&["a.txt"][..], &["a.txt", "s3000000.bin", "b.txt"], &["empty.bin"]] {
        let target = stream_target(names);
        let direct = stack.daemon.get(&target);
        let first = connection.get(&target);
        assert_eq!((first.status, status(&first)), (200, Some("MISS")), "{target}");
        let mut second = connection.get(&target);
        assert_eq!((second.status, status(&second)), (200, Some("HIT")), "{target}");
        assert!(first.body == direct.body && second.body == direct.body, "{target}");
        second
            .headers
            .retain(|(name, _)| !matches!(name.as_str(), "server" | "date" | "connection" | "x-cache-status"));
        let mut expected = direct.headers.clone();
        expected.sort();
        second.headers.sort();
        assert_eq!(second.headers, expected, "nothing is lost, nothing is added");
        stack.nginx.logged("the answer that was kept", |record| record["uri"] == target && record["cache"] == "HIT");
    }
    assert_reached(&stack, 6);
    assert_eq!(stack.nginx.error_log(), "");
}

#[test]
fn what_has_expired_is_asked_for_again_and_sent_again_only_if_it_has_changed() {
    let stack = Stack::start_with(Site::awkward(), &[], &BRIEF);
    let target = stream_target(&["a.txt", "b.txt"]);
    let first = stack.nginx.connect().get(&target);
    assert_eq!(status(&first), Some("MISS"));
    let again = ask_until(&stack, &target, "REVALIDATED");
    assert!(again.body == first.body);
    stack.daemon.logged(&["\"request\"", "\"status\":304", "\"bytes\":0"]);

    stack.site.write("b.txt", "changed");
    let changed = ask_until(&stack, &target, "EXPIRED");
    assert_eq!(changed.parts()[1].body, b"changed");
    assert!(changed.body == stack.daemon.get(&target).body);
    // And that is kept, in the place of the old one.
    assert!(ask_until(&stack, &target, "REVALIDATED").body == changed.body);
}

#[test]
fn a_file_that_was_removed_is_gone_once_its_answer_has_expired() {
    let stack = Stack::start_with(Site::awkward(), &[], &BRIEF);
    for target in [stream_target(&["a.txt", "b.txt"]), format!("{}&missing=part", stream_target(&["a.txt", "b.txt"]))] {
        let content = stack.site.read("b.txt");
        assert_eq!(stack.nginx.connect().get(&target).status, 200);
        fs::remove_file(stack.site.path("b.txt")).expect("a file");
        // Told as 404 or as a part, and from then on every time: the old answer is not sent again to whoever asks when
        // nobody else does ("updating"). One connection, since nginx takes a request to be over a moment after its
        // last byte: on another one, served by another process of nginx, the next can come before that.
        let mut connection = stack.nginx.connect();
        let mut gives_old = || {
            let answer = connection.get(&target);
            answer.status == 200 && answer.header("axon-failed") != Some("1")
        };
        wait_until("it is gone", || !gives_old());
        for _ in 0..5 {
            assert!(!gives_old(), "{target}");
        }
        stack.site.write("b.txt", content);
    }
}

#[test]
fn nginx_answers_head_ranges_and_conditions_from_what_it_keeps() {
    let stack = Stack::start_with(Site::awkward(), &[], &CACHE);
    let mut connection = stack.nginx.connect();
    let target = stream_target(&["a.txt", "s65537.bin", "b.txt"]);
    // HEAD alone brings no content that could be kept.
    for _ in 0..2 {
        let head = connection.head(&target);
        assert_eq!((head.status, status(&head)), (200, Some("MISS")));
    }
    // A first request for a range makes nginx ask for all of it.
    let range = connection.request("GET", &target, &[("Range", "bytes=60000-60099")], b"");
    assert_eq!((range.status, status(&range)), (206, Some("MISS")));
    let whole = connection.get(&target);
    assert_eq!((whole.status, status(&whole)), (200, Some("HIT")));
    assert!(whole.body == stack.daemon.get(&target).body);

    let len = whole.body.len();
    let etag = whole.header("etag").expect("a validator");
    let modified = whole.header("last-modified").expect("a date");
    let of_len = |range: &str| Some(format!("bytes {range}/{len}"));
    let head = connection.head(&target);
    assert_eq!((head.status, status(&head), head.content_length()), (200, Some("HIT"), len as u64));
    for (fields, code, content_range, body) in [
        (&[("Range", "bytes=60000-60099")][..], 206, of_len("60000-60099"), &whole.body[60_000..60_100]),
        (&[("Range", "bytes=-7")], 206, of_len(&format!("{}-{}", len - 7, len - 1)), &whole.body[len - 7..]),
        (&[("Range", "bytes=0-1"), ("If-Range", etag)], 206, of_len("0-1"), &whole.body[..2]),
        (&[("Range", "bytes=0-1"), ("If-Range", "\"other\"")], 200, None, &whole.body),
        // nginx separates several ranges by a counter, which a file could contain: then rather the whole.
        (&[("Range", "bytes=0-1,9-9")], 200, None, &whole.body),
        (&[("If-None-Match", etag)], 304, None, b""),
        (&[("If-None-Match", "\"other\"")], 200, None, &whole.body),
        (&[("If-Modified-Since", modified)], 304, None, b""),
    ] {
        let answer = connection.request("GET", &target, fields, b"");
        assert_eq!(answer.status, code, "{fields:?}");
        assert_eq!(status(&answer), Some("HIT"), "{fields:?}");
        assert_eq!(answer.header("content-range"), content_range.as_deref(), "{fields:?}");
        assert!(answer.body == body, "{fields:?}");
    }
    for (fields, code) in [(("Range", format!("bytes={len}-")), 416), (("If-Match", "\"other\"".to_owned()), 412)] {
        let answer = connection.request("GET", &target, &[(fields.0, &fields.1)], b"");
        assert_eq!(answer.status, code, "{fields:?}");
    }
    assert_reached(&stack, 4); // two for HEAD, one for all of it, one from the test itself
    assert_eq!(stack.nginx.error_log(), "");
}

#[test]
fn each_accept_gets_the_shape_axon_would_have_chosen() {
    let stack = Stack::start_with(Site::awkward(), &[], &CACHE);
    let mut connection = stack.nginx.connect();
    let ranges = [
        "*/*",
        "text/plain",
        "text/*",
        "image/png;v=b3",
        "multipart/*",
        "Multipart/Form-Data",
        "multipart/related",
        "multipart/mixed",
    ];
    let weights = ["", ";q=0.5", "; q=0", ";Q=1.0", ";q=2"];
    let elements: Vec<String> =
        ranges.iter().flat_map(|range| weights.map(|weight| format!("{range}{weight}"))).collect();
    let pairs = elements.iter().flat_map(|first| elements.iter().map(move |second| format!("{first}, {second}")));
    let browsers = [
        "",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,\
         application/signed-exchange;v=b3;q=0.7",
        "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5",
        "application/json, text/plain, */*",
        "multipart/form-data,*/*;q=0.1",
        "multipart/form-data , */* ; q=0.1 ",
        "multipart/form-data;boundary=x",
        "multipart/form-data, multipart/related, */*",
        "text/multipart, */*;q=0.1",
    ];
    let accepts: Vec<String> = browsers.map(str::to_owned).into_iter().chain(elements.clone()).chain(pairs).collect();
    for target in [stream_target(&["a.txt"]), stream_target(&["a.txt", "b.txt"])] {
        for accept in &accepts {
            let direct = stack.daemon.send(&Packet::get(&target).header("Accept", accept));
            let kept = get(&mut connection, &target, accept);
            assert_eq!(kept.header("content-type"), direct.header("content-type"), "{accept}");
            assert_eq!(kept.header("vary"), Some("Accept"), "{accept}");
            assert!(kept.body == direct.body, "{accept}");
        }
        // What most clients send shares an answer, and so do the ways to ask for a form.
        for (same, fields) in [
            ("nothing", &["*/*", "text/plain, */*", "text/html, image/*,*/*;q=0.8", "*/* ; q=0.5"][..]),
            ("form-data", &["multipart/form-data", "MULTIPART/form-data, */*", "multipart/form-data, */*;q=0.3"]),
        ] {
            for accept in fields {
                assert_eq!(status(&get(&mut connection, &target, accept)), Some("HIT"), "{same}: {accept}");
            }
        }
    }
}

#[test]
fn a_second_accept_field_cannot_put_another_shape_into_the_cache() {
    let stack = Stack::start_with(Site::awkward(), &[], &CACHE);
    let mut connection = stack.nginx.connect();
    let target = stream_target(&["a.txt", "b.txt"]);
    let two = [("Accept", "*/*"), ("Accept", "multipart/form-data")];
    let poisoned = connection.request("GET", &target, &two, b"");
    assert_eq!((poisoned.status, status(&poisoned)), (200, Some("MISS")));
    for (accept, shape) in [("*/*", "multipart/mixed;"), ("multipart/form-data", "multipart/form-data;")] {
        let answer = get(&mut connection, &target, accept);
        let content_type = answer.header("content-type").expect("a type");
        assert!(content_type.starts_with(shape), "{accept}: {content_type}");
    }
}

#[test]
fn a_format_in_the_query_has_an_answer_of_its_own() {
    let stack = Stack::start_with(Site::awkward(), &[], &CACHE);
    let mut connection = stack.nginx.connect();
    for _ in 0..2 {
        for format in ["mixed", "form-data", "related"] {
            let answer = connection.get(&format!("{}&format={format}", stream_target(&["a.txt", "b.txt"])));
            assert!(answer.header("content-type").expect("a type").starts_with(&format!("multipart/{format};")));
        }
    }
    assert_reached(&stack, 3);
}

#[test]
fn a_list_that_is_sent_and_what_failed_are_not_kept() {
    let stack = Stack::start_with(Site::awkward(), &[], &CACHE);
    let mut connection = stack.nginx.connect();
    let list = br#"{"files": ["a.txt", "b.txt"]}"#;
    for _ in 0..2 {
        let answer = connection.request("POST", STREAM, &[("Content-Type", "application/json")], list);
        assert_eq!((answer.parts().len(), status(&answer)), (2, None));
    }
    let missing = stream_target(&["a.txt", "none.txt"]);
    let tolerant = format!("{missing}&missing=part");
    for _ in 0..2 {
        for (target, code, failed) in [(&missing, 404, None), (&tolerant, 200, Some("1"))] {
            let answer = connection.get(target);
            assert_eq!(answer.status, code, "{target}");
            assert_ne!(status(&answer), Some("HIT"), "{target}");
            assert_eq!(answer.header("axon-failed"), failed);
        }
    }
    assert_reached(&stack, 6);
    // As soon as the file is there it is served, and kept.
    stack.site.write("none.txt", "now");
    for expected in ["MISS", "HIT"] {
        for target in [&missing, &tolerant] {
            let answer = connection.get(target);
            assert_eq!((answer.status, status(&answer)), (200, Some(expected)), "{target}");
            assert_eq!(answer.parts()[1].body, b"now");
        }
    }
}

/// Slowly enough that what is done to a transfer of 3 MB is done in its middle.
const SLOW: NginxOptions<'_> = NginxOptions {
    blocks: &["cache"],
    replaced: &[("uwsgi_cache_lock on;", "uwsgi_cache_lock on; uwsgi_limit_rate 1m;")],
};

/// Starts curl and waits until the first of the content has come.
fn begin(stack: &Stack, target: &str) -> Child {
    let body = stack.site.beside("body");
    let _ = fs::remove_file(&body);
    let child = curl_command().arg("--output").arg(&body).arg(stack.nginx.url(target)).spawn().expect("curl runs");
    wait_until("the content arrives", || fs::metadata(&body).is_ok_and(|found| found.len() > 0));
    child
}

/// The next request is a first one, with everything; the one after it comes out of the cache.
fn assert_nothing_was_kept(stack: &Stack, target: &str) {
    let direct = stack.daemon.get(target);
    for expected in ["MISS", "HIT"] {
        let answer = stack.nginx.connect().get(target);
        assert_eq!((answer.status, status(&answer)), (200, Some(expected)));
        assert!(answer.body == direct.body, "it differs");
    }
}

#[test]
fn of_many_who_want_the_same_for_the_first_time_one_reaches_axon() {
    let stack = Stack::start_with(Site::awkward(), &[], &SLOW);
    let target = stream_target(&["a.txt", "s3000000.bin", "b.txt"]);
    // The first one's answer takes two seconds or so; the others come meanwhile.
    let mut first = begin(&stack, &target);
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..6).map(|_| scope.spawn(|| stack.nginx.connect().get(&target))).collect();
        for other in others {
            let answer = other.join().expect("no panic");
            assert_eq!((answer.status, status(&answer)), (200, Some("HIT")));
            assert_eq!(answer.parts().len(), 3);
        }
    });
    assert!(first.wait().expect("a child").success());
    assert_reached(&stack, 1);
}

#[test]
fn an_answer_that_was_cut_by_the_end_of_axon_is_not_kept() {
    let site = Site::awkward();
    let secret = site.beside("secret").display().to_string();
    let mut stack = Stack::start_with(site, &["--secret-file", &secret], &SLOW);
    let target = stream_target(&["a.txt", "s3000000.bin", "b.txt"]);
    let mut client = begin(&stack, &target);
    stack.daemon.signal("KILL");
    stack.daemon.wait();
    assert_eq!(client.wait().expect("a child").code(), Some(18), "curl calls this a partial file");
    stack.daemon = Daemon::start(&stack.site, &["--secret-file", &secret]);
    assert_nothing_was_kept(&stack, &target);
}

#[test]
fn an_answer_that_was_cut_because_a_file_shrank_is_not_kept() {
    let stack = Stack::start_with(Site::awkward(), &[], &SLOW);
    let target = stream_target(&["a.txt", "s3000000.bin", "b.txt"]);
    let mut client = begin(&stack, &target);
    let file = File::options().write(true).open(stack.site.path("s3000000.bin")).expect("a file");
    file.set_len(2_500_000).expect("a shorter file");
    assert_eq!(client.wait().expect("a child").code(), Some(18), "curl calls this a partial file");
    stack.daemon.logged(&["\"cut\":\"file\""]);
    assert_nothing_was_kept(&stack, &target);
}
