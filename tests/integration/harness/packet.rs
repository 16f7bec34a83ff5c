//! A raw client of the uwsgi protocol: the variables that nginx sends, and any bytes one likes.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use axon::wire::uwsgi;

use super::{Answer, End};

/// How long a test waits for an answer before it counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request as nginx would send it, to be changed at will.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The variables, in order.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// modifier1 and modifier2.
    pub modifiers: (u8, u8),
    /// What follows the packet.
    pub body: Vec<u8>,
}

impl Packet {
    /// A GET of a target.
    pub fn get(target: impl AsRef<[u8]>) -> Self {
        Self::new("GET", target)
    }

    /// A request with any method.
    pub fn new(method: &str, target: impl AsRef<[u8]>) -> Self {
        let target = target.as_ref();
        let question = target.iter().position(|&b| b == b'?');
        let (path, query) = question.map_or((target, &b""[..]), |at| (&target[..at], &target[at + 1..]));
        let variables: [(&str, &[u8]); 14] = [
            ("QUERY_STRING", query),
            ("REQUEST_METHOD", method.as_bytes()),
            ("CONTENT_TYPE", b""),
            ("CONTENT_LENGTH", b""),
            ("REQUEST_URI", target),
            ("PATH_INFO", path),
            ("DOCUMENT_ROOT", b"/usr/share/nginx/html"),
            ("SERVER_PROTOCOL", b"HTTP/1.1"),
            ("REQUEST_SCHEME", b"http"),
            ("REMOTE_ADDR", b"192.0.2.10"),
            ("REMOTE_PORT", b"40000"),
            ("SERVER_PORT", b"80"),
            ("SERVER_NAME", b"axon.test"),
            ("HTTP_HOST", b"axon.test"),
        ];
        let variables = variables.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.to_vec())).collect();
        Self { variables, modifiers: (0, 0), body: Vec::new() }
    }

    /// Sets a variable, or adds it.
    pub fn with(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        match self.variables.iter_mut().find(|(known, _)| known == key.as_bytes()) {
            Some((_, old)) => *old = value.as_ref().to_vec(),
            None => self.variables.push((key.as_bytes().to_vec(), value.as_ref().to_vec())),
        }
        self
    }

    /// Adds a header field, by its name in HTTP.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let key = format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_"));
        self.variables.push((key.into_bytes(), value.as_ref().to_vec()));
        self
    }

    /// A body and its length.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        let length = self.body.len().to_string();
        self.with("CONTENT_LENGTH", length)
    }

    /// Everything as it goes over the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let packet = uwsgi::encode(self.variables.iter().map(|(key, value)| (&key[..], &value[..])));
        let mut bytes = packet.expect("it fits a packet").to_vec();
        (bytes[0], bytes[3]) = self.modifiers;
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Sends bytes and reads to the end.
pub fn exchange(socket: &Path, bytes: &[u8]) -> Answer {
    exchange_in_pieces(socket, &[bytes], Duration::ZERO)
}

/// Sends bytes piece by piece with a pause after each, and reads to the end.
pub fn exchange_in_pieces(socket: &Path, pieces: &[&[u8]], pause: Duration) -> Answer {
    let started = Instant::now();
    let mut stream = connect(socket);
    for piece in pieces {
        // It may answer and close early; then what it said is still there to be read.
        if stream.write_all(piece).is_err() {
            break;
        }
        std::thread::sleep(pause);
    }
    read_answer(&mut stream, started)
}

/// Sends bytes, says that no more will come, and reads to the end.
pub fn exchange_half_closed(socket: &Path, bytes: &[u8]) -> Answer {
    let started = Instant::now();
    let mut stream = connect(socket);
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    read_answer(&mut stream, started)
}

/// A connection with a time limit.
pub fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).expect("somebody listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time limit");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a time limit");
    stream
}

/// Reads an answer to its end.
pub fn read_answer(stream: &mut UnixStream, started: Instant) -> Answer {
    let mut received = Vec::new();
    let end = match stream.read_to_end(&mut received) {
        Ok(_) => End::Closed,
        Err(error) if error.kind() == ErrorKind::WouldBlock => End::Hanging,
        Err(_) => End::Reset,
    };
    Answer::parse(received, end, started.elapsed())
}
