//! HTTP meaning, with no bytes on a wire: requests, answers and what they say about a representation.

mod decision;
mod for_log;
mod negotiation;
mod problem;
mod range;
mod representation;
mod request;
mod response;
mod service;
mod validators;

pub use decision::{Decision, Validators, decide};
pub use for_log::{MAX_LOGGED_LEN, for_log};
pub use negotiation::{Offer, preferred};
pub use problem::{FileProblem, Problem};
pub use range::MAX_RANGES;
pub use representation::Representation;
pub use request::Request;
pub use response::Response;
pub use service::Service;
pub use validators::{ETag, FingerprintKey, Stamp, Timestamp, Token};
