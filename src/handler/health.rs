//! `/api/health`: whether somebody answers, and with `?deep=1` whether files can be served.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use tokio::time::timeout;
use tracing::error;

use crate::{
    handler::{Condition, Handler},
    message::{Problem, Request, Response},
    store::OpenError,
};

/// The answer to whoever only asks whether somebody is there.
const AVAILABLE: &[u8] = b"{\"status\":\"available\"}";

/// How long the root may take to be opened. Nobody waits longer for a health check; a disk that takes longer serves
/// nobody either.
const ROOT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
    version: &'static str,
    root: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uptime_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<usize>,
    draining: bool,
}

impl Handler {
    pub(super) async fn health(&self, request: &Request) -> Response {
        if asks_deep(&request.query) {
            // On the heap: it is rare, and every request would have to have room for it.
            return Box::pin(self.deep_health()).await;
        }
        Response::json(StatusCode::OK, Bytes::from_static(AVAILABLE))
    }

    async fn deep_health(&self) -> Response {
        let looked = match timeout(ROOT_TIMEOUT, self.store.look_at_root()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(OpenError::Busy(cause) | OpenError::Io(cause))) => Err(cause.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it did not open within {} s", ROOT_TIMEOUT.as_secs())),
        };
        if let Err(cause) = &looked {
            error!(cause, "the root directory cannot be opened; nothing can be served from it");
        }
        let condition = self.introspection.as_ref().map(|process| process.condition());
        Health::of(condition, looked.is_ok()).into()
    }
}

impl Health {
    fn of(condition: Option<Condition>, root_is_readable: bool) -> Self {
        let draining = condition.is_some_and(|condition| condition.draining);
        Self {
            status: match (draining, root_is_readable) {
                (true, _) => "draining",
                (false, true) => "available",
                (false, false) => "unavailable",
            },
            version: env!("CARGO_PKG_VERSION"),
            root: if root_is_readable { "readable" } else { "unreadable" },
            uptime_seconds: condition.map(|condition| condition.uptime.as_secs()),
            workers: condition.map(|condition| condition.workers),
            draining,
        }
    }
}

impl From<Health> for Response {
    fn from(health: Health) -> Self {
        // Names and numbers only: there is nothing in it that cannot be written.
        let text = serde_json::to_vec(&health).unwrap_or_default();
        let response = if health.status == "available" {
            Self::json(StatusCode::OK, text)
        } else {
            Self::json(StatusCode::SERVICE_UNAVAILABLE, text)
                .with_header(header::RETRY_AFTER, Problem::RETRY_AFTER_SECS)
        };
        response.with_header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
    }
}

/// Whether a query has `deep=1` in it, spelled so and not encoded: then a front end can tell as well. What else there may
/// be, or what is wrong with it, does not matter.
fn asks_deep(query: &[u8]) -> bool {
    query.split(|&byte| byte == b'&').any(|pair| pair == b"deep=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deep_1_asks_for_more() {
        for query in ["deep=1", "x=2&deep=1", "deep=1&deep=0", "%&deep=1", "&&deep=1&"] {
            assert!(asks_deep(query.as_bytes()), "{query}");
        }
        for query in [
            "", "deep", "deep=", "deep=0", "deep=11", "Deep=1", "deeper=1", "x=deep=1", "deep=1%", "d%65ep=1",
            "deep=%31",
        ] {
            assert!(!asks_deep(query.as_bytes()), "{query}");
        }
    }

    #[test]
    fn what_is_worse_is_told_first() {
        let condition = |draining| Some(Condition { uptime: Duration::from_millis(1999), workers: 2, draining });
        let text = |health: Health| serde_json::to_string(&health).expect("JSON");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text(Health::of(condition(false), true)),
            format!(
                "{{\"status\":\"available\",\"version\":\"{version}\",\"root\":\"readable\",\
                 \"uptime_seconds\":1,\"workers\":2,\"draining\":false}}"
            )
        );
        for (condition, readable, status) in [
            (condition(true), true, "draining"),
            (condition(true), false, "draining"),
            (condition(false), false, "unavailable"),
            (None, false, "unavailable"),
        ] {
            let health = Health::of(condition, readable);
            assert_eq!((health.status, health.root == "readable"), (status, readable));
            assert_eq!(Response::from(health).status, StatusCode::SERVICE_UNAVAILABLE);
        }
    }
}
