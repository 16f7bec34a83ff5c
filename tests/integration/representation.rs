//! Ranges, conditions, shapes and failures of real files and bundles, against the plain meaning of the words.

mod conditions;
mod lists;
mod ranges;
mod shapes;

use std::{os::unix::fs::FileExt as _, sync::OnceLock};

use axon::{
    body::{Body, Segment, Wait},
    handler::{Handler, HandlerOptions},
    message::{FingerprintKey, Request, Response, Service as _},
    store::Store,
};
use http::{HeaderName, HeaderValue, Method};

use crate::harness::{Site, noise};

/// A handler over files of awkward sizes, `f0` to `f7`; made once, since nothing changes it.
fn handler() -> &'static Handler {
    static HANDLER: OnceLock<(Site, Handler)> = OnceLock::new();
    let (_, handler) = HANDLER.get_or_init(|| {
        let site = Site::empty();
        for (index, len) in [0, 1, 2, 17, 300, 4096, 65_536, 70_001].into_iter().enumerate() {
            site.write(format!("f{index}"), noise(len));
        }
        let store = Store::open(&site.root()).expect("a root");
        (site, Handler::new(store, FingerprintKey::new([3; 32]), HandlerOptions::default()))
    });
    handler
}

/// Calls a handler without a socket.
fn call(handler: &Handler, request: Request) -> Response {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(handler.call(request))
}

/// A request for files with header fields.
fn request(method: Method, query: &str, fields: &[(&str, &str)]) -> Request {
    let mut request = Request::new(method, "/api/stream-files", query.to_owned());
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        request.headers.insert(name, HeaderValue::from_str(value).expect("a value"));
    }
    request
}

/// A GET for files with header fields.
fn get(query: &str, fields: &[(&str, &str)]) -> Response {
    call(handler(), request(Method::GET, query, fields))
}

/// A header field's value as text; empty where it is not there.
fn field<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers.get(name).map_or("", |value| value.to_str().expect("text"))
}

/// Reads all bytes of a body.
fn bytes(body: &Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in body.segments() {
        match segment {
            Segment::Bytes(piece) => bytes.extend_from_slice(piece),
            Segment::File(range) => {
                let descriptor = range.content.open(Wait::ForDisk).expect("a file");
                let file = std::fs::File::from(descriptor.try_clone().expect("a descriptor"));
                let start = bytes.len();
                bytes.resize(start + usize::try_from(range.len).expect("small"), 0);
                file.read_exact_at(&mut bytes[start..], range.offset).expect("content");
            }
        }
    }
    assert_eq!(bytes.len() as u64, body.len());
    bytes
}
