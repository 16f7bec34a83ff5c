//! `/api/stream-files`: one file as itself, several as a bundle.

use std::time::SystemTime;

use http::{HeaderValue, StatusCode, header};
use tracing::error;

use crate::{
    body::Body,
    bundle::{self, Part, Shape},
    handler::selection::{self, Wanted},
    message::{FileProblem, Problem, Representation, Request, Response, Stamp},
    store::{Entry, KeyError, OpenError, media_type},
};

use super::{Handler, ValidatorFacts};

impl Handler {
    pub(super) async fn stream_files(&self, request: &Request) -> Response {
        match self.plan(request).await {
            Ok(representation) => representation.respond(request),
            Err(problem) => problem.into(),
        }
    }

    /// Decides everything before the first byte: every file is open and measured, or the whole request
    /// fails and names every file that is to blame.
    async fn plan(&self, request: &Request) -> Result<Representation, Problem> {
        let files = selection::from_query(&request.query, &self.options)?;
        let mut parts = self.open(files).await?;
        if parts.len() == 1 {
            let Part { filename, representation, .. } = parts.remove(0);
            let disposition = bundle::attachment_name(&filename);
            let disposition = HeaderValue::from_str(&disposition).expect("a disposition is visible ASCII");
            return Ok(representation.with_header(header::CONTENT_DISPOSITION, disposition));
        }
        Ok(bundle::bundle(parts, Shape::Mixed, &self.key))
    }

    async fn open(&self, files: Vec<Wanted>) -> Result<Vec<Part>, Problem> {
        let keys: Vec<_> = files.iter().filter_map(|file| file.key.as_ref().ok().cloned()).collect();
        let mut opened = self.store.open_all(&keys).await.into_iter();
        let now = SystemTime::now();
        let mut parts = Vec::with_capacity(files.len());
        let mut failed = Vec::new();
        for (index, Wanted { parameter, key }) in files.into_iter().enumerate() {
            let entry = key.map_err(of_key).and_then(|_| {
                let result = opened.next().unwrap_or(Err(OpenError::NotFound));
                result.map_err(|error| of_open(&error, &parameter))
            });
            match entry {
                Ok(entry) => {
                    let path = entry.key().to_bytes();
                    let representation = self.represent(entry, parameter.clone(), now);
                    parts.push(Part::new(parameter, path, representation));
                }
                Err((status, detail)) => {
                    let parameter = parameter.escape_ascii().to_string();
                    failed.push(FileProblem { index, parameter, status, detail });
                }
            }
        }
        if failed.is_empty() { Ok(parts) } else { Err(selection::blame(failed)) }
    }

    fn represent(&self, entry: Entry, parameter: bytes::Bytes, now: SystemTime) -> Representation {
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
            etag: self.key.file_tag(&stamp),
            modified: Some(stamp.modified),
            last_modified: stamp.modified.to_http(now),
            headers: http::HeaderMap::new(),
            parts: 1,
        }
    }
}

fn of_key(error: KeyError) -> (StatusCode, &'static str) {
    match error {
        KeyError::Empty => (StatusCode::BAD_REQUEST, "the name is empty"),
        KeyError::Hidden => (StatusCode::NOT_FOUND, "not found"),
        KeyError::Nul => (StatusCode::BAD_REQUEST, "the name contains a NUL byte"),
        KeyError::TooLong => (StatusCode::BAD_REQUEST, "the name is too long"),
    }
}

/// What the client is told; what is our own fault is logged with its cause.
fn of_open(error: &OpenError, parameter: &[u8]) -> (StatusCode, &'static str) {
    match error {
        OpenError::Forbidden => (StatusCode::FORBIDDEN, "not permitted"),
        OpenError::NotFound => (StatusCode::NOT_FOUND, "not found"),
        OpenError::Busy(cause) => {
            error!(parameter = %parameter.escape_ascii(), %cause, "a file cannot be opened now");
            (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable")
        }
        OpenError::Io(cause) => {
            error!(parameter = %parameter.escape_ascii(), %cause, "a file cannot be read");
            (StatusCode::INTERNAL_SERVER_ERROR, "cannot be read")
        }
    }
}
