//! The query string as form data (WHATWG URL §5.1): `key=value&key=value`, plus is a space, `%XX` once.

use std::borrow::Cow;

use thiserror::Error;

/// Why a query is not form data.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum FormError {
    /// A percent sign that is not followed by two hexadecimal digits.
    #[error("a percent sign is not followed by two hexadecimal digits; write %25 for the sign itself")]
    StrayPercent,
}

/// A decoded pair; bytes, because file names are.
pub type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The pairs of a query, in order, repeated keys and all.
///
/// Empty pairs (`a=1&&b=2&`) are skipped, a pair without `=` has an empty value, and only `&` separates.
/// Stricter than browsers in one point: a stray percent sign is an error, since the name it was meant to
/// be part of cannot be known.
pub fn decode_form(query: &[u8]) -> impl Iterator<Item = Result<Pair<'_>, FormError>> {
    query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let equals = pair.iter().position(|&b| b == b'=');
        let (key, value) = equals.map_or((pair, &[][..]), |at| (&pair[..at], &pair[at + 1..]));
        Ok((decode_component(key)?, decode_component(value)?))
    })
}

fn decode_component(text: &[u8]) -> Result<Cow<'_, [u8]>, FormError> {
    if !text.iter().any(|b| matches!(b, b'%' | b'+')) {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut left = text;
    while let [first, rest @ ..] = left {
        left = rest;
        decoded.push(match (first, rest) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => {
                left = after;
                hex_digit(*high)? << 4 | hex_digit(*low)?
            }
            (b'%', _) => return Err(FormError::StrayPercent),
            (other, _) => *other,
        });
    }
    Ok(Cow::Owned(decoded))
}

fn hex_digit(byte: u8) -> Result<u8, FormError> {
    let digit = char::from(byte).to_digit(16).ok_or(FormError::StrayPercent)?;
    Ok(u8::try_from(digit).expect("a hexadecimal digit is below 16"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(query: &str) -> Vec<(String, String)> {
        let text = |bytes: Cow<'_, [u8]>| String::from_utf8_lossy(&bytes).into_owned();
        decode_form(query.as_bytes()).map(|pair| pair.map(|(k, v)| (text(k), text(v))).expect("form data")).collect()
    }

    #[test]
    fn pairs_keep_their_order_and_their_repeats() {
        let expect = |query, pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(decoded(query), pairs, "{query}");
        };
        expect("", &[]);
        expect("&&", &[]);
        expect("b=2&a=1&b=3", &[("b", "2"), ("a", "1"), ("b", "3")]);
        expect("a=1&&b=2&", &[("a", "1"), ("b", "2")]);
        expect("a&b=", &[("a", ""), ("b", "")]);
        expect("a=b=c", &[("a", "b=c")]);
        expect("a=1;b=2", &[("a", "1;b=2")]);
    }

    #[test]
    fn decoding_happens_once() {
        let value = |query: &str| decoded(query).remove(0).1;
        assert_eq!(value("a=p+q"), "p q");
        assert_eq!(value("a=p%2Bq"), "p+q");
        assert_eq!(value("a=100%2525.txt"), "100%25.txt");
        assert_eq!(value("a=%61%2f"), "a/");
        assert_eq!(decoded("%61%3D=1"), [("a=".into(), "1".into())]);
    }

    #[test]
    fn a_stray_percent_is_an_error() {
        for query in ["a=%", "a=%2", "a=%zz", "a=1%", "%=1", "a=%+1", "a=%%41"] {
            assert_eq!(decode_form(query.as_bytes()).next(), Some(Err(FormError::StrayPercent)), "{query}");
        }
    }

    proptest! {
        #[test]
        fn whatever_was_encoded_comes_back(key in "[^&=%+]{1,20}", value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut query = key.clone().into_bytes();
            query.push(b'=');
            for byte in &value {
                query.extend_from_slice(format!("%{byte:02x}").as_bytes());
            }
            let pair = decode_form(&query).next().expect("one pair").expect("form data");
            prop_assert_eq!(pair.0.as_ref(), key.as_bytes());
            prop_assert_eq!(pair.1.as_ref(), &value[..]);
        }

        #[test]
        fn no_query_panics(query in proptest::collection::vec(any::<u8>(), 0..200)) {
            decode_form(&query).for_each(drop);
        }
    }
}
