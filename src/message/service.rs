//! The seam between a connection and what answers it.

use crate::message::{Request, Response};

/// Answers requests. Cannot fail: what goes wrong becomes an answer.
pub trait Service: Send + Sync {
    /// Answers one request.
    ///
    /// Cancel safety: dropping the future abandons the request; nothing has been sent yet.
    fn call(&self, request: Request) -> impl Future<Output = Response> + Send;

    /// How many bytes of this request's body the service wants to read.
    ///
    /// A body up to that length is in [`Request::body`] when [`call`](Self::call) runs; a longer one is
    /// left unread, and the service sees so from [`Request::content_length`]. 0 by default.
    fn body_limit(&self, request: &Request) -> u64 {
        let _ = request;
        0
    }
}

impl<F, Answer> Service for F
where
    F: Fn(Request) -> Answer + Send + Sync,
    Answer: Future<Output = Response> + Send,
{
    fn call(&self, request: Request) -> impl Future<Output = Response> + Send {
        self(request)
    }
}
