//! Lists as JSON, and what becomes of files that cannot be served.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::harness::{Part, read_multipart};

fn post(handler: &Handler, list: &Value) -> Response {
    let mut request = request(Method::POST, "", &[("content-type", "application/json")]);
    request.body = Bytes::from(list.to_string());
    request.content_length = request.body.len() as u64;
    call(handler, request)
}

fn parts(response: &Response) -> Vec<Part> {
    assert_eq!(response.status.as_u16(), 200, "{}", String::from_utf8_lossy(&bytes(&response.body)));
    read_multipart(&bytes(&response.body), field(response, "content-type"))
}

fn problem(response: &Response) -> Value {
    assert_eq!(field(response, "content-type"), "application/problem+json");
    serde_json::from_slice(&bytes(&response.body)).expect("JSON")
}

#[test]
fn a_list_gives_what_its_query_gives() {
    let by_query = get("file1=f3&file2=f4", &[]);
    let by_list = post(handler(), &json!({"files": ["f3", "f4"]}));
    let content = |response: &Response| parts(response).into_iter().map(|part| part.body).collect::<Vec<_>>();
    assert_eq!(content(&by_query), content(&by_list));
    assert_eq!(field(&by_list, "etag"), field(&by_query, "etag"), "the same bytes have the same tag");
    let named =
        post(handler(), &json!({"files": [{"path": "f3", "name": "ü \"x\".txt"}, "f4"], "format": "form-data"}));
    let disposition = parts(&named).remove(0).header("content-disposition").expect("a disposition").to_owned();
    assert_eq!(disposition, "form-data; name=\"files[0]\"; filename=\"ü %22x%22.txt\"");
    let one = post(handler(), &json!({"files": [{"path": "f3", "name": "x.bin"}]}));
    assert_eq!(field(&one, "content-disposition"), "inline; filename=\"x.bin\"");
    assert_eq!(one.content_length, Some(17));
}

#[test]
fn lists_have_as_many_entries_as_files_are_allowed() {
    let list = |count: usize| post(handler(), &json!({"files": vec!["f1"; count]}));
    assert_eq!(parts(&list(1000)).len(), 1000);
    let refused = list(1001);
    assert_eq!(refused.status.as_u16(), 400);
    assert!(problem(&refused)["detail"].as_str().expect("a detail").contains("more than 1000 files"));
}

#[test]
fn failing_entries_are_named_by_their_index() {
    let answer = post(handler(), &json!({"files": ["f1", "none", {"path": "../x"}, {"path": "f1", "name": "a/b"}]}));
    assert_eq!(answer.status.as_u16(), 400);
    let files = problem(&answer)["files"].clone();
    let named: Vec<_> = files
        .as_array()
        .expect("files")
        .iter()
        .map(|f| (f["index"].as_u64(), f["parameter"].as_str(), f["status"].as_u64()))
        .collect();
    assert_eq!(
        named,
        [
            (Some(1), Some("files[1]"), Some(404)),
            (Some(2), Some("files[2]"), Some(404)),
            (Some(3), Some("files[3]"), Some(400))
        ]
    );
}

#[test]
fn missing_files_become_parts_in_their_place() {
    let query = "file1=f3&file2=none.txt&file3=f4&file4=&file5=../../etc/passwd";
    let answer = get(&format!("{query}&missing=part"), &[]);
    assert_eq!((field(&answer, "axon-parts"), field(&answer, "axon-failed")), ("5", "3"));
    assert_eq!(field(&answer, "last-modified"), "", "what is missing has no date");
    let parts = parts(&answer);
    let statuses: Vec<_> = parts.iter().map(|part| part.header("axon-status")).collect();
    assert_eq!(statuses, [None, Some("404"), None, Some("400"), Some("404")]);
    for part in parts.iter().filter(|part| part.header("axon-status").is_some()) {
        assert_eq!(part.header("content-type"), Some("application/problem+json"));
        assert_eq!(part.header("content-disposition"), Some("inline"), "nobody saves it under the file's name");
        let problem: Value = serde_json::from_slice(&part.body).expect("JSON");
        assert_eq!(Some(problem["status"].to_string().as_str()), part.header("axon-status"));
    }
    assert_eq!(parts[1].header("content-location"), Some("none.txt"));
    assert_eq!((parts[0].body.len(), parts[2].body.len()), (17, 300));
    // The same set fails as a whole by default, and names the same files.
    let refused = get(query, &[]);
    assert_eq!(refused.status.as_u16(), 400);
    assert_eq!(problem(&refused)["files"].as_array().map(Vec::len), Some(3));
    assert_eq!(field(&refused, "axon-failed"), "");
    assert_eq!(field(&get("file1=f3&file2=f4", &[]), "axon-failed"), "");
    assert_eq!(field(&get("file1=f3&file2=f4&missing=part", &[]), "axon-failed"), "0");
}

#[test]
fn a_bundle_with_missing_files_is_stable_and_changes_when_they_appear() {
    let site = Site::awkward();
    let store = Store::open(&site.root()).expect("a root");
    let handler = Handler::new(store, FingerprintKey::new([3; 32]), HandlerOptions::default());
    let get = || call(&handler, request(Method::GET, "file1=a.txt&file2=later.txt&missing=part", &[]));
    let (first, second) = (get(), get());
    assert_eq!(field(&first, "etag"), field(&second, "etag"));
    assert_eq!(bytes(&first.body), bytes(&second.body));
    site.write("later.txt", "here");
    let third = get();
    assert_ne!(field(&first, "etag"), field(&third, "etag"));
    assert_eq!(field(&third, "axon-failed"), "0");
}

#[test]
fn one_missing_file_alone_is_an_error_of_its_own() {
    assert_eq!(get("file1=none&missing=part", &[]).status.as_u16(), 404);
    let asked = get("file1=none&missing=part&format=mixed", &[]);
    assert_eq!(parts(&asked).len(), 1);
    assert_eq!(field(&asked, "axon-failed"), "1");
    let all = get("file1=none&file2=nothing&missing=part", &[]);
    assert_eq!((parts(&all).len(), field(&all, "axon-failed")), (2, "2"));
}
