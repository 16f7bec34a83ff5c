//! Clients of nginx: curl, and one that keeps its connection and sees every byte on it.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Command, Output},
    time::{Duration, Instant},
};

use super::{Answer, End, program};

/// How long a test waits for bytes before the answer counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that serves one request after the other.
pub struct HttpConnection {
    stream: TcpStream,
    /// What has come and belongs to no answer yet.
    received: Vec<u8>,
}

impl HttpConnection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time limit");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a time limit");
        stream.set_nodelay(true).expect("an option");
        Self { stream, received: Vec::new() }
    }

    /// A GET of a target.
    pub fn get(&mut self, target: &str) -> Answer {
        self.request("GET", target, &[], b"")
    }

    /// A HEAD of a target.
    pub fn head(&mut self, target: &str) -> Answer {
        self.request("HEAD", target, &[], b"")
    }

    /// A request and its answer. A body gets its Content-Length.
    pub fn request(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let started = Instant::now();
        // An answer may come before the whole request was sent; then it is there to be read.
        let _ = self.send(method, target, fields, body);
        self.receive(method == "HEAD", started)
    }

    /// Sends a request and reads nothing.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), std::io::Error> {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: axon.test\r\n");
        for (name, value) in fields {
            write!(request, "{name}: {value}\r\n").expect("text grows");
        }
        if !body.is_empty() {
            write!(request, "Content-Length: {}\r\n", body.len()).expect("text grows");
        }
        request.push_str("\r\n");
        self.stream.write_all(request.as_bytes())?;
        self.stream.write_all(body)
    }

    /// Takes up to `len` bytes and no more, whatever they are.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut taken = vec![0; len];
        let count = self.stream.read(&mut taken).expect("bytes");
        taken.truncate(count);
        taken
    }

    /// Reads one answer; `bodiless` where it answers HEAD. `end` says what became of the connection: it stays
    /// open unless the answer says otherwise, or ends before it should.
    fn receive(&mut self, bodiless: bool, started: Instant) -> Answer {
        let mut end = End::Open;
        let mut whole = self.answer_len(bodiless);
        while end == End::Open && whole.is_none_or(|len| self.received.len() < len) {
            end = self.read_more();
            whole = whole.or_else(|| self.answer_len(bodiless));
        }
        let len = whole.unwrap_or(usize::MAX).min(self.received.len());
        let left = self.received.split_off(len);
        let raw = std::mem::replace(&mut self.received, left);
        let mut answer = Answer::parse(raw, end, started.elapsed());
        if end == End::Open && answer.header("connection") == Some("close") {
            answer.end = self.read_to_end();
            assert_eq!(self.received, b"", "bytes behind the last answer");
        }
        answer
    }

    /// Reads what comes and says how the connection ended; [`End::Open`] if it did not.
    fn read_more(&mut self) -> End {
        let mut buffer = vec![0; 256 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => End::Closed,
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                End::Open
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => End::Hanging,
            Err(_) => End::Reset,
        }
    }

    fn read_to_end(&mut self) -> End {
        loop {
            match self.read_more() {
                End::Open => {}
                end => return end,
            }
        }
    }

    /// How many bytes the answer at the front has, once its head is there. Every answer has a length but 304.
    fn answer_len(&self, bodiless: bool) -> Option<usize> {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(head_len) = head.parse(&self.received).expect("a head") else { return None };
        if head.code == Some(304) {
            return Some(head_len);
        }
        let mut lengths = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("content-length"));
        let length = lengths.next().expect("an answer has a length").value;
        assert!(lengths.next().is_none(), "two lengths");
        let length: usize = std::str::from_utf8(length).expect("text").parse().expect("a number");
        Some(head_len + if bodiless { 0 } else { length })
    }
}

/// What curl came back with.
#[derive(Debug)]
pub struct Curl {
    /// Its exit code: 0 for a whole answer, 18 for one that was cut.
    pub code: i32,
    /// The answer, interim ones left out.
    pub answer: Answer,
    /// What it complained of.
    pub complaint: String,
}

/// curl without anything of the user's own: configuration, proxies.
pub fn curl_command() -> Command {
    let mut command = Command::new(program("curl", "curl"));
    command.args(["-q", "--noproxy", "*", "--silent", "--show-error", "--max-time", "60"]);
    command
}

/// Runs curl and waits for it.
pub fn curl(arguments: &[impl AsRef<OsStr>]) -> Curl {
    let started = Instant::now();
    let output = curl_command().arg("--include").args(arguments).output();
    let Output { status, stdout, stderr } = output.expect("curl runs");
    let mut raw = &stdout[..];
    while let Some(rest) = raw.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n") {
        raw = rest;
    }
    let end = if status.success() { End::Open } else { End::Closed };
    Curl {
        code: status.code().expect("an exit code"),
        answer: Answer::parse(raw.to_vec(), end, started.elapsed()),
        complaint: String::from_utf8_lossy(&stderr).into_owned(),
    }
}
