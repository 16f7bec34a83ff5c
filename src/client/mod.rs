//! The other side: one request in the uwsgi protocol, as nginx would make it.

mod request;

pub use request::{Answer, ClientError, ClientRequest, request};
