//! `/api/stream-files`: one file as itself, several as a bundle.

use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use tracing::error;

use crate::{
    body::Body,
    bundle::{self, Part, Shape},
    handler::selection::{self, FileFailure, OnMissing, Selection, Wanted},
    message::{self, FileProblem, FingerprintKey, Offer, Problem, Representation, Request, Response, Stamp},
    store::{Entry, OpenError, media_type},
};

use super::{Handler, ValidatorFacts};

/// How many parts stand in for files that cannot be served.
const AXON_FAILED: HeaderName = HeaderName::from_static("axon-failed");

impl Handler {
    pub(super) async fn stream_files(&self, request: &Request) -> Response {
        match self.plan(request).await {
            Ok(Planned { representation, is_bundle }) => {
                let mut response = representation.respond(request);
                response.is_whole_bundle = is_bundle && response.status == StatusCode::OK;
                response
            }
            Err(problem) => problem.into(),
        }
    }

    /// Decides everything before the first byte: every file is open and measured, or the whole request
    /// fails and names every file that is to blame.
    async fn plan(&self, request: &Request) -> Result<Planned, Problem> {
        let Selection { files, format, on_missing } = Selection::from_request(request, &self.options)?;
        // One for the whole answer, whatever becomes of it meanwhile.
        let fingerprint = self.key.get();
        let opened = self.open(request, files, &fingerprint).await;
        let failures: Vec<FileProblem> = opened.iter().enumerate().filter_map(Failed::told).collect();
        let shape = format.or_else(|| negotiated(request, &opened));
        // A want of descriptors passes: nothing that may be kept should say that the files were missing.
        let lasting = failures.iter().all(|failure| failure.status != StatusCode::SERVICE_UNAVAILABLE);
        let tolerant = on_missing == OnMissing::Part && shape.is_some() && lasting;
        if !failures.is_empty() && !tolerant {
            return Err(selection::blame(failures));
        }
        let stand_in = |failed: Failed| failed.into_part(&fingerprint);
        let mut parts: Vec<Part> = opened.into_iter().map(|part| part.unwrap_or_else(stand_in)).collect();
        let mut representation = match shape {
            None => alone(parts.remove(0)),
            Some(shape) => bundle::bundle(parts, shape, &fingerprint),
        };
        if representation.body.len() > Body::MAX_LEN {
            let max = Body::MAX_LEN;
            let detail = format!("together they have more than {max} bytes; ask for them in several requests");
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        if tolerant {
            representation = representation.with_header(AXON_FAILED, failures.len().into());
        }
        let representation = representation.with_header(header::VARY, HeaderValue::from_static("Accept"));
        Ok(Planned { representation, is_bundle: shape.is_some() })
    }

    /// Opens the files that can be; a part or a failure for each, in their order. What is our own fault leaves one
    /// record.
    async fn open(
        &self,
        request: &Request,
        files: Vec<Wanted>,
        fingerprint: &FingerprintKey,
    ) -> Vec<Result<Part, Failed>> {
        let keys: Vec<_> = files.iter().filter_map(|file| file.key.as_ref().ok().cloned()).collect();
        let mut entries = self.store.open_all(&keys).await.into_iter();
        let now = SystemTime::now();
        let mut ours: Option<(usize, String, OpenError)> = None;
        let part = |Wanted { parameter, name, filename, key }| {
            // There is an entry for every key, in the same order.
            let entry = match key.map(|_| entries.next().unwrap_or(Err(OpenError::NotFound))) {
                Ok(Ok(entry)) => entry,
                Ok(Err(error)) => {
                    let failure = failure(&error);
                    if matches!(error, OpenError::Busy(_) | OpenError::Io(_)) {
                        let (count, ..) = ours.get_or_insert_with(|| (0, escaped(&parameter), error));
                        *count += 1;
                    }
                    return Err(Failed { parameter, name, failure });
                }
                Err(failure) => return Err(Failed { parameter, name, failure }),
            };
            let path = entry.key().to_bytes();
            let representation = self.represent(entry, parameter.clone(), fingerprint, now);
            let mut part = Part::file(parameter, path, representation);
            if filename.is_some() {
                part.filename = filename;
            }
            Ok(part)
        };
        let parts = files.into_iter().map(part).collect();
        if let Some((count, parameter, OpenError::Busy(cause) | OpenError::Io(cause))) = ours {
            let request_id = request.header("x-request-id").filter(|id| !id.is_empty()).map(message::for_log);
            error!(request_id = request_id.map(display), files = count, parameter, %cause, "files cannot be opened or read; the first of them");
        }
        parts
    }

    fn represent(
        &self,
        entry: Entry,
        parameter: Bytes,
        fingerprint: &FingerprintKey,
        now: SystemTime,
    ) -> Representation {
        let stamp = match self.options.validators {
            ValidatorFacts::Full => entry.stamp(),
            ValidatorFacts::Mtime => Stamp { changed: None, ..entry.stamp() },
        };
        let media_type = media_type(entry.key().as_bytes());
        let mut body = Body::with_capacity(2); // the file and the answer's head
        body.push_file(entry.into_content(parameter), stamp.size);
        Representation {
            body,
            media_type,
            etag: fingerprint.file_tag(&stamp),
            modified: Some(stamp.modified),
            last_modified: stamp.modified.to_http(now),
            date_tells_versions: true,
            headers: http::HeaderMap::new(),
            parts: 1,
        }
    }
}

/// What there is to answer with.
struct Planned {
    representation: Representation,
    is_bundle: bool,
}

/// A file that cannot be served.
struct Failed {
    parameter: Bytes,
    name: Bytes,
    failure: FileFailure,
}

impl Failed {
    /// What the client is told where the whole request fails.
    fn told((index, opened): (usize, &Result<Part, Self>)) -> Option<FileProblem> {
        let Self { parameter, failure: (status, detail), .. } = opened.as_ref().err()?;
        Some(FileProblem { index, parameter: escaped(parameter), status: *status, detail })
    }

    /// What stands in its place where it does not.
    fn into_part(self, key: &FingerprintKey) -> Part {
        let (status, detail) = self.failure;
        Part::problem(self.parameter, self.name, &Problem::new(status, detail), key)
    }
}

/// The shape that the client likes best; None for one file as itself.
fn negotiated(request: &Request, opened: &[Result<Part, Failed>]) -> Option<Shape> {
    let accept = request.header(header::ACCEPT);
    let shapes = |only_by_name| Shape::ALL.map(|shape| Offer { media_type: shape.essence(), only_by_name });
    let [only] = opened else {
        let liked = message::preferred(accept, &shapes(false)).unwrap_or(0);
        return Some(Shape::ALL[liked]);
    };
    // A bundle of one is for a client that names multipart/something.
    let media_type = only.as_ref().ok().and_then(|part| part.representation.media_type.to_str().ok());
    let media_type = media_type.unwrap_or("application/problem+json");
    let itself = Offer { media_type, only_by_name: false };
    let [mixed, form_data, related] = shapes(true);
    let liked = message::preferred(accept, &[itself, mixed, form_data, related]).unwrap_or(0);
    liked.checked_sub(1).map(|liked| Shape::ALL[liked])
}

/// One file as itself.
fn alone(part: Part) -> Representation {
    let disposition = bundle::inline(part.filename.as_deref());
    let disposition = HeaderValue::try_from(disposition).expect("a disposition is visible ASCII");
    part.representation.with_header(header::CONTENT_DISPOSITION, disposition)
}

/// What the client is told.
fn failure(error: &OpenError) -> FileFailure {
    match error {
        OpenError::Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable"),
        OpenError::Forbidden => (StatusCode::FORBIDDEN, "not permitted"),
        OpenError::Io(_) => (StatusCode::INTERNAL_SERVER_ERROR, "cannot be read"),
        OpenError::NotFound => (StatusCode::NOT_FOUND, "not found"),
    }
}

/// Bytes that a client chose, for a record.
fn escaped(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().escape_ascii().to_string()
}
