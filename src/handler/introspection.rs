//! The seam to the process that a handler answers for.

use std::{fmt, time::Duration};

/// What a handler tells of the process around it, and cannot know itself.
pub trait Introspection: fmt::Debug + Send + Sync {
    /// How it is doing.
    fn condition(&self) -> Condition;

    /// Its metrics, as text.
    fn metrics(&self) -> String;

    /// The media type of that text.
    fn metrics_media_type(&self) -> &'static str;
}

/// How a process is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Condition {
    /// How long it has been serving.
    pub uptime: Duration,
    /// How many workers it has.
    pub workers: usize,
    /// Whether it is about to end and only finishes what it has begun.
    pub draining: bool,
}
