//! The boundary of a multipart body (RFC 2046 §5.1.1), as a reader gets it.

use std::fmt;

use thiserror::Error;

use crate::bundle::parameters::{self, Quoting};

/// The longest boundary in bytes (RFC 2046 §5.1.1).
pub const MAX_BOUNDARY_LEN: usize = 70;

/// A boundary: 1 to 70 of the characters that RFC 2046 allows, the last one no space.
#[derive(Clone, Eq, PartialEq)]
pub struct Boundary(Vec<u8>);

/// Why there is no boundary.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum BoundaryError {
    /// Nothing stands there.
    #[error("the boundary is empty")]
    Empty,
    /// A character that RFC 2046 does not allow, or a space at the end.
    #[error("the boundary has a character that none may have")]
    Forbidden,
    /// The media type has no parameter of that name, or two, or cannot be read.
    #[error("the media type names no boundary")]
    Missing,
    /// The media type is not `multipart/*`.
    #[error("the media type is not multipart")]
    NotMultipart,
    /// More than [`MAX_BOUNDARY_LEN`] bytes.
    #[error("the boundary is longer than {MAX_BOUNDARY_LEN} bytes")]
    TooLong,
}

impl Boundary {
    /// Takes the boundary itself, without the dashes of its delimiter.
    pub fn parse(text: &[u8]) -> Result<Self, BoundaryError> {
        match text {
            [] => Err(BoundaryError::Empty),
            _ if text.len() > MAX_BOUNDARY_LEN => Err(BoundaryError::TooLong),
            [.., b' '] => Err(BoundaryError::Forbidden),
            _ if !text.iter().all(|&b| is_allowed(b)) => Err(BoundaryError::Forbidden),
            _ => Ok(Self(text.to_vec())),
        }
    }

    /// Takes the boundary out of the value of a Content-Type.
    pub fn from_content_type(value: &[u8]) -> Result<Self, BoundaryError> {
        let read = parameters::read(value, Quoting::Backslash);
        let multipart = |media_type: &[u8]| media_type.starts_with(b"multipart/");
        match read {
            Some((media_type, _)) if !multipart(&media_type) => Err(BoundaryError::NotMultipart),
            None if !multipart(&value.to_ascii_lowercase()) => Err(BoundaryError::NotMultipart),
            None => Err(BoundaryError::Missing),
            Some((_, parameters)) => {
                Self::parse(parameters::single(&parameters, b"boundary").ok_or(BoundaryError::Missing)?)
            }
        }
    }

    /// The boundary itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Boundary(\"{}\")", self.0.escape_ascii())
    }
}

/// RFC 2046's `bchars`.
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content_type: &str) -> Result<String, BoundaryError> {
        Boundary::from_content_type(content_type.as_bytes()).map(|b| b.as_bytes().escape_ascii().to_string())
    }

    #[test]
    fn it_stands_in_the_content_type() {
        for (content_type, boundary) in [
            ("multipart/mixed; boundary=8a1c-_x", "8a1c-_x"),
            ("Multipart/Form-Data;Boundary=\"a b:c\"", "a b:c"),
            ("multipart/related; type=\"text/html\"; boundary=x; start=y", "x"),
            ("multipart/byteranges; boundary=00000000000000000001", "00000000000000000001"),
        ] {
            assert_eq!(of(content_type).as_deref(), Ok(boundary), "{content_type}");
        }
        for (content_type, error) in [
            ("text/plain; boundary=x", BoundaryError::NotMultipart),
            ("text/plain; boundary=\"x", BoundaryError::NotMultipart),
            ("multipart/mixed", BoundaryError::Missing),
            ("multipart/mixed; boundary=\"x", BoundaryError::Missing),
            ("multipart/mixed; boundary=x; boundary=y", BoundaryError::Missing),
            ("multipart/mixed; boundary=", BoundaryError::Empty),
            ("multipart/mixed; boundary=\"x \"", BoundaryError::Forbidden),
            ("multipart/mixed; boundary=a;b", BoundaryError::Missing),
            ("multipart/mixed; boundary=\"a\tb\"", BoundaryError::Forbidden),
        ] {
            assert_eq!(of(content_type), Err(error), "{content_type}");
        }
    }

    #[test]
    fn it_has_70_bytes_at_most() {
        assert!(Boundary::parse(&[b'x'; MAX_BOUNDARY_LEN]).is_ok());
        assert_eq!(Boundary::parse(&[b'x'; MAX_BOUNDARY_LEN + 1]), Err(BoundaryError::TooLong));
        assert_eq!(Boundary::parse(b""), Err(BoundaryError::Empty));
        for text in [&b"a\r"[..], b"a\0", b"\xff", b"a@b", b" "] {
            assert_eq!(Boundary::parse(text), Err(BoundaryError::Forbidden), "{}", text.escape_ascii());
        }
    }
}
