//! A strict reader of multipart bodies (RFC 2046 §5.1.1): anything a lenient one forgives is a failure.

/// One part.
#[derive(Debug)]
pub struct Part {
    /// Header fields, names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// Its content.
    pub body: Vec<u8>,
}

impl Part {
    /// A header field's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Takes a body apart.
#[track_caller]
pub fn read_multipart(body: &[u8], content_type: &str) -> Vec<Part> {
    let (_, boundary) = content_type.split_once("boundary=").expect("a boundary");
    let boundary = boundary.split(';').next().expect("a boundary");
    assert!(boundary.len() >= 32 && boundary.len() <= 70, "{boundary}");
    assert!(boundary.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')), "{boundary}");
    let first = format!("--{boundary}\r\n");
    let delimiter = format!("\r\n--{boundary}");
    let mut left = body.strip_prefix(first.as_bytes()).expect("it begins with the delimiter");
    let mut parts = Vec::new();
    loop {
        let head_len = find(left, b"\r\n\r\n").expect("a part's head ends");
        assert!(head_len + 2 < 1000, "a head of {head_len} bytes");
        let (head, after) = left.split_at(head_len);
        let headers = headers(head, content_type.starts_with("multipart/form-data"));
        let length = headers.iter().find(|(name, _)| name == "content-length").expect("a part says its length");
        let content = &after[4..];
        let len = find(content, delimiter.as_bytes()).expect("a delimiter ends the part");
        assert_eq!(length.1.parse(), Ok(len), "a part's length");
        parts.push(Part { headers, body: content[..len].to_vec() });
        let rest = &content[len + delimiter.len()..];
        if let Some(rest) = rest.strip_prefix(b"--") {
            assert_eq!(rest, b"\r\n", "one line break after the closing delimiter");
            return parts;
        }
        left = rest.strip_prefix(b"\r\n").expect("a delimiter line ends after the boundary");
    }
}

#[track_caller]
fn headers(head: &[u8], utf8: bool) -> Vec<(String, String)> {
    let text = std::str::from_utf8(head).expect("a head is text");
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in text.split("\r\n") {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("no header field: {line:?}"));
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{name:?}");
        assert!(value.chars().all(|c| c == ' ' || c.is_ascii_graphic() || (utf8 && !c.is_ascii())), "{line:?}");
        let name = name.to_ascii_lowercase();
        assert!(headers.iter().all(|(known, _)| *known != name), "{name} came twice");
        headers.push((name, value.to_owned()));
    }
    headers
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    // The first byte is rare enough in what the tests send.
    let mut at = 0;
    while let Some(step) = haystack[at..].iter().position(|b| *b == needle[0]) {
        at += step;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
    None
}
