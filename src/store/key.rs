//! The name of a file beneath the root.

use std::os::unix::ffi::OsStrExt as _;
use std::{ffi::OsStr, fmt, path::Path};

use bytes::Bytes;
use thiserror::Error;

/// The longest name in bytes: Linux's `PATH_MAX` without its final NUL.
pub const MAX_KEY_LEN: usize = 4095;

/// A relative name without empty or `.` components. Names are bytes, not text.
///
/// `..` may occur and is resolved by the kernel, which refuses to go above the root (`openat2` with
/// `RESOLVE_BENEATH`). A name in the style of an absolute path is taken from the root.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Key(Bytes);

/// Why bytes are not the name of a file that may be served.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum KeyError {
    /// Nothing was named.
    #[error("the name is empty")]
    Empty,
    /// A component starts with a dot, and such files are not served.
    #[error("not found")]
    Hidden,
    /// No file name contains a NUL byte.
    #[error("the name contains a NUL byte")]
    Nul,
    /// Longer than [`MAX_KEY_LEN`].
    #[error("the name is longer than {MAX_KEY_LEN} bytes")]
    TooLong,
}

impl Key {
    /// Reads a name.
    ///
    /// With `dotfiles` false, a component that starts with a dot is refused, whether or not there is such a
    /// file.
    pub fn parse(name: &Bytes, dotfiles: bool) -> Result<Self, KeyError> {
        if name.is_empty() {
            return Err(KeyError::Empty);
        }
        if name.len() > MAX_KEY_LEN {
            return Err(KeyError::TooLong);
        }
        if name.contains(&0) {
            return Err(KeyError::Nul);
        }
        let dropped = |component: &&[u8]| matches!(*component, b"" | b".");
        let components = || name.split(|&b| b == b'/');
        let hidden = |component: &[u8]| component.starts_with(b".") && component != b"..";
        if !dotfiles && components().filter(|c| !dropped(c)).any(hidden) {
            return Err(KeyError::Hidden);
        }
        if !components().any(|component| dropped(&component)) {
            return Ok(Self(name.clone())); // nearly always: no copy
        }
        let kept: Vec<&[u8]> = components().filter(|c| !dropped(c)).collect();
        // What names nothing is the root itself, which is no regular file.
        Ok(Self(if kept.is_empty() { Bytes::from_static(b".") } else { kept.join(&b'/').into() }))
    }

    /// The whole name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The whole name, sharing its memory.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// The name as a path, relative to the root.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(\"{}\")", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &[u8]) -> Result<String, KeyError> {
        Key::parse(&Bytes::copy_from_slice(name), false).map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned())
    }

    #[test]
    fn empty_and_dot_components_are_dropped() {
        for (name, key) in [
            ("a.txt", "a.txt"),
            ("./a.txt", "a.txt"),
            ("sub//./c.txt", "sub/c.txt"),
            ("/etc/hostname", "etc/hostname"),
            ("sub/../a.txt", "sub/../a.txt"),
            ("..", ".."),
            (".", "."),
            ("//", "."),
        ] {
            assert_eq!(parse(name.as_bytes()).as_deref(), Ok(key), "{name}");
        }
    }

    #[test]
    fn hidden_names_are_refused_unless_asked_for() {
        for name in [".env", "sub/.git/config", "./.a", "...", "..a"] {
            assert_eq!(parse(name.as_bytes()), Err(KeyError::Hidden), "{name}");
            assert!(Key::parse(&Bytes::from(name), true).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_a_name_is_refused() {
        assert_eq!(parse(b""), Err(KeyError::Empty));
        assert_eq!(parse(b"a\0b"), Err(KeyError::Nul));
        assert!(parse(&[b'a'; MAX_KEY_LEN]).is_ok());
        assert_eq!(parse(&[b'a'; MAX_KEY_LEN + 1]), Err(KeyError::TooLong));
    }
}
