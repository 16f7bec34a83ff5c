//! One connection without a network: a service that is a closure, sockets that give and take one byte at a time,
//! stall or break, and the same suite over `sendfile` and over the copy path.

mod suite;
mod trickle;

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use axon::{
    body::{Body, Content, ContentError, Wait},
    message::{Request, Response},
    transport::{Activity, Exchange, TransportOptions, serve},
};
use http::StatusCode;
use trickle::Trickle;

use crate::harness::Packet;

/// An open file of a measured length, for bodies.
#[derive(Debug)]
struct OpenFile {
    descriptor: Arc<OwnedFd>,
    len: u64,
}

impl OpenFile {
    fn holding(content: &[u8]) -> Arc<Self> {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("content");
        file.sync_all().expect("on the disk");
        Arc::new(Self { descriptor: Arc::new(file.into()), len: content.len() as u64 })
    }
}

impl Content for OpenFile {
    fn open(&self, _wait: Wait) -> Result<Arc<OwnedFd>, ContentError> {
        Ok(Arc::clone(&self.descriptor))
    }

    fn check(&self, descriptor: &OwnedFd) -> Result<(), ContentError> {
        let found = rustix::fs::fstat(descriptor).map_err(std::io::Error::from)?.st_size.unsigned_abs();
        if found < self.len { Err(ContentError::shrunk(self.len, found)) } else { Ok(()) }
    }

    fn parameter(&self) -> &[u8] {
        b"file1"
    }

    fn measured_len(&self) -> u64 {
        self.len
    }
}

/// An answer with a body.
fn ok(body: Body) -> Response {
    Response::new(StatusCode::OK, body)
}

/// Serves one connection and gives what happened.
async fn serve_one<F, A>(socket: &Trickle, service: F, options: &TransportOptions) -> Exchange
where
    F: Fn(Request) -> A + Send + Sync,
    A: Future<Output = Response> + Send,
{
    let mut exchange = Exchange::start();
    serve(socket, &service, options, &mut exchange).await;
    exchange
}

/// What goes out for a body with status 200 and no fields but the length.
fn expected(content: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len()).as_bytes(), content].concat()
}

fn get() -> Vec<u8> {
    Packet::get("/").to_bytes()
}

const SECOND: Duration = Duration::from_secs(1);
