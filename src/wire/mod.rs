//! Bytes to heads and back: no I/O, no runtime, no clock.

mod cgi;
mod form;
mod head;
pub mod uwsgi;

pub use cgi::{MAX_VARIABLES, RequestError, asks_for_head, request_from_variables};
pub use form::{FormError, Pair, decode_form};
pub use head::encode_head;
