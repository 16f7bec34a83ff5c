//! Log records: where they go, and the one that every request leaves.

mod access;
mod json;
mod log;
mod sink;

pub use access::record;
pub use log::{Log, LogError, LogFormat, LogOptions};
