//! Listening sockets that a service manager has made: socket activation, as in `sd_listen_fds(3)`.
//!
//! The manager binds and listens, and hands the sockets on as descriptors from 3 on. They stay when this process
//! ends: what has queued up there is for the next one.

use std::{
    env, io,
    net::TcpListener,
    os::{
        fd::{AsFd, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::net::SocketAddr,
    },
    path::PathBuf,
};

use listenfd::ListenFd;
use rustix::net::sockopt;
use thiserror::Error;

use crate::{server::Listener, transport::Address};

/// The name for a socket that speaks uwsgi.
const UWSGI: &str = "uwsgi";

/// What `sd_listen_fds_with_names(3)` calls a socket that has no name.
const NO_NAME: &str = "unknown";

/// The end of a socket unit's name, which is its sockets' name where the unit gives no other.
const UNIT_SUFFIX: &str = ".socket";

/// Why the sockets of a service manager cannot be listened on.
#[derive(Debug, Error)]
pub enum PassedError {
    /// The variables are no numbers, or there are not that many descriptors or names.
    #[error(
        "cannot take the listening sockets that were passed (LISTEN_FDS={count}): {error}; there must be as many open \
         descriptors from 3 on, and a name for each in LISTEN_FDNAMES or none at all"
    )]
    Variables {
        /// What `LISTEN_FDS` says.
        count: String,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The sockets are said to be elsewhere.
    #[error("LISTEN_FDS_FIRST_FD is set; unset it and pass the sockets from descriptor 3 on")]
    Elsewhere,
    /// The socket is for a protocol that is not there, or that nobody knows.
    #[error(
        "descriptor {descriptor}, which was passed to listen on, is named {name:?}, and this version speaks uwsgi only; \
         in the socket unit, write FileDescriptorName=uwsgi"
    )]
    Protocol {
        /// Which.
        descriptor: usize,
        /// How it is called.
        name: String,
    },
    /// The descriptor is something else than a listening stream socket.
    #[error(
        "descriptor {descriptor}, which was passed to listen on, is no listening stream socket, unix or TCP: {cause}; \
         in the socket unit, write ListenStream= and Accept=no"
    )]
    Kind {
        /// Which.
        descriptor: usize,
        /// What it is instead.
        cause: String,
    },
}

/// Takes the listening sockets that the service manager has passed to this process, non-blocking and close-on-exec.
///
/// None where there are no `LISTEN_…` variables, or those of another process (`LISTEN_PID`). A socket is for uwsgi
/// where it is named so, after its unit (`axon.socket`), or not at all.
///
/// Removes `LISTEN_PID` and `LISTEN_FDS` from the environment, and makes descriptors its own that nobody else may be
/// using: call it once, first thing in `main`, before there is another thread.
pub fn passed_listeners() -> Result<Vec<Listener>, PassedError> {
    let count = env::var("LISTEN_FDS").unwrap_or_default();
    let variables = |error| PassedError::Variables { count: count.clone(), error };
    // Looks at the variables, and whether those descriptors are open. The numbers are all it can give without
    // unsafe code; listenfd makes owned sockets of them, but believes whatever the variables say.
    let passed: Vec<_> = sd_notify::listen_fds_with_names().map_err(variables)?.collect();
    if passed.is_empty() {
        return Ok(Vec::new());
    }
    if env::var_os("LISTEN_FDS_FIRST_FD").is_some() {
        return Err(PassedError::Elsewhere);
    }
    let mut sockets = ListenFd::from_env();
    let take = |(index, (descriptor, name)): (usize, (i32, String))| {
        let descriptor = usize::try_from(descriptor).unwrap_or_default(); // never negative: they are counted from 3
        speaks_uwsgi(&name).then_some(()).ok_or(PassedError::Protocol { descriptor, name })?;
        take(&mut sockets, index).map_err(|cause| PassedError::Kind { descriptor, cause })
    };
    passed.into_iter().enumerate().map(take).collect()
}

fn speaks_uwsgi(name: &str) -> bool {
    matches!(name, UWSGI | NO_NAME | "") || name.ends_with(UNIT_SUFFIX)
}

/// Takes one socket, or says what it is instead.
fn take(sockets: &mut ListenFd, index: usize) -> Result<Listener, String> {
    let said = |error: io::Error| error.to_string();
    if let Ok(Some(socket)) = sockets.take_unix_listener(index) {
        listening(&socket)?;
        socket.set_nonblocking(true).map_err(said)?;
        let address = socket.local_addr().map_err(said)?;
        return Ok(Listener::passed(unix_address(&address), OwnedFd::from(socket)));
    }
    // Its complaint also tells what is no socket at all.
    let socket: Option<TcpListener> = sockets.take_tcp_listener(index).map_err(said)?;
    let socket = socket.ok_or("it was taken already")?;
    listening(&socket)?;
    socket.set_nonblocking(true).map_err(said)?;
    let address = socket.local_addr().map_err(said)?;
    Ok(Listener::passed(Address::Tcp(address), OwnedFd::from(socket)))
}

/// A socket that does not listen would never have a connection, nor say so.
fn listening(socket: impl AsFd) -> Result<(), String> {
    match sockopt::socket_acceptconn(socket) {
        Ok(true) => Ok(()),
        Ok(false) => Err("it does not listen".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// The address for the log. One without a file is written as others write it, with an `@`.
fn unix_address(address: &SocketAddr) -> Address {
    let path = address.as_pathname().map(PathBuf::from);
    let abstract_name = || format!("@{}", address.as_abstract_name().unwrap_or_default().escape_ascii());
    Address::Unix(path.unwrap_or_else(|| abstract_name().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_uwsgi_unless_it_says_otherwise() {
        for name in ["uwsgi", "", "unknown", "axon.socket", "axon@1.socket"] {
            assert!(speaks_uwsgi(name), "{name}");
        }
        for name in ["http", "fastcgi", "uwsgi2", "UWSGI", "stored", "connection"] {
            assert!(!speaks_uwsgi(name), "{name}");
        }
    }
}
