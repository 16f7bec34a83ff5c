//! What stands behind the first semicolon of a Content-Type or Content-Disposition, read.

/// How a value in quotes is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Quoting {
    /// A backslash takes the meaning from the character behind it (RFC 9110 §5.6.4).
    Backslash,
    /// A backslash is itself: what browsers write into form-data (WHATWG HTML, "multipart/form-data encoding algorithm").
    Plain,
}

/// A parameter: its name in lower case and its value without quotes; bytes.
pub(super) type Parameter = (Vec<u8>, Vec<u8>);

/// The value before the first semicolon in lower case, and the parameters in their order, repeated ones and all.
///
/// None where the text is not made like that: a quote that is not closed, a parameter without a value, anything behind
/// a closing quote.
pub(super) fn read(text: &[u8], quoting: Quoting) -> Option<(Vec<u8>, Vec<Parameter>)> {
    let first_end = text.iter().position(|&b| b == b';').unwrap_or(text.len());
    let value = text[..first_end].trim_ascii().to_ascii_lowercase();
    let mut parameters = Vec::new();
    let mut left = &text[first_end..];
    while let Some(rest) = left.strip_prefix(b";") {
        let rest = rest.trim_ascii_start();
        if rest.is_empty() || rest.starts_with(b";") {
            left = rest; // nothing between two semicolons or behind the last one
            continue;
        }
        let name_len = rest.iter().position(|&b| matches!(b, b'=' | b';' | b'"'))?;
        let name = rest[..name_len].trim_ascii_end().to_ascii_lowercase();
        let after = rest[name_len..].strip_prefix(b"=")?.trim_ascii_start();
        let (value, after) = if let Some(quoted) = after.strip_prefix(b"\"") {
            read_quoted(quoted, quoting)?
        } else {
            let len = after.iter().position(|&b| b == b';').unwrap_or(after.len());
            (after[..len].trim_ascii_end().to_vec(), &after[len..])
        };
        parameters.push((name, value));
        left = after.trim_ascii_start();
    }
    left.is_empty().then_some((value, parameters))
}

/// The value of a parameter, if it is there once.
pub(super) fn single<'a>(parameters: &'a [Parameter], name: &[u8]) -> Option<&'a [u8]> {
    let mut values = parameters.iter().filter(|(known, _)| known == name).map(|(_, value)| &value[..]);
    values.next().filter(|_| values.next().is_none())
}

/// What stands before the closing quote, and what follows it.
fn read_quoted(quoted: &[u8], quoting: Quoting) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut left = quoted;
    loop {
        left = match left {
            [b'"', rest @ ..] => return Some((value, rest)),
            [b'\\', escaped, rest @ ..] if quoting == Quoting::Backslash => {
                value.push(*escaped);
                rest
            }
            [plain, rest @ ..] => {
                value.push(*plain);
                rest
            }
            [] => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, quoting: Quoting) -> Option<String> {
        let (value, parameters) = read(text.as_bytes(), quoting)?;
        let shown = |(name, value): &Parameter| format!("{}=<{}>", name.escape_ascii(), value.escape_ascii());
        let parameters: Vec<String> = parameters.iter().map(shown).collect();
        Some(format!("{} {}", value.escape_ascii(), parameters.join(" ")))
    }

    #[test]
    fn values_and_parameters() {
        for (text, expected) in [
            ("inline", "inline "),
            ("Form-Data; Name=\"a;b\"; filename=c", "form-data name=<a;b> filename=<c>"),
            ("multipart/mixed;boundary = x ; type=\"text/plain\" ;", "multipart/mixed boundary=<x> type=<text/plain>"),
            ("a;; b=\"\"", "a b=<>"),
            ("a; b=", "a b=<>"),
            ("a; b=1; b=2", "a b=<1> b=<2>"),
        ] {
            assert_eq!(shown(text, Quoting::Backslash).as_deref(), Some(expected), "{text}");
        }
        for text in ["a; b", "a; b; c=1", "a; b=\"1", "a; b=\"1\"2", "a; b=\"1\\\"", "a; \"b\"=1"] {
            assert_eq!(shown(text, Quoting::Backslash), None, "{text}");
        }
    }

    #[test]
    fn a_backslash_counts_only_where_it_escapes() {
        let text = "a; b=\"x\\\\y\\\"z\"";
        assert_eq!(shown(text, Quoting::Backslash).as_deref(), Some("a b=<x\\\\y\\\"z>"));
        assert_eq!(shown(text, Quoting::Plain), None);
        assert_eq!(shown("a; b=\"x\\\"", Quoting::Plain).as_deref(), Some("a b=<x\\\\>"));
    }

    #[test]
    fn what_is_there_twice_is_nothing() {
        let (_, parameters) = read(b"a; b=1; c=2; c=2", Quoting::Backslash).expect("parameters");
        assert_eq!(single(&parameters, b"b"), Some(&b"1"[..]));
        assert_eq!((single(&parameters, b"c"), single(&parameters, b"d")), (None, None));
    }
}
