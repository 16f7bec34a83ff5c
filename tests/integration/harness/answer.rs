//! What came back.

use std::time::Duration;

use super::{Part, read_multipart};

/// How a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Not at all: it takes the next request.
    Open,
    /// In order.
    Closed,
    /// By a reset: the end of the answer may be lost.
    Reset,
    /// Not within the time limit.
    Hanging,
}

/// An answer as it came over the wire.
#[derive(Debug)]
pub struct Answer {
    /// The status; 0 where there is no head.
    pub status: u16,
    /// Header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// What follows the head.
    pub body: Vec<u8>,
    /// Everything.
    pub raw: Vec<u8>,
    /// How the connection ended.
    pub end: End,
    /// From the connect to the end.
    pub duration: Duration,
}

impl Answer {
    /// Takes what was received apart.
    pub fn parse(raw: Vec<u8>, end: End, duration: Duration) -> Self {
        let mut answer = Self { status: 0, headers: Vec::new(), body: Vec::new(), raw, end, duration };
        let Some(head_len) = answer.raw.windows(4).position(|w| w == b"\r\n\r\n") else { return answer };
        let head = String::from_utf8_lossy(&answer.raw[..head_len]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        answer.status = status.unwrap_or(0);
        answer.headers = lines
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("no header field: {line:?}")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        answer.body = answer.raw[head_len + 4..].to_vec();
        answer
    }

    /// A header field's value; a field that came twice is a failure.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} came twice");
        value
    }

    /// The announced length.
    #[track_caller]
    pub fn content_length(&self) -> u64 {
        self.header("content-length").expect("an announced length").parse().expect("a number")
    }

    /// The body as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// The parts of a bundle, strictly read. The answer must be whole.
    #[track_caller]
    pub fn parts(&self) -> Vec<Part> {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.content_length(), self.body.len() as u64);
        read_multipart(&self.body, self.header("content-type").expect("a type"))
    }

    /// Checks that it is a problem with this status, and gives its text.
    #[track_caller]
    pub fn problem(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.raw));
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.content_length(), self.body.len() as u64);
        assert!(matches!(self.end, End::Open | End::Closed), "{:?}", self.end);
        self.text()
    }
}
