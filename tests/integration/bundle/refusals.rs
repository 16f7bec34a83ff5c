//! Queries that name no files, and files that cannot be served.

use serde_json::Value;

use crate::harness::{Daemon, STREAM, Site, stream_target};

#[test]
fn a_query_that_names_no_files_is_refused() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (query, detail) in [
        ("?", "no file"),
        ("?&&", "no file"),
        ("", "no file"),
        ("?file1=a.txt&x=1", "unknown parameter x"),
        ("?x=1", "unknown parameter x"),
        ("?File1=a.txt", "unknown parameter File1"),
        ("?file1=a.txt&=b.txt", "unknown parameter"),
        ("?=a.txt", "unknown parameter"),
        ("?file1=", "file1"),
        ("?file1", "file1"),
        ("?file1=a.txt&file2", "file2"),
    ] {
        let answer = daemon.get(format!("{STREAM}{query}"));
        let problem = answer.problem(400);
        assert!(problem.contains(detail), "{query}: {problem}");
    }
    // Only `&` separates: this is one name that nothing has.
    daemon.get(format!("{STREAM}?file1=a.txt;file2=b.txt")).problem(404);
    assert_eq!(daemon.get(format!("{STREAM}?file1=a;b=c.txt")).text(), "semi");
    daemon.assert_alive(idle);
}

#[test]
fn one_file_that_cannot_be_served_fails_the_whole_request_and_is_named() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (value, status) in [
        ("none.txt", 404),
        ("sub", 404),
        ("locked.txt", 403),
        ("pipe", 404),
        ("out/passwd", 404),
        (".env", 404),
        ("%00", 400),
        ("", 400),
    ] {
        for (place, query) in [
            format!("?file1={value}"),
            format!("?file1={value}&file2=a.txt&file3=b.txt"),
            format!("?file1=a.txt&file2={value}&file3=b.txt"),
            format!("?file1=a.txt&file2=b.txt&file3={value}"),
        ]
        .into_iter()
        .enumerate()
        {
            let index = place.saturating_sub(1);
            let answer = daemon.get(format!("{STREAM}{query}"));
            let problem: Value = serde_json::from_str(answer.problem(status)).expect("JSON");
            assert_eq!(problem["status"], status);
            assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
            let files = problem["files"].as_array().expect("the files to blame");
            assert_eq!(files.len(), 1, "{query}: {problem}");
            assert_eq!(
                (&files[0]["index"], &files[0]["status"]),
                (&Value::from(index), &Value::from(status)),
                "{query}"
            );
            assert_eq!(files[0]["parameter"], format!("file{}", index + 1), "{query}");
            for secret in ["0123456789", "abcdef", "/root", "/tmp", "etc"] {
                assert!(!answer.text().contains(secret), "{secret} in {}", answer.text());
            }
        }
    }
    daemon.assert_alive(idle);
}

#[test]
fn every_file_that_cannot_be_served_is_named() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let query = "?file1=none&file2=a.txt&file3=locked.txt&file3=sub&files=b.txt&file%C3%BC%22=%00&fileX=";
    let answer = daemon.get(format!("{STREAM}{query}"));
    let problem: Value = serde_json::from_str(answer.problem(400)).expect("JSON");
    let files = problem["files"].as_array().expect("the files to blame");
    let told: Vec<_> = files.iter().map(|file| (file["index"].as_u64(), file["status"].as_u64())).collect();
    let expected = [(0, 404), (2, 403), (3, 404), (5, 400), (6, 400)];
    assert_eq!(told, expected.map(|(index, status)| (Some(index), Some(status))), "{problem}");
    let parameters: Vec<_> = files.iter().filter_map(|file| file["parameter"].as_str()).collect();
    assert_eq!(parameters[..3], ["file1", "file3", "file3"]);
    assert_eq!(parameters[4], "fileX");

    // Also where all of many fail: the list is whole.
    let all: Vec<String> = (0..1000).map(|index| format!("none{index}")).collect();
    let answer = daemon.get(stream_target(&all));
    let problem: Value = serde_json::from_str(answer.problem(404)).expect("JSON");
    assert_eq!(problem["files"].as_array().map(Vec::len), Some(1000));
    daemon.assert_alive(idle);
}
