//! Conditional requests against a small model of RFC 9110 §13.2.2, written independently of the code.

use proptest::prelude::*;

use super::*;

/// A condition as the model sees it: what it names compared with what there is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Tags {
    Absent,
    Any,
    Same,
    SameButWeak,
    Other,
    OtherAndSame,
    Broken,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Date {
    Absent,
    Earlier,
    Same,
    Later,
    Broken,
}

fn tags() -> impl Strategy<Value = Tags> {
    prop_oneof![
        3 => Just(Tags::Absent),
        1 => Just(Tags::Any),
        1 => Just(Tags::Same),
        1 => Just(Tags::SameButWeak),
        1 => Just(Tags::Other),
        1 => Just(Tags::OtherAndSame),
        1 => Just(Tags::Broken),
    ]
}

fn date() -> impl Strategy<Value = Date> {
    prop_oneof![
        3 => Just(Date::Absent),
        1 => Just(Date::Earlier),
        1 => Just(Date::Same),
        1 => Just(Date::Later),
        1 => Just(Date::Broken),
    ]
}

fn tags_text(tags: Tags, etag: &str) -> Option<String> {
    Some(match tags {
        Tags::Absent => return None,
        Tags::Any => "*".into(),
        Tags::Same => etag.into(),
        Tags::SameButWeak => format!("W/{etag}"),
        Tags::Other => "\"q\"".into(),
        Tags::OtherAndSame => format!("\"q\", W/\"r\",{etag}"),
        Tags::Broken => etag.trim_matches('"').into(),
    })
}

fn date_text(date: Date, last_modified: &str) -> Option<String> {
    let time = httpdate::parse_http_date(last_modified).expect("a date");
    let hour = std::time::Duration::from_secs(3600);
    Some(match date {
        Date::Absent => return None,
        Date::Earlier => httpdate::fmt_http_date(time - hour),
        Date::Same => last_modified.into(),
        Date::Later => httpdate::fmt_http_date(time + hour),
        Date::Broken => "yesterday".into(),
    })
}

/// What the standard says, in its own order.
fn model(head: bool, if_match: Tags, unmodified: Date, none_match: Tags, modified: Date, range: bool) -> u16 {
    // Step 1, strong comparison; step 2 where there is no If-Match.
    let failed = match if_match {
        Tags::Absent => unmodified == Date::Earlier,
        Tags::Any | Tags::Same | Tags::OtherAndSame => false,
        Tags::SameButWeak | Tags::Other | Tags::Broken => true,
    };
    if failed {
        return 412;
    }
    // Step 3, weak comparison; step 4 where there is no If-None-Match.
    let unchanged = match none_match {
        Tags::Absent => matches!(modified, Date::Same | Date::Later),
        Tags::Any | Tags::Same | Tags::SameButWeak | Tags::OtherAndSame => true,
        Tags::Other | Tags::Broken => false,
    };
    if unchanged {
        return 304;
    }
    if range && !head { 206 } else { 200 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_combination_is_answered_as_the_standard_says(
        bundle in any::<bool>(), head in any::<bool>(), range in any::<bool>(),
        if_match in tags(), none_match in tags(), unmodified in date(), modified in date(),
    ) {
        let query = if bundle { "file1=f3&file2=f4" } else { "file1=f3" };
        let whole = get(query, &[]);
        let (etag, last_modified) = (field(&whole, "etag"), field(&whole, "last-modified"));
        let texts = [
            ("if-match", tags_text(if_match, etag)),
            ("if-none-match", tags_text(none_match, etag)),
            ("if-unmodified-since", date_text(unmodified, last_modified)),
            ("if-modified-since", date_text(modified, last_modified)),
            ("range", range.then(|| "bytes=1-3".to_owned())),
        ];
        let fields: Vec<_> = texts.iter().filter_map(|(name, text)| Some((*name, text.as_deref()?))).collect();
        let method = if head { Method::HEAD } else { Method::GET };
        let answer = call(handler(), request(method, query, &fields));
        // The date of a bundle does not tell its versions apart, so for it there are no conditions on dates.
        let (unmodified, modified) = if bundle { (Date::Absent, Date::Absent) } else { (unmodified, modified) };
        let expected = model(head, if_match, unmodified, none_match, modified, range);
        prop_assert_eq!(answer.status.as_u16(), expected, "{:?}", fields);
        match expected {
            304 => {
                prop_assert_eq!(answer.body.len(), 0);
                prop_assert_eq!(answer.content_length, None);
                prop_assert_eq!(field(&answer, "etag"), etag);
                prop_assert_eq!(field(&answer, "vary"), "Accept");
                prop_assert_eq!(answer.headers.len(), 2);
            }
            206 => prop_assert!(bytes(&answer.body)[..] == bytes(&whole.body)[1..4]),
            200 => prop_assert_eq!(answer.content_length, whole.content_length),
            _ => prop_assert_eq!(field(&answer, "content-type"), "application/problem+json"),
        }
    }
}

#[test]
fn times_that_http_cannot_say_are_left_out_everywhere() {
    let site = Site::awkward();
    let store = Store::open(&site.root()).expect("a root");
    let handler = Handler::new(store, FingerprintKey::new([3; 32]), HandlerOptions::default());
    let get = |query: &str, fields: &[(&str, &str)]| call(&handler, request(Method::GET, query, fields));
    for (file, dated) in [("old.txt", false), ("zero.txt", true), ("fut.txt", false), ("frac.txt", true)] {
        let answer = get(&format!("file1={file}"), &[]);
        assert_eq!(!field(&answer, "last-modified").is_empty(), dated, "{file}");
        assert!(!field(&answer, "etag").is_empty());
        // Without a date there is nothing that a date could be compared with.
        let later = [("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT")];
        assert_eq!(get(&format!("file1={file}"), &later).status.as_u16(), if dated { 304 } else { 200 }, "{file}");
        let earlier = [("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT")];
        let expected = if file == "frac.txt" { 412 } else { 200 };
        assert_eq!(get(&format!("file1={file}"), &earlier).status.as_u16(), expected, "{file}");
    }
    assert_eq!(field(&get("file1=frac.txt", &[]), "last-modified"), "Tue, 02 Jan 2024 03:04:05 GMT");
    assert_eq!(field(&get("file1=zero.txt", &[]), "last-modified"), "Thu, 01 Jan 1970 00:00:00 GMT");
    // The newest part speaks for the bundle, also when it has nothing to say.
    assert_eq!(field(&get("file1=old.txt&file2=frac.txt", &[]), "last-modified"), "Tue, 02 Jan 2024 03:04:05 GMT");
    assert_eq!(field(&get("file1=fut.txt&file2=frac.txt", &[]), "last-modified"), "");
}

#[test]
fn a_changed_file_is_another_bundle() {
    let site = Site::awkward();
    let store = Store::open(&site.root()).expect("a root");
    let handler = Handler::new(store, FingerprintKey::new([3; 32]), HandlerOptions::default());
    let query = "file1=a.txt&file2=b.txt";
    let before = call(&handler, request(Method::GET, query, &[]));
    let fields = [("range", "bytes=5-"), ("if-range", field(&before, "etag"))];
    assert_eq!(call(&handler, request(Method::GET, query, &fields)).status.as_u16(), 206);
    // The same length and content: only the times tell.
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    std::fs::File::open(site.path("b.txt")).and_then(|file| file.set_modified(time)).expect("a time");
    let after = call(&handler, request(Method::GET, query, &fields));
    assert_eq!(after.status.as_u16(), 200);
    assert_ne!(field(&after, "etag"), field(&before, "etag"));
    let fields = [("if-none-match", field(&before, "etag"))];
    assert_eq!(call(&handler, request(Method::GET, query, &fields)).status.as_u16(), 200);
}

#[test]
fn a_part_that_is_not_the_newest_is_replaced_and_noticed() {
    let site = Site::awkward();
    let store = Store::open(&site.root()).expect("a root");
    let handler = Handler::new(store, FingerprintKey::new([3; 32]), HandlerOptions::default());
    let date = |name: &str, age: u64| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        std::fs::File::open(site.path(name)).and_then(|file| file.set_modified(time)).expect("a time");
    };
    date("a.txt", 100);
    date("b.txt", 5000);
    let before = call(&handler, request(Method::GET, "file1=a.txt&file2=b.txt", &[]));
    site.write("b.txt", "ABCDEF");
    date("b.txt", 4000);
    let since = [("if-modified-since", field(&before, "last-modified"))];
    let after = call(&handler, request(Method::GET, "file1=a.txt&file2=b.txt", &since));
    assert_eq!(field(&before, "last-modified"), field(&after, "last-modified"));
    assert_eq!(after.status.as_u16(), 200);
}

#[test]
fn a_file_rewritten_within_its_second_is_not_resumed_by_its_date() {
    let site = Site::awkward();
    let store = Store::open(&site.root()).expect("a root");
    let handler = Handler::new(store, FingerprintKey::new([3; 32]), HandlerOptions::default());
    let second = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let write = |content: &str, millis: u64| {
        let time = second + std::time::Duration::from_millis(millis);
        let path = site.write("a.txt", content);
        std::fs::File::open(path).and_then(|file| file.set_modified(time)).expect("a time");
    };
    write("first version", 0);
    let first = call(&handler, request(Method::GET, "file1=a.txt", &[]));
    write("other version", 500);
    let fields = [("range", "bytes=5-"), ("if-range", field(&first, "last-modified"))];
    let resumed = call(&handler, request(Method::GET, "file1=a.txt", &fields));
    assert_eq!(field(&resumed, "last-modified"), field(&first, "last-modified"));
    assert_eq!(resumed.status.as_u16(), 200, "the whole, since the date does not tell");
}
