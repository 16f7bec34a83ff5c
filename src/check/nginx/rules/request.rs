//! How a request reaches Axon: variables, sizes, the body, a second try.

use crate::check::{
    Finding, Severity,
    nginx::{Examined, values::size},
};

/// What Axon reads, where nginx has it, and what happens without.
const VARIABLES: [(&str, &str, &str, Severity); 6] = [
    ("QUERY_STRING", "$query_string", "no list of files arrives", Severity::Error),
    ("REQUEST_METHOD", "$request_method", "every request is 400", Severity::Error),
    ("PATH_INFO", "$document_uri", "every request is 400", Severity::Error),
    ("CONTENT_LENGTH", "$content_length", "a list by POST arrives without its body", Severity::Error),
    ("CONTENT_TYPE", "$content_type", "a list by POST is 415", Severity::Error),
    ("REMOTE_ADDR", "$remote_addr", "no record names the client", Severity::Warning),
];

/// `large_client_header_buffers` where nobody sets it.
const DEFAULT_HEADER_BUFFERS: (u64, u64) = (4, 8 * 1024);

/// `client_header_buffer_size`, the first of them all, where nobody sets it.
const DEFAULT_FIRST_BUFFER_LEN: u64 = 1024;

/// `client_max_body_size` where nobody sets it.
const DEFAULT_BODY_LEN: u64 = 1 << 20;

/// What the heads of a request may take of the 65,535 bytes of a packet: the rest is for the variables that nginx adds,
/// and for what a header field grows by when it becomes one.
const MAX_HEAD_LEN: u64 = 62 * 1024;

/// Everything about the way to Axon.
pub(in crate::check::nginx) fn request(place: &Examined<'_>) -> Vec<Finding> {
    [
        missing_variables(place),
        raw_path(place),
        proxy_header(place),
        short_lines(place),
        long_heads(place),
        body_len(place),
        unbuffered_body(place),
        left_out(place, "uwsgi_pass_request_body", "no list by POST arrives"),
        left_out(place, "uwsgi_pass_request_headers", "Range, Accept and If-None-Match have no effect"),
        modifier(place),
        repetition(place),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn missing_variables(place: &Examined<'_>) -> Option<Finding> {
    let params = place.scope.all("uwsgi_param");
    let missing: Vec<_> =
        VARIABLES.iter().filter(|(name, ..)| params.iter().all(|param| param.argument(0) != *name)).collect();
    if missing.is_empty() || place.scope.has_unread_include() {
        return None;
    }
    let named: Vec<String> = missing.iter().map(|(name, _, then, _)| format!("{name} ({then})")).collect();
    // The trap behind most of these.
    let outside = place.scope.replaced("uwsgi_param");
    let why = match (params.first(), outside.first()) {
        (Some(inner), Some(outer)) => format!(
            "; the lines from {} on replace those from {} on: a level takes all of the outer one's, or none",
            inner.place, outer.place
        ),
        _ => String::new(),
    };
    let message = format!("missing uwsgi_param: {}{why}", named.join(", "));
    let lines: Vec<String> = missing.iter().map(|(name, value, ..)| format!("uwsgi_param {name} {value};")).collect();
    let worst = missing.iter().map(|(.., severity)| *severity).max().unwrap_or(Severity::Error);
    let finding = Finding { severity: worst, ..Finding::error("params", message, lines.join(" ")) };
    Some(finding.at(params.first().map_or(&place.passed.directive.place, |param| &param.place)))
}

fn raw_path(place: &Examined<'_>) -> Option<Finding> {
    let params = place.scope.all("uwsgi_param");
    let path = params.iter().find(|param| param.argument(0) == "PATH_INFO" && param.argument(1) == "$request_uri")?;
    let message = "PATH_INFO is the raw target with its query: no path is ever found, 404";
    Some(Finding::error("params", message, "uwsgi_param PATH_INFO $document_uri;").at(&path.place))
}

fn proxy_header(place: &Examined<'_>) -> Option<Finding> {
    let params = place.scope.all("uwsgi_param");
    let is_set = params.iter().any(|param| param.argument(0) == "HTTP_PROXY");
    (!is_set && !place.scope.has_unread_include()).then(|| {
        let message = "a client's \"Proxy:\" header becomes HTTP_PROXY, which many programs take for their configuration \
                       (httpoxy). Axon does not; what takes its place some day might";
        // Beside the others, or it would take their place. Those of the same level may come from a file of the system.
        let line = match params.last() {
            Some(last) if last.place.file == place.passed.directive.place.file || !place.scope.is_own("uwsgi_param") => {
                &last.place
            }
            _ => &place.passed.directive.place,
        };
        Finding::warning("httpoxy", message, "uwsgi_param HTTP_PROXY \"\"; beside the other uwsgi_param lines").at(line)
    })
}

/// How many buffers and how large, for the longest request line and for all lines together.
fn header_buffers(place: &Examined<'_>) -> Option<(u64, u64)> {
    let Some(directive) = place.scope.directive("large_client_header_buffers") else {
        return Some(DEFAULT_HEADER_BUFFERS);
    };
    Some((directive.argument(0).parse().ok()?, size(directive.argument(1))?))
}

fn short_lines(place: &Examined<'_>) -> Option<Finding> {
    let (_, len) = header_buffers(place)?;
    (len <= DEFAULT_HEADER_BUFFERS.1).then(|| {
        let message = format!(
            "a request line, and with it a list of files in a URL, may have {len} bytes; a longer one is nginx's 414 \
             (large_client_header_buffers)"
        );
        Finding::warning("header-buffers", message, "large_client_header_buffers 3 20k;")
            .at(place.scope.place("large_client_header_buffers", place.passed))
    })
}

fn long_heads(place: &Examined<'_>) -> Option<Finding> {
    let (count, len) = header_buffers(place)?;
    let first = place.scope.value("client_header_buffer_size").map_or(Some(DEFAULT_FIRST_BUFFER_LEN), size)?;
    // The stock uwsgi_params sends the request line a second time, as REQUEST_URI.
    let twice = place.scope.all("uwsgi_param").iter().any(|param| param.argument(1) == "$request_uri");
    let most = count.saturating_mul(len).saturating_add(first).saturating_add(if twice { len } else { 0 });
    (most > MAX_HEAD_LEN).then(|| {
        let again = if twice { " and REQUEST_URI repeats the longest line" } else { "" };
        let message = format!(
            "a request's head may have {most} bytes ({count} buffers of {len}{again}), and a uwsgi packet has room for \
             65535: a longer one is 500, \"uwsgi request is too big\""
        );
        let fix = if twice {
            "large_client_header_buffers 2 20k; or uwsgi_param lines without REQUEST_URI, and 3 20k"
        } else {
            "large_client_header_buffers 3 20k;"
        };
        Finding::warning("header-buffers", message, fix)
            .at(place.scope.place("large_client_header_buffers", place.passed))
    })
}

fn body_len(place: &Examined<'_>) -> Option<Finding> {
    let given = place.scope.value("client_max_body_size").map_or(Some(DEFAULT_BODY_LEN), size)?;
    let limit = place.facts.subject.config.handler.max_body;
    let fix = format!("client_max_body_size {limit};");
    let message = match given {
        given if given == limit => return None,
        0 => "nginx reads a body of any length, and keeps it on disk, for Axon to refuse it".to_owned(),
        given if given > limit => {
            format!("nginx reads up to {given} bytes of a body, for Axon to refuse what is above {limit} (--max-body)")
        }
        given => format!(
            "nginx answers 413 above {given} bytes of a body, as HTML, before Axon's own limit of {limit} (--max-body)"
        ),
    };
    Some(Finding::warning("body-size", message, fix).at(place.scope.place("client_max_body_size", place.passed)))
}

fn unbuffered_body(place: &Examined<'_>) -> Option<Finding> {
    (!place.scope.is_on("uwsgi_request_buffering", true)).then(|| {
        let limit = place.facts.subject.config.server.transport.head_timeout;
        let message = format!(
            "a client that sends its list slowly holds a connection of Axon, and has {} s for all of it (--head-timeout)",
            limit.as_secs()
        );
        Finding::warning("request-buffering", message, "uwsgi_request_buffering on;")
            .at(place.scope.place("uwsgi_request_buffering", place.passed))
    })
}

fn left_out(place: &Examined<'_>, name: &'static str, then: &str) -> Option<Finding> {
    (!place.scope.is_on(name, true)).then(|| {
        let message = format!("{name} is off: {then}");
        Finding::error("pass-request", message, format!("{name} on;")).at(place.scope.place(name, place.passed))
    })
}

fn modifier(place: &Examined<'_>) -> Option<Finding> {
    let value = place.scope.value("uwsgi_modifier1").filter(|value| *value != "0")?;
    let message = format!("modifier {value} names another kind of request than one over HTTP: Axon answers 400");
    Some(
        Finding::error("modifier", message, "uwsgi_modifier1 0;")
            .at(place.scope.place("uwsgi_modifier1", place.passed)),
    )
}

fn repetition(place: &Examined<'_>) -> Option<Finding> {
    let directive = place.scope.directive("uwsgi_next_upstream")?;
    directive.arguments.iter().any(|argument| argument == "non_idempotent").then(|| {
        let message = "a POST that was sent already is sent to the next server again, and its list planned twice";
        Finding::warning("next-upstream", message, "uwsgi_next_upstream error timeout http_503;").at(&directive.place)
    })
}
