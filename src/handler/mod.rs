//! Requests to answers: the routes. No sockets here, and nothing is written.

mod key;
mod list;
mod selection;
mod stream_files;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};

pub use key::CurrentKey;
pub use selection::{FileFailure, OnMissing, Selection, Wanted};

use crate::{
    message::{FingerprintKey, Problem, Request, Response, Service},
    store::Store,
};

const HEALTH: &[u8] = b"{\"status\":\"available\"}";

/// How files are chosen and described.
#[derive(Clone, Copy, Debug)]
pub struct HandlerOptions {
    /// The most files a request may name. 1,000 by default: what a browser or a proxy can put into a list,
    /// and a bound on the descriptors, the memory and the time that one request can ask for.
    pub max_files: usize,
    /// The longest request body that is read, in bytes. 1 MiB by default: what nginx lets through by default.
    pub max_body: u64,
    /// Whether names with a component that starts with a dot are served. Off by default.
    pub dotfiles: bool,
    /// What entity tags are made of.
    pub validators: ValidatorFacts,
}

/// The facts that tell two versions of a file apart.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ValidatorFacts {
    /// Size, mtime and ctime. The kernel keeps ctime and nobody can set it back.
    #[default]
    Full,
    /// Size and mtime: equal on machines that hold copies of the same files.
    Mtime,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self { max_files: 1000, max_body: 1024 * 1024, dotfiles: false, validators: ValidatorFacts::default() }
    }
}

/// The service: health, and files as they are or as a bundle.
#[derive(Clone, Debug)]
pub struct Handler {
    store: Store,
    key: CurrentKey,
    options: HandlerOptions,
}

impl Handler {
    /// A service over the files of a store.
    pub fn new(store: Store, key: FingerprintKey, options: HandlerOptions) -> Self {
        Self { store, key: CurrentKey::new(key), options }
    }

    /// The key, for whoever renews it.
    pub fn key(&self) -> CurrentKey {
        self.key.clone()
    }
}

impl Service for Handler {
    async fn call(&self, request: Request) -> Response {
        match (&request.method, &request.path[..]) {
            (&Method::GET | &Method::HEAD, b"/api/health") => {
                Response::json(StatusCode::OK, Bytes::from_static(HEALTH))
            }
            (&Method::GET | &Method::HEAD | &Method::POST, b"/api/stream-files") => self.stream_files(&request).await,
            (_, b"/api/health") => method_not_allowed("GET, HEAD"),
            (_, b"/api/stream-files") => method_not_allowed("GET, HEAD, POST"),
            _ => Problem::new(
                StatusCode::NOT_FOUND,
                "there is nothing at this path; try /api/stream-files?file1=NAME or /api/health",
            )
            .into(),
        }
    }

    fn body_limit(&self, request: &Request) -> u64 {
        match (&request.method, &request.path[..]) {
            (&Method::POST, b"/api/stream-files") => self.options.max_body,
            _ => 0,
        }
    }
}

fn method_not_allowed(allowed: &'static str) -> Response {
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path takes {allowed}"));
    Response::from(problem).with_header(header::ALLOW, HeaderValue::from_static(allowed))
}
