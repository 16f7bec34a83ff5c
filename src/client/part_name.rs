//! The name that a part of a bundle is saved under.

use std::os::unix::ffi::OsStrExt as _;
use std::{
    ffi::OsStr,
    fmt::{self, Write as _},
    path::{Component, Path},
};

use thiserror::Error;

/// The longest name in bytes: Linux's `PATH_MAX` without its final NUL.
const MAX_NAME_LEN: usize = 4095;

/// A relative path that names a file: no component is empty, `.` or `..`. Bytes, not text.
///
/// Whoever made the bundle chose it, so what leads elsewhere is refused rather than mended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PartName(Vec<u8>);

/// Why bytes are not the name of a file to be written.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum NameError {
    /// It starts with a slash.
    #[error("an absolute name is not unpacked; ask for it without the slash at its start")]
    Absolute,
    /// It ends with a slash, or names nothing but directories.
    #[error("that is the name of a directory")]
    Directory,
    /// Nothing is there.
    #[error("the name is empty")]
    Empty,
    /// A component starts with a dot, as of what programs read without being asked.
    #[error("a name that starts with a dot is unpacked with --dotfiles only")]
    Hidden,
    /// No file name contains a NUL byte.
    #[error("the name contains a NUL byte")]
    Nul,
    /// It goes up with `..`.
    #[error("a name with .. is not unpacked")]
    Parent,
    /// A name without directories was needed.
    #[error("a file name with a slash is not unpacked")]
    Slash,
    /// Longer than 4,095 bytes.
    #[error("the name is longer than {MAX_NAME_LEN} bytes")]
    TooLong,
}

impl PartName {
    /// Reads a path. `.` and empty components mean nothing and are dropped.
    pub(super) fn parse(path: &[u8], dotfiles: bool) -> Result<Self, NameError> {
        if path.is_empty() {
            return Err(NameError::Empty);
        }
        if path.len() > MAX_NAME_LEN {
            return Err(NameError::TooLong);
        }
        if path.contains(&0) {
            return Err(NameError::Nul);
        }
        if path.starts_with(b"/") {
            return Err(NameError::Absolute);
        }
        let components: Vec<&[u8]> = path.split(|&b| b == b'/').collect();
        if components.contains(&&b".."[..]) {
            return Err(NameError::Parent);
        }
        if matches!(components.last(), Some(&(b"" | b"."))) {
            return Err(NameError::Directory);
        }
        let kept: Vec<&[u8]> = components.into_iter().filter(|component| !matches!(*component, b"" | b".")).collect();
        if !dotfiles && kept.iter().any(|component| component.starts_with(b".")) {
            return Err(NameError::Hidden);
        }
        Ok(Self(kept.join(&b'/')))
    }

    /// Reads a name without directories.
    pub(super) fn parse_flat(name: &[u8], dotfiles: bool) -> Result<Self, NameError> {
        if name.contains(&b'/') { Err(NameError::Slash) } else { Self::parse(name, dotfiles) }
    }

    /// The directories on the way, each as a path from the start; none for a name without any.
    pub(super) fn directories(&self) -> Vec<&Path> {
        let mut directories: Vec<&Path> = self.as_path().ancestors().skip(1).collect();
        directories.retain(|directory| matches!(directory.components().next(), Some(Component::Normal(_))));
        directories.reverse();
        directories
    }

    /// The last component.
    pub(super) fn file_name(&self) -> &OsStr {
        let start = self.0.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
        OsStr::from_bytes(&self.0[start..])
    }

    fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

/// Bytes that somebody else chose, for a terminal: what is no visible character is escaped, and a backslash too.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '"' | '\'' => f.write_char(character)?,
                    _ => write!(f, "{}", character.escape_debug())?,
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &[u8]) -> Result<String, NameError> {
        PartName::parse(name, false).map(|name| String::from_utf8_lossy(&name.0).into_owned())
    }

    #[test]
    fn a_relative_path_of_plain_components() {
        for (name, kept) in [
            ("a.txt", "a.txt"),
            ("sub/ü/c.txt", "sub/ü/c.txt"),
            ("./a.txt", "a.txt"),
            ("sub//./c.txt", "sub/c.txt"),
            ("a..b", "a..b"),
            ("a..", "a.."),
            ("n\nl \\ ~ $(x) -f", "n\nl \\ ~ $(x) -f"),
        ] {
            assert_eq!(parse(name.as_bytes()).as_deref(), Ok(kept), "{name}");
        }
        assert!(parse(b"\xff").is_ok());
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for (name, error) in [
            ("", NameError::Empty),
            ("/", NameError::Absolute),
            ("/etc/passwd", NameError::Absolute),
            ("//a", NameError::Absolute),
            ("..", NameError::Parent),
            ("../a", NameError::Parent),
            ("a/../b", NameError::Parent),
            ("a/..", NameError::Parent),
            ("a/", NameError::Directory),
            (".", NameError::Directory),
            ("a/.", NameError::Directory),
            ("a\0b", NameError::Nul),
            ("a/\0/../b", NameError::Nul),
        ] {
            assert_eq!(parse(name.as_bytes()), Err(error), "{name:?}");
            assert_eq!(PartName::parse(name.as_bytes(), true), Err(error), "{name:?}");
        }
        assert!(parse(&[b'a'; MAX_NAME_LEN]).is_ok());
        assert_eq!(parse(&[b'a'; MAX_NAME_LEN + 1]), Err(NameError::TooLong));
        assert_eq!(PartName::parse_flat(b"a/b", false), Err(NameError::Slash));
        assert!(PartName::parse_flat(b"a\\b", false).is_ok());
    }

    #[test]
    fn dotfiles_are_for_those_who_ask() {
        for name in [".bashrc", "sub/.git/hooks/pre-commit", "...", "..a", "./.a"] {
            assert_eq!(parse(name.as_bytes()), Err(NameError::Hidden), "{name}");
            assert!(PartName::parse(name.as_bytes(), true).is_ok(), "{name}");
        }
    }

    #[test]
    fn directories_come_from_the_start() {
        let name = PartName::parse(b"a/b/c.txt", false).expect("a name");
        assert_eq!(name.directories(), [Path::new("a"), Path::new("a/b")]);
        assert_eq!(name.file_name(), "c.txt");
        let name = PartName::parse(b"c.txt", false).expect("a name");
        assert_eq!((name.directories().len(), name.file_name()), (0, OsStr::new("c.txt")));
    }

    #[test]
    fn a_terminal_gets_visible_characters_only() {
        for (name, shown) in [
            (&b"a b\"'.txt"[..], "a b\"'.txt"),
            ("ü日.txt".as_bytes(), "ü日.txt"),
            (b"\x1b[2J\r\n\x07", "\\u{1b}[2J\\r\\n\\u{7}"),
            ("\u{202e}txt.\u{9b}".as_bytes(), "\\u{202e}txt.\\u{9b}"),
            (b"\xff\\", "\\xff\\\\"),
        ] {
            assert_eq!(Shown(name).to_string(), shown);
        }
    }
}
