//! File names in `Content-Disposition`, so that every reader gets one and none is led astray.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 8187 lets stand in an extended value: attr-char.
const ATTR_CHAR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The longest plain file name in bytes: the longest that Linux's file systems hold.
const MAX_PLAIN_LEN: usize = 255;

/// The longest ASCII stand-in where the real name follows in `filename*`, in bytes.
const MAX_FALLBACK_LEN: usize = 64;

/// The longest extended value in bytes, so that a part's head stays within its bound. A longer name loses
/// characters before its extension.
const MAX_EXTENDED_LEN: usize = 320;

/// `inline` with a file name, if there is one, as RFC 6266 wants it: ASCII in quotes, and `filename*` where that is not all.
///
/// The quoted form never holds a quote, a backslash or a control character: readers disagree on how those
/// are escaped. A name that is not UTF-8 has the quoted form only, with `_` for what is not ASCII.
pub fn inline(name: Option<&[u8]>) -> String {
    let Some(name) = name else { return "inline".to_owned() };
    let plain = |b: u8| (0x20..0x7f).contains(&b) && !matches!(b, b'"' | b'\\');
    if name.len() <= MAX_PLAIN_LEN
        && name.iter().all(|&b| plain(b))
        && let Ok(name) = std::str::from_utf8(name)
    {
        return ["inline; filename=\"", name, "\""].concat(); // nearly always
    }
    let fallback: String = name.iter().map(|&b| if plain(b) { char::from(b) } else { '_' }).collect();
    let fallback = shorten(&fallback, MAX_FALLBACK_LEN, str::len);
    match std::str::from_utf8(name) {
        Ok(name) => {
            let name = shorten(name, MAX_EXTENDED_LEN, |text| utf8_percent_encode(text, ATTR_CHAR).map(str::len).sum());
            let extended = utf8_percent_encode(&name, ATTR_CHAR);
            format!("inline; filename=\"{fallback}\"; filename*=UTF-8''{extended}")
        }
        Err(_) => format!("inline; filename=\"{fallback}\""),
    }
}

/// `form-data` with the field's name and the file's, escaped as browsers do and their readers expect
/// (WHATWG HTML, "multipart/form-data encoding algorithm"): UTF-8 as it is, `%22`, `%0D` and `%0A`.
///
/// No `filename*`: RFC 7578 §4.2 forbids it and readers refuse it.
pub(crate) fn form_data(field: &[u8], name: Option<&[u8]>) -> String {
    let field = escape_form(field);
    let Some(name) = name else { return format!("form-data; name=\"{field}\"") };
    let name = escape_form(name);
    let name = shorten(&name, MAX_PLAIN_LEN, str::len);
    format!("form-data; name=\"{field}\"; filename=\"{name}\"")
}

fn escape_form(text: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => escaped.push_str("%22"),
                '\r' => escaped.push_str("%0D"),
                '\n' => escaped.push_str("%0A"),
                control if control.is_ascii_control() => escaped.push('_'),
                other => escaped.push(other),
            }
        }
        escaped.extend(chunk.invalid().iter().map(|_| '_'));
    }
    escaped
}

/// Cuts whole characters out before the extension until the measured length fits.
fn shorten(name: &str, max_len: usize, measure: impl Fn(&str) -> usize) -> Cow<'_, str> {
    if measure(name) <= max_len {
        return Cow::Borrowed(name);
    }
    // An extension longer than a quarter of the room is no extension.
    let extension = name.rfind('.').map_or("", |dot| &name[dot..]);
    let extension = if measure(extension) <= max_len / 4 { extension } else { "" };
    let mut stem = String::new();
    let mut left = max_len - measure(extension);
    for character in name[..name.len() - extension.len()].chars() {
        let cost = measure(character.encode_utf8(&mut [0; 4]));
        if cost > left {
            break;
        }
        left -= cost;
        stem.push(character);
    }
    Cow::Owned(stem + extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inline_name(name: &[u8]) -> String {
        inline(Some(name))
    }

    fn form(field: &[u8], name: &[u8]) -> String {
        form_data(field, Some(name))
    }

    #[test]
    fn plain_names_stand_as_they_are() {
        assert_eq!(inline_name(b"a b;c=%d.txt"), "inline; filename=\"a b;c=%d.txt\"");
    }

    #[test]
    fn other_names_come_twice() {
        for (name, expected) in [
            ("q\"uo\\te.txt", "inline; filename=\"q_uo_te.txt\"; filename*=UTF-8''q%22uo%5Cte.txt"),
            ("x\r\nX-Injected: 1", "inline; filename=\"x__X-Injected: 1\"; filename*=UTF-8''x%0D%0AX-Injected%3A%201"),
            ("ü日.txt", "inline; filename=\"_____.txt\"; filename*=UTF-8''%C3%BC%E6%97%A5.txt"),
            ("t\tb\x7f", "inline; filename=\"t_b_\"; filename*=UTF-8''t%09b%7F"),
        ] {
            assert_eq!(inline_name(name.as_bytes()), expected);
        }
        assert_eq!(inline_name(b"\xff\xfe.bin"), "inline; filename=\"__.bin\"");
    }

    #[test]
    fn forms_are_escaped_as_browsers_do() {
        assert_eq!(form(b"file1", b"a.txt"), "form-data; name=\"file1\"; filename=\"a.txt\"");
        assert_eq!(
            form("fileü".as_bytes(), b"q\"\r\n\\\t.txt"),
            "form-data; name=\"fileü\"; filename=\"q%22%0D%0A\\_.txt\""
        );
        assert_eq!(form(b"file", b"\xff\xfea.bin"), "form-data; name=\"file\"; filename=\"__a.bin\"");
    }

    #[test]
    fn long_names_keep_their_extension() {
        let name = format!("{}.txt", "日".repeat(85));
        let disposition = inline_name(name.as_bytes());
        assert!(disposition.len() < 30 + MAX_FALLBACK_LEN + 20 + MAX_EXTENDED_LEN, "{disposition}");
        assert!(disposition.ends_with("%E6%97%A5.txt"), "{disposition}");
        let plain = "x".repeat(MAX_PLAIN_LEN);
        assert!(inline_name(plain.as_bytes()).contains(&plain));
        assert!(!inline_name(format!("{plain}x").as_bytes()).contains(&format!("filename=\"{plain}")));
        assert_eq!(
            form(b"f", format!("{plain}.txt").as_bytes()).len(),
            "form-data; name=\"f\"; filename=\"\"".len() + 255
        );
    }
}
