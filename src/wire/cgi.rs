//! CGI variables (RFC 3875 §4.1, as nginx names them) to a request.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use thiserror::Error;

use crate::{
    message::Request,
    wire::uwsgi::{self, PacketError},
};

/// The most variables a request may have. nginx sends some 15 of its own and one a header field; a
/// browser sends about as many again. Bounds the work that one packet can make.
pub const MAX_VARIABLES: usize = 1000;

/// How header fields are marked among the variables.
const HEADER_PREFIX: &[u8] = b"HTTP_";

/// Why variables are not a request. [`status`](Self::status) is the answer to give.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum RequestError {
    /// CONTENT_LENGTH is neither empty nor a number that fits 64 bits (RFC 9110 §8.6).
    #[error("CONTENT_LENGTH is not a number")]
    ContentLength,
    /// A header field's name or value is not one.
    #[error("the variable {0} is not a valid header field")]
    HeaderField(String),
    /// The method is not a token.
    #[error("REQUEST_METHOD is not a method")]
    Method,
    /// A variable that must be there is not.
    #[error("the variable {0} is missing (nginx sends it with uwsgi_param {0})")]
    Missing(&'static str),
    /// The packet itself is broken.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// A variable that is no header field came twice: which one to believe?
    #[error("the variable {0} was sent twice")]
    Repeated(String),
    /// More variables than [`MAX_VARIABLES`].
    #[error("more than {MAX_VARIABLES} variables")]
    TooManyVariables,
}

impl RequestError {
    /// The status to answer with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooManyVariables => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a block of variables.
///
/// Variables that are not known here are ignored: none of them moves the root or names a file. Only
/// CONTENT_LENGTH frames a body; empty means absent, as nginx sends it with a GET. A repeated header field
/// is joined in order, with `, ` (Cookie: `; `), so that it makes no difference whether nginx did so itself.
/// The values share the block's memory.
pub fn request_from_variables(block: &Bytes) -> Result<Request, RequestError> {
    let mut method = None;
    let mut path = None;
    let mut query = Bytes::new();
    let mut content_length = 0;
    let mut peer = None;
    let mut headers = HeaderMap::new();
    let mut names: Vec<&[u8]> = Vec::with_capacity(32);
    for (index, variable) in uwsgi::variables(block).enumerate() {
        let (key, value) = variable?;
        if index == MAX_VARIABLES {
            return Err(RequestError::TooManyVariables);
        }
        if let Some(name) = key.strip_prefix(HEADER_PREFIX) {
            add_header(&mut headers, name, block.slice_ref(value))?;
            continue;
        }
        names.push(key);
        match key {
            b"REQUEST_METHOD" => method = Some(Method::from_bytes(value).map_err(|_| RequestError::Method)?),
            b"PATH_INFO" => path = Some(block.slice_ref(value)),
            b"QUERY_STRING" => query = block.slice_ref(value),
            b"CONTENT_LENGTH" => content_length = decimal(value).ok_or(RequestError::ContentLength)?,
            b"CONTENT_TYPE" if !value.is_empty() => {
                let value = HeaderValue::from_maybe_shared(block.slice_ref(value)).map_err(|_| bad_header(key))?;
                headers.insert(header::CONTENT_TYPE, value);
            }
            b"REMOTE_ADDR" => peer = Some(block.slice_ref(value)),
            _ => {}
        }
    }
    if let Some(twice) = repeated(&mut names) {
        return Err(RequestError::Repeated(twice.escape_ascii().to_string()));
    }
    Ok(Request {
        method: method.ok_or(RequestError::Missing("REQUEST_METHOD"))?,
        path: path.ok_or(RequestError::Missing("PATH_INFO"))?,
        query,
        headers,
        content_length,
        body: Bytes::new(),
        peer,
    })
}

/// Whether variables that are no request ask for HEAD all the same: then their refusal has no content either
/// (RFC 9110 §9.3.2).
pub fn asks_for_head(block: &[u8]) -> bool {
    uwsgi::variables(block).flatten().any(|(key, value)| key == b"REQUEST_METHOD" && value == b"HEAD")
}

/// A name that is there twice.
fn repeated<'a>(names: &mut [&'a [u8]]) -> Option<&'a [u8]> {
    /// Up to here, comparing each with each costs less than sorting: most differ in length.
    const FEW: usize = 32;

    if names.len() <= FEW {
        return names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)).map(|(_, name)| *name);
    }
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Adds a header field by its variable's name, without the prefix.
fn add_header(headers: &mut HeaderMap, name: &[u8], value: Bytes) -> Result<(), RequestError> {
    let bad = || bad_header(&[HEADER_PREFIX, name].concat());
    let name = match name {
        // What nearly every request has, without the detour.
        b"HOST" => header::HOST,
        b"USER_AGENT" => header::USER_AGENT,
        b"ACCEPT" => header::ACCEPT,
        _ => {
            let dashed: Vec<u8> = name.iter().map(|&b| if b == b'_' { b'-' } else { b }).collect();
            HeaderName::from_bytes(&dashed).map_err(|_| bad())?
        }
    };
    // nginx sends these as variables of their own as well, and only those count, however the others are spelt.
    if name == header::CONTENT_LENGTH || name == header::CONTENT_TYPE {
        return Ok(());
    }
    let value = HeaderValue::from_maybe_shared(value).map_err(|_| bad())?;
    match headers.entry(name) {
        header::Entry::Vacant(entry) => {
            entry.insert(value);
        }
        header::Entry::Occupied(mut entry) => {
            let separator: &[u8] = if entry.key() == header::COOKIE { b"; " } else { b", " };
            let mut joined = BytesMut::from(entry.get().as_bytes());
            joined.extend_from_slice(separator);
            joined.extend_from_slice(value.as_bytes());
            entry.insert(HeaderValue::from_maybe_shared(joined.freeze()).map_err(|_| bad())?);
        }
    }
    Ok(())
}

fn bad_header(key: &[u8]) -> RequestError {
    RequestError::HeaderField(key.escape_ascii().to_string())
}

/// Digits only, within 64 bits; nothing at all is 0.
fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Request, RequestError> {
        let base = [("REQUEST_METHOD", "GET"), ("PATH_INFO", "/api/health")];
        let all = base.iter().chain(pairs).map(|(k, v)| (k.as_bytes(), v.as_bytes()));
        let packet = uwsgi::encode(all).expect("it fits").freeze();
        request_from_variables(&packet.slice(uwsgi::HEADER_LEN..))
    }

    #[test]
    fn empty_means_absent_and_only_digits_are_a_length() {
        for (text, expected) in
            [("", Some(0)), ("0", Some(0)), ("5", Some(5)), ("18446744073709551615", Some(u64::MAX))]
        {
            assert_eq!(read(&[("CONTENT_LENGTH", text)]).ok().map(|r| r.content_length), expected, "{text}");
        }
        for text in ["+5", "-1", "5x", " 5", "5 ", "0x5", "5,5", "18446744073709551616", "99999999999999999999"] {
            assert_eq!(read(&[("CONTENT_LENGTH", text)]).unwrap_err(), RequestError::ContentLength, "{text}");
        }
    }

    #[test]
    fn only_content_length_frames_the_body() {
        let request = read(&[("HTTP_CONTENT_LENGTH", "7"), ("HTTP_TRANSFER_ENCODING", "chunked")]).expect("a request");
        assert_eq!(request.content_length, 0);
        assert_eq!(request.header(header::CONTENT_LENGTH), None);
        // Names do not depend on case, nor on which of the two dashes is sent.
        for name in ["HTTP_CONTENT_LENGTH", "HTTP_CONTENT_lENGTH", "HTTP_content-length"] {
            let request = read(&[(name, "7")]).expect("a request");
            assert_eq!((request.content_length, request.header(header::CONTENT_LENGTH)), (0, None), "{name}");
        }
        for name in ["HTTP_CONTENT_TYPE", "HTTP_Content_Type", "HTTP_CONTENT-TYPE"] {
            let request = read(&[(name, "text/html"), ("CONTENT_TYPE", "text/plain")]).expect("a request");
            assert_eq!(request.header(header::CONTENT_TYPE), Some(&b"text/plain"[..]), "{name}");
        }
    }

    #[test]
    fn repeated_header_fields_are_joined_in_order() {
        let request = read(&[
            ("HTTP_RANGE", "bytes=0-1"),
            ("HTTP_X_A", "1"),
            ("HTTP_COOKIE", "a=1"),
            ("HTTP_RANGE", "bytes=3-4"),
            ("HTTP_X_A", "2"),
            ("HTTP_COOKIE", "b=2"),
            ("HTTP_X_A", "3"),
        ])
        .expect("a request");
        assert_eq!(request.header(header::RANGE), Some(&b"bytes=0-1, bytes=3-4"[..]));
        assert_eq!(request.header("x-a"), Some(&b"1, 2, 3"[..]));
        assert_eq!(request.header(header::COOKIE), Some(&b"a=1; b=2"[..]));
    }

    #[test]
    fn other_variables_come_once() {
        let twice = read(&[("QUERY_STRING", "a"), ("QUERY_STRING", "a")]);
        assert_eq!(twice.unwrap_err(), RequestError::Repeated("QUERY_STRING".into()));
        assert_eq!(read(&[("X", "1"), ("Y", "1"), ("X", "2")]).unwrap_err(), RequestError::Repeated("X".into()));
        assert!(read(&[("X", "1"), ("Y", "1")]).is_ok());
        // Also where there are many.
        let names: Vec<String> = (0..100).map(|i| format!("V{i}")).collect();
        let mut many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(read(&many).is_ok());
        many.push(("V50", ""));
        assert_eq!(read(&many).unwrap_err(), RequestError::Repeated("V50".into()));
    }

    #[test]
    fn variables_up_to_the_limit_and_not_one_more() {
        let names: Vec<String> = (0..=MAX_VARIABLES).map(|i| format!("V{i}")).collect();
        let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(read(&pairs[..MAX_VARIABLES - 2]).is_ok());
        let error = read(&pairs[..MAX_VARIABLES - 1]).unwrap_err();
        assert_eq!(error, RequestError::TooManyVariables);
        assert_eq!(error.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }

    #[test]
    fn a_broken_request_for_head_is_known_as_one() {
        let block = |pairs: &[(&str, &str)]| {
            let packet = uwsgi::encode(pairs.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes()))).expect("it fits");
            packet.freeze().slice(uwsgi::HEADER_LEN..)
        };
        assert!(asks_for_head(&block(&[("CONTENT_LENGTH", "x"), ("REQUEST_METHOD", "HEAD")])));
        let cut = block(&[("REQUEST_METHOD", "HEAD"), ("PATH_INFO", "/api/health")]);
        assert!(asks_for_head(&cut[..cut.len() - 1]));
        assert!(!asks_for_head(&cut[..10]));
        assert!(!asks_for_head(&block(&[("REQUEST_METHOD", "GET"), ("HTTP_X", "HEAD")])));
        assert!(!asks_for_head(&block(&[("REQUEST_METHOD", "head")])));
    }

    #[test]
    fn what_is_not_http_is_refused() {
        assert!(matches!(read(&[("HTTP_X", "a\r\nb")]), Err(RequestError::HeaderField(name)) if name == "HTTP_X"));
        assert!(matches!(read(&[("HTTP_X Y", "a")]), Err(RequestError::HeaderField(_))));
        assert!(matches!(read(&[("HTTP_", "a")]), Err(RequestError::HeaderField(_))));
        assert!(matches!(read(&[("CONTENT_TYPE", "a\nb")]), Err(RequestError::HeaderField(_))));
        let block = |pairs: &[(&str, &str)]| {
            let packet = uwsgi::encode(pairs.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes()))).expect("it fits");
            request_from_variables(&packet.freeze().slice(uwsgi::HEADER_LEN..)).unwrap_err()
        };
        assert_eq!(block(&[]), RequestError::Missing("REQUEST_METHOD"));
        assert_eq!(block(&[("REQUEST_METHOD", "GET")]), RequestError::Missing("PATH_INFO"));
        assert_eq!(block(&[("REQUEST_METHOD", "G T"), ("PATH_INFO", "/")]), RequestError::Method);
        assert_eq!(block(&[("REQUEST_METHOD", ""), ("PATH_INFO", "/")]), RequestError::Method);
    }
}
