//! A request in the uwsgi protocol and its answer, without nginx in between.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::Duration,
};

use percent_encoding::percent_decode;
use thiserror::Error;

use crate::{
    transport::Address,
    wire::uwsgi::{self, TooLarge},
};

/// The longest head of an answer that is read. Axon's own have some hundred bytes.
const MAX_HEAD_LEN: usize = 64 * 1024;

/// The most header fields of an answer.
const MAX_HEAD_FIELDS: usize = 100;

/// How much is read at once.
const READ_LEN: usize = 64 * 1024;

/// What to ask for.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// The method, as it is.
    pub method: String,
    /// Path and query, percent-encoded as in a URL.
    pub target: String,
    /// Header fields: name and value.
    pub headers: Vec<(String, String)>,
    /// The body; None for none.
    pub body: Option<Vec<u8>>,
    /// How long the peer may take between two pieces; None for ever.
    pub timeout: Option<Duration>,
}

/// The head of an answer; its body has been written by then.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
}

/// Why there is no whole answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens there, or we may not connect.
    #[error("cannot connect to {0} (is axon serve running there?)")]
    Connect(Address, #[source] io::Error),
    /// The answer is not HTTP.
    #[error("the answer is not HTTP: {0}")]
    NotHttp(String),
    /// The connection failed, or took too long.
    #[error("the connection failed")]
    Io(#[source] io::Error),
    /// It ended before the announced length.
    #[error("the answer is cut: {received} of {announced} bytes came")]
    Cut {
        /// Bytes of the body that came.
        received: u64,
        /// Content-Length.
        announced: u64,
    },
    /// The request does not fit into a packet.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The body cannot be written to where it should go.
    #[error("cannot write the answer")]
    Output(#[source] io::Error),
}

/// Asks, and writes the answer's body to `out`; with `include_head`, its head first.
///
/// # Errors
/// Also where the answer ends before its announced length: a part of it is in `out` by then.
pub fn request(
    address: &Address,
    request: &ClientRequest,
    include_head: bool,
    out: &mut dyn Write,
) -> Result<Answer, ClientError> {
    let packet = encode(request)?;
    let mut connection = connect(address, request.timeout).map_err(|e| ClientError::Connect(address.clone(), e))?;
    let body = request.body.as_deref().unwrap_or_default();
    // A server may answer and close before it has read everything: then its answer is what counts.
    let written = connection.write_all(&packet).and_then(|()| connection.write_all(body));
    let mut received = Vec::new();
    let head = loop {
        if let Some(head) = parse_head(&received)? {
            break head;
        }
        if received.len() > MAX_HEAD_LEN {
            return Err(ClientError::NotHttp(format!("its head is longer than {MAX_HEAD_LEN} bytes")));
        }
        let old_len = received.len();
        received.resize(old_len + READ_LEN, 0);
        let count = connection.read(&mut received[old_len..]).map_err(ClientError::Io)?;
        received.truncate(old_len + count);
        if count == 0 {
            written.map_err(ClientError::Io)?;
            return Err(ClientError::NotHttp("the connection ended before a whole head came".into()));
        }
    };
    let (head_bytes, start) = received.split_at(head.len);
    if include_head {
        out.write_all(head_bytes).map_err(ClientError::Output)?;
    }
    let without_body = request.method == "HEAD" || matches!(head.status, 204 | 304);
    let announced = if without_body { Some(0) } else { head.content_length };
    copy_body(&mut connection, start, announced, out)?;
    out.flush().map_err(ClientError::Output)?;
    Ok(Answer { status: head.status })
}

/// The variables that nginx would send.
fn encode(request: &ClientRequest) -> Result<bytes::BytesMut, TooLarge> {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let path: Vec<u8> = percent_decode(path.as_bytes()).collect();
    let length = request.body.as_ref().map_or_else(String::new, |body| body.len().to_string());
    let content_type =
        |(name, value): &(String, String)| name.eq_ignore_ascii_case("content-type").then(|| value.clone());
    let content_type = request.headers.iter().find_map(content_type).unwrap_or_default();
    let mut variables: Vec<(Vec<u8>, &[u8])> = vec![
        (b"QUERY_STRING".into(), query.as_bytes()),
        (b"REQUEST_METHOD".into(), request.method.as_bytes()),
        (b"CONTENT_TYPE".into(), content_type.as_bytes()),
        (b"CONTENT_LENGTH".into(), length.as_bytes()),
        (b"REQUEST_URI".into(), request.target.as_bytes()),
        (b"PATH_INFO".into(), &path),
        (b"SERVER_PROTOCOL".into(), b"HTTP/1.1"),
        (b"REMOTE_ADDR".into(), b"127.0.0.1"),
    ];
    for (name, value) in &request.headers {
        let name = format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_"));
        variables.push((name.into_bytes(), value.as_bytes()));
    }
    uwsgi::encode(variables.iter().map(|(key, value)| (&key[..], *value)))
}

struct Head {
    status: u16,
    content_length: Option<u64>,
    len: usize,
}

/// The head at the start of `input`, once it is whole.
fn parse_head(input: &[u8]) -> Result<Option<Head>, ClientError> {
    let not_http = |error: String| ClientError::NotHttp(error);
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEAD_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(len) = response.parse(input).map_err(|e| not_http(e.to_string()))? else {
        return Ok(None);
    };
    let status = response.code.ok_or_else(|| not_http("it has no status".into()))?;
    let length = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let content_length = match length.map(|field| std::str::from_utf8(field.value)) {
        None => None,
        Some(text) => {
            let number = text.ok().and_then(|text| text.parse().ok());
            Some(number.ok_or_else(|| not_http("its Content-Length is not a number".into()))?)
        }
    };
    Ok(Some(Head { status, content_length, len }))
}

/// Copies the body: as much as was announced, or all that comes.
fn copy_body(
    connection: &mut dyn Read,
    start: &[u8],
    announced: Option<u64>,
    out: &mut dyn Write,
) -> Result<(), ClientError> {
    let mut left = announced.unwrap_or(u64::MAX);
    let mut buffer = vec![0; READ_LEN];
    let mut piece = start;
    loop {
        let len = usize::try_from(left).map_or(piece.len(), |left| piece.len().min(left));
        out.write_all(&piece[..len]).map_err(ClientError::Output)?;
        left -= len as u64;
        if left == 0 {
            return Ok(());
        }
        let count = connection.read(&mut buffer).map_err(ClientError::Io)?;
        if count == 0 {
            return match announced {
                None => Ok(()),
                Some(announced) => Err(ClientError::Cut { received: announced - left, announced }),
            };
        }
        piece = &buffer[..count];
    }
}

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

fn connect(address: &Address, timeout: Option<Duration>) -> io::Result<Box<dyn Connection>> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(timeout)?;
            stream.set_write_timeout(timeout)?;
            Ok(Box::new(stream))
        }
        Address::Tcp(ip) => {
            let stream = TcpStream::connect(ip)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(timeout)?;
            stream.set_write_timeout(timeout)?;
            Ok(Box::new(stream))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(start: &[u8], rest: &[u8], announced: Option<u64>) -> (Vec<u8>, Result<(), String>) {
        let mut out = Vec::new();
        let result = copy_body(&mut { rest }, start, announced, &mut out).map_err(|error| error.to_string());
        (out, result)
    }

    #[test]
    fn a_body_has_its_announced_length_or_is_cut() {
        assert_eq!(copy(b"ab", b"cd", Some(4)), (b"abcd".to_vec(), Ok(())));
        assert_eq!(copy(b"abcd", b"", Some(4)), (b"abcd".to_vec(), Ok(())));
        assert_eq!(copy(b"ab", b"cdef", Some(4)), (b"abcd".to_vec(), Ok(())));
        assert_eq!(copy(b"", b"", Some(0)), (vec![], Ok(())));
        assert_eq!(copy(b"ab", b"cd", None), (b"abcd".to_vec(), Ok(())));
        let cut = "the answer is cut: 3 of 4 bytes came".to_owned();
        assert_eq!(copy(b"ab", b"c", Some(4)), (b"abc".to_vec(), Err(cut)));
    }

    #[test]
    fn a_head_is_taken_once_it_is_whole() {
        let input = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        for end in 0..input.len() - 5 {
            assert!(parse_head(&input[..end]).expect("so far so good").is_none(), "{end}");
        }
        let head = parse_head(input).expect("a head").expect("whole");
        assert_eq!((head.status, head.content_length, head.len), (200, Some(5), input.len() - 5));
        assert!(parse_head(b"\x64\0\0\x01").is_err());
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n").is_err());
    }
}
