//! What a peer chose, as it may stand in a log record.

use std::borrow::Cow;

/// How much of a path, a query or a request id goes into a record, in bytes before escaping. A list of files
/// can be 64 KiB long, a log line should not be.
pub const MAX_LOGGED_LEN: usize = 512;

/// Bytes a peer chose, so that they cannot break out of a field or fill the log. In the text form a field ends at a
/// space, so a space is escaped as well.
pub fn for_log(bytes: &[u8]) -> Cow<'_, str> {
    let cut = &bytes[..bytes.len().min(MAX_LOGGED_LEN)];
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\');
    // Looks at every byte, which is many at once; stopping at the first would be one by one.
    let all_plain = cut.iter().fold(true, |all, &b| all & plain(b));
    match std::str::from_utf8(bytes) {
        Ok(text) if all_plain && cut.len() == bytes.len() => text.into(), // nearly always
        _ => {
            let words: Vec<String> = cut.split(|&b| b == b' ').map(|word| word.escape_ascii().to_string()).collect();
            let more = if cut.len() < bytes.len() { "..." } else { "" };
            (words.join("\\x20") + more).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_chose_stays_within_its_field() {
        assert_eq!(for_log(b"/a\r\n\"b\"\xff\x1b[0m"), r#"/a\r\n\"b\"\xff\x1b[0m"#);
        assert_eq!(for_log(b" a  b=1"), r"\x20a\x20\x20b=1");
        let long = [b'x'; MAX_LOGGED_LEN + 1];
        assert_eq!(for_log(&long[1..]).len(), MAX_LOGGED_LEN);
        assert!(for_log(&long).ends_with("x..."));
    }
}
