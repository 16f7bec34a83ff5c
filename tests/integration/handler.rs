//! The handler as a function from requests to answers: no socket, no daemon.

use axon::{
    handler::{Handler, HandlerOptions, ValidatorFacts},
    message::{FingerprintKey, Request, Response, Service as _},
    store::Store,
};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::Site;

fn handler(site: &Site, options: HandlerOptions) -> Handler {
    Handler::new(Store::open(&site.root()).expect("a root"), FingerprintKey::new([3; 32]), options)
}

async fn call(handler: &Handler, method: Method, target: &str) -> Response {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    handler.call(Request::new(method, path.to_owned(), query.to_owned())).await
}

async fn get(handler: &Handler, target: &str) -> Response {
    call(handler, Method::GET, target).await
}

fn problem(response: &Response) -> Value {
    assert_eq!(response.headers["content-type"], "application/problem+json");
    let text: Vec<u8> = response
        .body
        .segments()
        .flat_map(|segment| match segment {
            axon::body::Segment::Bytes(bytes) => bytes.to_vec(),
            axon::body::Segment::File(_) => panic!("a problem has no files"),
        })
        .collect();
    let problem: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(problem["status"], response.status.as_u16());
    problem
}

#[tokio::test]
async fn routes() {
    let site = Site::awkward();
    let handler = handler(&site, HandlerOptions::default());
    for method in [Method::GET, Method::HEAD] {
        let health = call(&handler, method.clone(), "/api/health").await;
        assert_eq!((health.status, health.content_length), (StatusCode::OK, Some(22)));
        assert_eq!(health.headers["content-type"], "application/json");
        let file = call(&handler, method, "/api/stream-files?file1=a.txt").await;
        assert_eq!((file.status, file.content_length), (StatusCode::OK, Some(10)));
    }
    for path in [
        "/",
        "",
        "/api",
        "/api/",
        "/api/health/",
        "/API/health",
        "/api/metrics",
        "/api/stream-files/a.txt",
        "/etc/passwd",
    ] {
        let response = get(&handler, path).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{path}");
        problem(&response);
    }
    for name in ["PUT", "DELETE", "OPTIONS", "TRACE", "FOO", "get", "CONNECT"] {
        let method = Method::from_bytes(name.as_bytes()).expect("a token");
        for (path, allow) in [("/api/health", "GET, HEAD"), ("/api/stream-files", "GET, HEAD, POST")] {
            let response = call(&handler, method.clone(), path).await;
            assert_eq!(response.status, StatusCode::METHOD_NOT_ALLOWED, "{name} {path}");
            assert_eq!(response.headers["allow"], allow);
        }
    }
}

#[tokio::test]
async fn every_failing_file_is_named_by_its_parameter() {
    let site = Site::awkward();
    let handler = handler(&site, HandlerOptions::default());
    let response = get(&handler, "/api/stream-files?file1=a.txt&x2=b.txt").await;
    assert_eq!(response.status, StatusCode::BAD_REQUEST);
    let response =
        get(&handler, "/api/stream-files?file1=a.txt&file2=none&file=sub&file3=b.txt&file2=out%2fpasswd").await;
    assert_eq!(response.status, StatusCode::NOT_FOUND);
    let file = |index, parameter| json!({"index": index, "parameter": parameter, "status": 404, "detail": "not found"});
    assert_eq!(problem(&response)["files"], json!([file(1, "file2"), file(2, "file"), file(4, "file2")]));
    // The gravest decides: a name that cannot be one comes before one that leads nowhere.
    let response = get(&handler, "/api/stream-files?file1=none&file2=%00&file3=").await;
    assert_eq!(response.status, StatusCode::BAD_REQUEST);
    assert_eq!(problem(&response)["files"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn validators_are_made_of_what_was_asked_for() {
    let site = Site::awkward();
    let full = handler(&site, HandlerOptions::default());
    let mtime = handler(&site, HandlerOptions { validators: ValidatorFacts::Mtime, ..HandlerOptions::default() });
    let target = "/api/stream-files?file1=a.txt";
    let before = (get(&full, target).await, get(&mtime, target).await);
    // A copy: the same content and mtime, another ctime.
    let modified = site.path("a.txt").metadata().and_then(|m| m.modified()).expect("a time");
    std::fs::remove_file(site.path("a.txt")).expect("gone");
    let copy = site.write("a.txt", "0123456789");
    std::fs::File::open(copy).and_then(|file| file.set_modified(modified)).expect("a time");
    let after = (get(&full, target).await, get(&mtime, target).await);
    assert_ne!(before.0.headers["etag"], after.0.headers["etag"]);
    assert_eq!(before.1.headers["etag"], after.1.headers["etag"]);
}

#[tokio::test]
async fn the_number_of_files_has_a_limit() {
    let site = Site::awkward();
    let handler = handler(&site, HandlerOptions { max_files: 20, ..HandlerOptions::default() });
    let target = |count| format!("/api/stream-files?{}", vec!["file=b.txt"; count].join("&"));
    assert_eq!(get(&handler, &target(20)).await.headers["axon-parts"], "20");
    assert_eq!(get(&handler, &target(21)).await.status, StatusCode::BAD_REQUEST);
}
