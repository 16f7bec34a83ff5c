//! Where a socket is, in nginx's own spelling.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use thiserror::Error;

/// The longest path of a unix socket in bytes: `sun_path` without its final NUL (unix(7)).
pub const MAX_SOCKET_PATH_LEN: usize = 107;

/// `unix:/run/axon/axon.sock` or `127.0.0.1:3031`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Address {
    /// A port of an IP address.
    Tcp(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
}

/// Why a text is no address.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum AddressError {
    /// Neither of the two forms.
    #[error("write unix:/path/to/socket, or an IP address and a port such as 127.0.0.1:3031")]
    Form,
    /// The kernel takes no longer path.
    #[error("the path of a unix socket has at most {MAX_SOCKET_PATH_LEN} bytes, this one has {0}")]
    PathTooLong(usize),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some(path) = text.strip_prefix("unix:") else {
            return text.parse().map(Self::Tcp).map_err(|_| AddressError::Form);
        };
        match path.len() {
            0 => Err(AddressError::Form),
            len if len > MAX_SOCKET_PATH_LEN => Err(AddressError::PathTooLong(len)),
            _ => Ok(Self::Unix(path.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_come_back_as_they_were() {
        for text in ["unix:/run/axon/axon.sock", "unix:./axon.sock", "127.0.0.1:3031", "[::1]:3031"] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn anything_else_says_what_to_write() {
        for text in ["", "unix:", "/run/axon.sock", "localhost:3031", "127.0.0.1", ":3031", "http://127.0.0.1:1"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError::Form), "{text}");
        }
        let path = |len| format!("unix:{}", "x".repeat(len)).parse::<Address>();
        assert!(path(MAX_SOCKET_PATH_LEN).is_ok());
        assert_eq!(path(MAX_SOCKET_PATH_LEN + 1), Err(AddressError::PathTooLong(108)));
    }
}
