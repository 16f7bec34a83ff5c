//! Variables to a request: compared with a plain second reading of the same variables.
//!
//! The input is text, so that it can be read and changed: variables that end in RS (0x1e), name and value with US
//! (0x1f) in between. What a packet can hold besides is tried by `uwsgi_packet`.

#![no_main]

use std::collections::HashSet;

use axon::{
    message::Request,
    wire::{self, MAX_VARIABLES, RequestError, uwsgi},
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use libfuzzer_sys::fuzz_target;

type Variable = (Vec<u8>, Vec<u8>);

fuzz_target!(|input: &[u8]| {
    let variables = variables(input);
    let Some(block) = block(&variables) else { return };
    let reasons = reasons(&variables);
    match wire::request_from_variables(&block) {
        Ok(request) => {
            assert_eq!(reasons, [], "it is no request");
            is_what_the_variables_say(&request, &variables);
            shares_their_memory(&request, &block);
            reads_the_same_again(&request);
        }
        Err(error) => {
            assert!(reasons.contains(&error), "{error:?} is none of {reasons:?}");
            let too_many = matches!(error, RequestError::TooManyVariables);
            let status = if too_many { StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE } else { StatusCode::BAD_REQUEST };
            assert_eq!(error.status(), status);
            let text = error.to_string();
            assert!(!text.bytes().any(|b| b.is_ascii_control()), "a record would have a line break: {text}");
        }
    }
});

fn variables(input: &[u8]) -> Vec<Variable> {
    let lines = input.split_inclusive(|&b| b == 0x1e).map(|line| line.strip_suffix(b"\x1e").unwrap_or(line));
    let pair = |line: &[u8]| {
        let at = line.iter().position(|&b| b == 0x1f).unwrap_or(line.len());
        (line[..at].to_vec(), line.get(at + 1..).unwrap_or_default().to_vec())
    };
    lines.map(pair).collect()
}

fn block(variables: &[Variable]) -> Option<Bytes> {
    let packet = uwsgi::encode(variables.iter().map(|(name, value)| (&name[..], &value[..]))).ok()?;
    Some(packet.freeze().slice(uwsgi::HEADER_LEN..))
}

fn value<'a>(variables: &'a [Variable], name: &[u8]) -> Option<&'a [u8]> {
    variables.iter().find(|variable| variable.0 == name).map(|variable| &variable.1[..])
}

/// Every reason there is to refuse them.
fn reasons(variables: &[Variable]) -> Vec<RequestError> {
    let mut reasons = Vec::new();
    let bad_field = |name: &[u8]| RequestError::HeaderField(name.escape_ascii().to_string());
    let mut seen = HashSet::new();
    for (name, value) in variables {
        if name.is_empty() {
            reasons.push(RequestError::Packet(uwsgi::PacketError::EmptyKey));
        } else if let Some(field) = name.strip_prefix(b"HTTP_") {
            // Two fields come as variables of their own.
            let counts =
                field_name(field).is_none_or(|name| !matches!(name.as_str(), "content-length" | "content-type"));
            if counts && (field_name(field).is_none() || HeaderValue::from_bytes(value).is_err()) {
                reasons.push(bad_field(name));
            }
        } else if !seen.insert(name) {
            reasons.push(RequestError::Repeated(name.escape_ascii().to_string()));
        }
        match &name[..] {
            b"REQUEST_METHOD" if Method::from_bytes(value).is_err() => reasons.push(RequestError::Method),
            b"CONTENT_LENGTH" if content_length(value).is_none() => reasons.push(RequestError::ContentLength),
            b"CONTENT_TYPE" if HeaderValue::from_bytes(value).is_err() => reasons.push(bad_field(name)),
            _ => {}
        }
    }
    if variables.len() > MAX_VARIABLES {
        reasons.push(RequestError::TooManyVariables);
    }
    for name in ["REQUEST_METHOD", "PATH_INFO"] {
        if value(variables, name.as_bytes()).is_none() {
            reasons.push(RequestError::Missing(name));
        }
    }
    reasons
}

fn field_name(variable: &[u8]) -> Option<HeaderName> {
    let text = std::str::from_utf8(variable).ok()?;
    HeaderName::try_from(text.to_lowercase().replace('_', "-")).ok()
}

fn content_length(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    match text {
        "" => Some(0),
        _ if text.starts_with('+') => None,
        _ => text.parse().ok(),
    }
}

fn is_what_the_variables_say(request: &Request, variables: &[Variable]) {
    let said = |name: &str| value(variables, name.as_bytes());
    assert_eq!(Some(request.method.as_str().as_bytes()), said("REQUEST_METHOD"));
    assert_eq!(Some(&request.path[..]), said("PATH_INFO"));
    assert_eq!(&request.query[..], said("QUERY_STRING").unwrap_or_default());
    assert_eq!(Some(request.content_length), content_length(said("CONTENT_LENGTH").unwrap_or_default()));
    assert_eq!(request.peer.as_deref(), said("REMOTE_ADDR"));
    assert_eq!(request.body, "");

    let mut fields = 0;
    for (name, value) in &request.headers {
        fields += 1;
        let value = value.as_bytes();
        assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n' | b'\0')), "{name} breaks its line");
        let mut sent: Vec<&[u8]> = variables
            .iter()
            .filter(|variable| variable.0.strip_prefix(b"HTTP_").and_then(field_name).as_ref() == Some(name))
            .map(|variable| &variable.1[..])
            .collect();
        match name.as_str() {
            "content-length" => panic!("Content-Length is not for the client to say"),
            "content-type" => sent = said("CONTENT_TYPE").into_iter().collect(),
            _ => {}
        }
        let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
        assert_eq!(value, sent.join(separator), "{name}");
    }
    let mut sent: HashSet<_> =
        variables.iter().filter_map(|variable| field_name(variable.0.strip_prefix(b"HTTP_")?)).collect();
    sent.retain(|name| !matches!(name.as_str(), "content-length" | "content-type"));
    let typed = said("CONTENT_TYPE").is_some_and(|value| !value.is_empty());
    assert_eq!(fields, sent.len() + usize::from(typed), "a field is lost, or comes twice");
}

fn shares_their_memory(request: &Request, block: &Bytes) {
    for piece in [Some(&request.path), Some(&request.query), request.peer.as_ref()].into_iter().flatten() {
        let (inner, outer) = (piece.as_ptr_range(), block.as_ptr_range());
        assert!(piece.is_empty() || (outer.start <= inner.start && inner.end <= outer.end), "it was copied");
    }
}

/// The variables that nginx would have sent for this request are read as this request.
fn reads_the_same_again(request: &Request) {
    let length = request.content_length.to_string();
    let mut variables: Vec<Variable> = [
        ("REQUEST_METHOD", request.method.as_str().as_bytes()),
        ("PATH_INFO", &request.path),
        ("QUERY_STRING", &request.query),
        ("CONTENT_LENGTH", length.as_bytes()),
    ]
    .map(|(name, value)| (name.into(), value.to_vec()))
    .into();
    variables.extend(request.peer.as_ref().map(|peer| (b"REMOTE_ADDR".to_vec(), peer.to_vec())));
    for (name, value) in &request.headers {
        let variable = match name.as_str() {
            "content-type" => "CONTENT_TYPE".to_owned(),
            name => format!("HTTP_{}", name.to_uppercase().replace('-', "_")),
        };
        variables.push((variable.into(), value.as_bytes().to_vec()));
    }
    // Joined fields and what else was left out may not fit any more.
    let Some(block) = block(&variables) else { return };
    let again = wire::request_from_variables(&block).expect("a request");
    let facts = |request: &Request| format!("{request:?}");
    let sorted = |request: &Request| {
        let mut headers: Vec<_> =
            request.headers.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        headers.sort_by(|a, b| a.0.cmp(&b.0));
        headers
    };
    assert_eq!(sorted(&again), sorted(request));
    let without_headers = |request: &Request| Request { headers: http::HeaderMap::new(), ..request.clone() };
    assert_eq!(facts(&without_headers(&again)), facts(&without_headers(request)));
}
