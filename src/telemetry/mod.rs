//! What an operator sees: log records and metrics.

mod access;
mod cut;
mod histogram;
mod json;
mod log;
mod metrics;
mod page;
mod sink;

pub use access::record;
pub use log::{Log, LogError, LogFormat, LogOptions, with_causes};
pub use metrics::{Metrics, WorkerMetrics};
