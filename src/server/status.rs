//! What the handler can tell of the server around it.

use std::{sync::Arc, time::Instant};

use tokio_util::sync::CancellationToken;

use crate::{
    handler::{Condition, Introspection},
    server::{Shutdown, Vitals},
    telemetry::Metrics,
};

/// A server, as it looks at itself.
#[derive(Debug)]
pub(super) struct Status {
    vitals: Arc<Vitals>,
    drain: CancellationToken,
    started: Instant,
}

impl Status {
    /// That of a server that starts now.
    pub(super) fn new(vitals: Arc<Vitals>, shutdown: &Shutdown) -> Self {
        Self { vitals, drain: shutdown.drain.clone(), started: Instant::now() }
    }
}

impl Introspection for Status {
    fn condition(&self) -> Condition {
        Condition {
            uptime: self.started.elapsed(),
            workers: self.vitals.workers(),
            draining: self.drain.is_cancelled(),
        }
    }

    fn metrics(&self) -> String {
        self.vitals.metrics().page()
    }

    fn metrics_media_type(&self) -> &'static str {
        Metrics::MEDIA_TYPE
    }
}
