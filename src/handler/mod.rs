//! Requests to answers: the routes. No sockets here, and nothing is written.

mod health;
mod introspection;
mod key;
mod list;
mod selection;
mod stream_files;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};

pub use introspection::{Condition, Introspection};
pub use key::CurrentKey;
pub use selection::{FileFailure, OnMissing, Selection, Wanted};

use crate::{
    body::Body,
    message::{FingerprintKey, Problem, Request, Response, Service},
    store::Store,
};

/// The [routes](Response::route) that answers can have.
pub const ROUTES: &[&str] =
    &[Route::Health.name(), Route::StreamFiles.name(), Route::Metrics.name(), Response::OTHER_ROUTE];

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

/// The service: health, metrics, and files as they are or as a bundle.
#[derive(Clone, Debug)]
pub struct Handler {
    store: Store,
    key: CurrentKey,
    options: HandlerOptions,
    introspection: Option<Arc<dyn Introspection>>,
}

impl Handler {
    /// A service over the files of a store.
    pub fn new(store: Store, key: FingerprintKey, options: HandlerOptions) -> Self {
        Self { store, key: CurrentKey::new(key), options, introspection: None }
    }

    /// Lets it tell of the process around it. Without, there are no metrics.
    #[must_use]
    pub fn with_introspection(mut self, introspection: Arc<dyn Introspection>) -> Self {
        self.introspection = Some(introspection);
        self
    }

    /// The key, for whoever renews it.
    pub fn key(&self) -> CurrentKey {
        self.key.clone()
    }

    fn metrics(&self) -> Response {
        let Some(process) = &self.introspection else { return nothing_there() };
        let media_type = HeaderValue::from_static(process.metrics_media_type());
        Response::new(StatusCode::OK, Body::from(Bytes::from(process.metrics())))
            .with_header(header::CONTENT_TYPE, media_type)
            .with_header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
    }
}

impl Service for Handler {
    async fn call(&self, request: Request) -> Response {
        let Some(route) = Route::of(&request.path) else { return nothing_there() };
        let mut response = match (route, &request.method) {
            (Route::Health, &Method::GET | &Method::HEAD) => self.health(&request).await,
            (Route::StreamFiles, &Method::GET | &Method::HEAD | &Method::POST) => self.stream_files(&request).await,
            (Route::Metrics, &Method::GET | &Method::HEAD) => self.metrics(),
            (Route::Health | Route::Metrics, _) => method_not_allowed("GET, HEAD"),
            (Route::StreamFiles, _) => method_not_allowed("GET, HEAD, POST"),
        };
        response.route = route.name();
        response
    }

    fn body_limit(&self, request: &Request) -> u64 {
        match (&request.method, &request.path[..]) {
            (&Method::POST, b"/api/stream-files") => self.options.max_body,
            _ => 0,
        }
    }
}

/// A place that answers.
#[derive(Clone, Copy)]
enum Route {
    Health,
    StreamFiles,
    Metrics,
}

impl Route {
    fn of(path: &[u8]) -> Option<Self> {
        match path {
            b"/api/health" => Some(Self::Health),
            b"/api/stream-files" => Some(Self::StreamFiles),
            b"/api/metrics" => Some(Self::Metrics),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::StreamFiles => "stream-files",
            Self::Metrics => "metrics",
        }
    }
}

fn nothing_there() -> Response {
    let detail = "there is nothing at this path; try /api/stream-files?file1=NAME or /api/health";
    Problem::new(StatusCode::NOT_FOUND, detail).into()
}

fn method_not_allowed(allowed: &'static str) -> Response {
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path takes {allowed}"));
    Response::from(problem).with_header(header::ALLOW, HeaderValue::from_static(allowed))
}
