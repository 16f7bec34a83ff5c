//! How an answer reaches the client: buffers, compression, ranges, times.

use std::time::Duration;

use crate::check::{
    Finding,
    nginx::{
        Examined,
        values::{millis, size},
    },
};

/// What Axon writes at a time, and so what a read should have room for.
const READ_LEN: u64 = 64 * 1024;

/// `uwsgi_max_temp_file_size` where nobody sets it.
const DEFAULT_TEMP_FILE_LEN: u64 = 1 << 30;

/// `uwsgi_buffer_size` and each of `uwsgi_buffers` where nobody sets them: a page, 8k on some machines.
const DEFAULT_BUFFER_LEN: u64 = 4096;

/// `uwsgi_read_timeout` and `send_timeout` where nobody sets them.
const DEFAULT_TIMEOUT_MS: u64 = 60_000;

/// A disk that has to wake up takes some seconds until the first byte.
const MIN_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything about the way back.
pub(in crate::check::nginx) fn delivery(place: &Examined<'_>) -> Vec<Finding> {
    [
        temporary_files(place),
        small_buffers(place),
        compression(place),
        forced_ranges(place),
        read_timeout(place),
        send_timeout(place),
        client_abort(place),
        intercepted_errors(place),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn is_buffered(place: &Examined<'_>) -> bool {
    place.scope.is_on("uwsgi_buffering", true)
}

fn temporary_files(place: &Examined<'_>) -> Option<Finding> {
    let limit = place.scope.value("uwsgi_max_temp_file_size").map_or(Some(DEFAULT_TEMP_FILE_LEN), size)?;
    if !is_buffered(place) || limit == 0 {
        return None;
    }
    let message = format!(
        "an answer goes to disk ahead of a slow client, up to {limit} bytes of each: the disk fills, and Axon is no longer \
         held back by the client (uwsgi_buffering is on and uwsgi_max_temp_file_size is not 0)"
    );
    let fix = if place.caches() {
        "uwsgi_max_temp_file_size 0;"
    } else {
        "uwsgi_buffering off; uwsgi_buffer_size 64k; uwsgi_buffers 4 64k; uwsgi_max_temp_file_size 0;"
    };
    let named =
        ["uwsgi_max_temp_file_size", "uwsgi_buffering"].into_iter().find_map(|name| place.scope.directive(name));
    let line = named.map_or(&place.passed.directive.place, |directive| &directive.place);
    Some(Finding::error("buffering", message, fix).at(line))
}

fn small_buffers(place: &Examined<'_>) -> Option<Finding> {
    let (name, index, fix) = if place.caches() {
        ("uwsgi_buffers", 1, "uwsgi_buffers 8 64k; uwsgi_buffer_size 64k;")
    } else if is_buffered(place) {
        ("uwsgi_buffers", 1, "uwsgi_buffering off; uwsgi_buffer_size 64k; uwsgi_buffers 4 64k;")
    } else {
        ("uwsgi_buffer_size", 0, "uwsgi_buffer_size 64k; uwsgi_buffers 4 64k;")
    };
    let directive = place.scope.directive(name);
    let len = directive.map_or(Some(DEFAULT_BUFFER_LEN), |directive| size(directive.argument(index)))?;
    (len < READ_LEN).then(|| {
        let said = if directive.is_some() { "" } else { " by default" };
        let message = format!(
            "{name} is {len} bytes{said}: nginx reads an answer in that many small pieces, which halves what both can serve"
        );
        Finding::warning("buffers", message, fix).at(place.scope.place(name, place.passed))
    })
}

fn compression(place: &Examined<'_>) -> Option<Finding> {
    if !place.scope.is_on("gzip", false) {
        return None;
    }
    let named = place.scope.all("gzip_types");
    let types: Vec<&str> = named.iter().flat_map(|directive| &directive.arguments).map(String::as_str).collect();
    let bundles_too = types.iter().any(|name| *name == "*" || name.starts_with("multipart/"));
    let of = if bundles_too {
        "every answer".into()
    } else {
        ["text/html"].iter().chain(&types).copied().collect::<Vec<_>>().join(", ")
    };
    let message = format!(
        "gzip takes Content-Length and ranges from {of}, and weakens the ETag: no resuming, and a cut answer looks whole"
    );
    let finding = if bundles_too { Finding::error } else { Finding::warning };
    Some(finding("gzip", message, "gzip off;").at(place.scope.place("gzip", place.passed)))
}

fn forced_ranges(place: &Examined<'_>) -> Option<Finding> {
    place.scope.is_on("uwsgi_force_ranges", false).then(|| {
        let message = "nginx also cuts ranges out of answers that Axon gives whole: those to POST, and where there were \
                       too many ranges, then with a boundary that a file may contain";
        Finding::warning("force-ranges", message, "uwsgi_force_ranges off;")
            .at(place.scope.place("uwsgi_force_ranges", place.passed))
    })
}

fn read_timeout(place: &Examined<'_>) -> Option<Finding> {
    let given = place.scope.value("uwsgi_read_timeout").map_or(Some(DEFAULT_TIMEOUT_MS), millis)?;
    let drain = place.facts.subject.config.server.drain_timeout;
    let needed = drain.max(MIN_READ_TIMEOUT);
    (Duration::from_millis(given) <= needed).then(|| {
        let message = format!(
            "nginx waits {given} ms for Axon (uwsgi_read_timeout). A request that comes during a restart waits up to \
             {} s (--drain-timeout), and one for a disk that wakes up some seconds: they end in 504",
            drain.as_secs()
        );
        let fix = format!("uwsgi_read_timeout {}s;", (needed.as_secs() * 2).max(60));
        Finding::warning("read-timeout", message, fix).at(place.scope.place("uwsgi_read_timeout", place.passed))
    })
}

fn send_timeout(place: &Examined<'_>) -> Option<Finding> {
    let given = place.scope.value("send_timeout").map_or(Some(DEFAULT_TIMEOUT_MS), millis)?;
    let stall = place.facts.subject.config.server.transport.stall_timeout;
    (!is_buffered(place) && Duration::from_millis(given) >= stall).then(|| {
        let message = format!(
            "nginx lets a client take nothing for {given} ms, and Axon gives up after {} s (--stall-timeout): the transfer is \
             cut from behind, and nginx's log blames Axon",
            stall.as_secs()
        );
        let fix = format!("send_timeout {}s; or a longer --stall-timeout", stall.as_secs() * 4 / 5);
        Finding::warning("send-timeout", message, fix).at(place.scope.place("send_timeout", place.passed))
    })
}

fn client_abort(place: &Examined<'_>) -> Option<Finding> {
    place.scope.is_on("uwsgi_ignore_client_abort", false).then(|| {
        let message = "a client that goes away is not noticed: Axon reads and sends on for nobody";
        Finding::warning("client-abort", message, "uwsgi_ignore_client_abort off;")
            .at(place.scope.place("uwsgi_ignore_client_abort", place.passed))
    })
}

fn intercepted_errors(place: &Examined<'_>) -> Option<Finding> {
    if !place.scope.is_on("uwsgi_intercept_errors", false) {
        return None;
    }
    let pages = place.scope.all("error_page");
    let fix = "uwsgi_intercept_errors off;";
    let finding = if let Some(page) = pages.first() {
        let message = format!(
            "nginx puts its own page (error_page, {}) in the place of Axon's errors, which say which file is missing",
            page.place
        );
        Finding::error("intercept-errors", message, fix)
    } else {
        let message = "as soon as there is an error_page, nginx puts it in the place of Axon's errors";
        Finding::warning("intercept-errors", message, fix)
    };
    Some(finding.at(place.scope.place("uwsgi_intercept_errors", place.passed)))
}
