//! Listening sockets: made with the right mode from their first moment, never at somebody else's cost.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use thiserror::Error;
use tracing::warn;

use crate::transport::Address;

/// How many connections may wait to be accepted. A full queue means an instant 502 in nginx, so it is
/// long; the kernel cuts it to `net.core.somaxconn` (4,096 since Linux 5.4).
pub const BACKLOG: i32 = 4096;

/// How often a lock is tried for, and how long in between: two seconds, far longer than a bind takes.
const LOCK_TRIES: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Who may connect to a unix socket.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// The mode of the socket's file. 0660 by default: whoever may write to it can forge REMOTE_ADDR.
    pub mode: u32,
    /// The group of the socket's file, by name or number; unchanged by default.
    pub group: Option<String>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { mode: 0o660, group: None }
    }
}

/// A socket that is being listened on.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    socket: Arc<OwnedFd>,
    origin: Origin,
}

/// Whose the socket is, and so what becomes of it.
#[derive(Debug)]
enum Origin {
    /// Ours, at a port.
    Port,
    /// Ours, with the file that binding made, so that no other is removed.
    File(SocketFile),
    /// A service manager's.
    Passed,
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    removed: AtomicBool,
}

/// Why an address cannot be listened on.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another process answers there.
    #[error("{0}: another process is listening there; stop it, or choose another address")]
    InUse(Address),
    /// The path is taken by something else.
    #[error("{}: there is something that is not a socket; it is left alone: move it, or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// The path's directory is missing.
    #[error("{address}: there is no directory {}; make it, or choose another path", .directory.display())]
    NoDirectory {
        /// Where.
        address: Address,
        /// What is missing.
        directory: PathBuf,
    },
    /// There is no such group.
    #[error("there is no group {0}; see getent group")]
    NoSuchGroup(String),
    /// The system refused.
    #[error("{address}: cannot {action}: {error}")]
    System {
        /// Where.
        address: Address,
        /// What was tried.
        action: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl Listener {
    /// Binds an address and listens on it.
    ///
    /// A socket file on which nobody listens any more is replaced; anything else at its place is left
    /// alone and is an error.
    pub fn bind(address: &Address, options: &SocketOptions) -> Result<Self, ListenError> {
        match address {
            Address::Tcp(ip) => {
                let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = stream_socket(family).map_err(system(address, "make a socket"))?;
                sockopt::set_socket_reuseaddr(&socket, true).map_err(system(address, "reuse the address"))?;
                match rustix::net::bind(&socket, ip).and_then(|()| rustix::net::listen(&socket, BACKLOG)) {
                    Err(Errno::ADDRINUSE) => Err(ListenError::InUse(address.clone())),
                    bound => {
                        bound.map_err(system(address, "listen"))?;
                        Ok(Self { address: address.clone(), socket: Arc::new(socket), origin: Origin::Port })
                    }
                }
            }
            Address::Unix(path) => Self::bind_unix(address, path, options),
        }
    }

    /// A socket that listens already, non-blocking, and belongs to somebody who keeps it open: a service manager.
    pub(super) fn passed(address: Address, socket: OwnedFd) -> Self {
        Self { address, socket: Arc::new(socket), origin: Origin::Passed }
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The socket to accept from.
    pub(super) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Whether connections that nobody has accepted wait for the next process, since the socket outlives this one.
    pub(super) fn outlives_us(&self) -> bool {
        matches!(self.origin, Origin::Passed)
    }

    /// Removes the socket's file, if it is still the one that was made: new connections fail at once, while
    /// those in the queue can still be accepted.
    pub(super) fn withdraw(&self) {
        let Origin::File(made) = &self.origin else { return };
        if made.removed.swap(true, Ordering::Relaxed) {
            return;
        }
        let ours =
            fs::symlink_metadata(&made.path).is_ok_and(|found| (found.dev(), found.ino()) == (made.device, made.inode));
        if ours {
            // If it cannot be removed, the next start finds that nobody listens there.
            let _ = fs::remove_file(&made.path);
        }
    }

    fn bind_unix(address: &Address, path: &Path, options: &SocketOptions) -> Result<Self, ListenError> {
        let group = options.group.as_deref().map(group_id).transpose()?;
        let name = SocketAddrUnix::new(path).map_err(system(address, "use the path"))?;
        let directory = directory_of(path);
        if !directory.is_dir() {
            return Err(ListenError::NoDirectory { address: address.clone(), directory: directory.to_owned() });
        }
        // Two processes that start at once must not both find a dead socket and remove the other's new one.
        let _lock = lock_directory(directory).map_err(system(address, "lock the directory"))?;
        clear_place(address, path, &name)?;
        let socket = stream_socket(AddressFamily::UNIX).map_err(system(address, "make a socket"))?;
        // For the moment between bind and chmod nobody else may connect, whatever the umask was.
        let umask = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = rustix::net::bind(&socket, &name);
        rustix::process::umask(umask);
        bound.map_err(system(address, "make a socket there"))?;
        let found = fs::symlink_metadata(path).map_err(system(address, "look at the socket"))?;
        let made = SocketFile {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            removed: AtomicBool::new(false),
        };
        // From here on a failure removes the file.
        let listener = Self { address: address.clone(), socket: Arc::new(socket), origin: Origin::File(made) };
        if let Some(group) = group {
            rustix::fs::chownat(CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(system(address, "change the socket's group (be root, or a member of it)"))?;
        }
        rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(options.mode), AtFlags::empty())
            .map_err(system(address, "change the socket's mode"))?;
        rustix::net::listen(&listener.socket, BACKLOG).map_err(system(address, "listen"))?;
        Ok(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// Makes sure that nothing is at a socket's place, or says what is.
fn clear_place(address: &Address, path: &Path, name: &SocketAddrUnix) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(address, "look at the path")(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(ListenError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    let probe = stream_socket(AddressFamily::UNIX).map_err(system(address, "make a socket"))?;
    match rustix::net::connect(&probe, name) {
        // Left behind by a process that was killed.
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(system(address, "remove the dead socket")),
        // A full queue, too, belongs to somebody who is alive.
        Ok(()) | Err(Errno::AGAIN) => Err(ListenError::InUse(address.clone())),
        Err(error) => Err(system(address, "find out whether somebody listens")(error)),
    }
}

/// A lock on a directory, until it is dropped; None where it cannot be had: then two that start at the same moment are
/// on their own.
fn lock_directory(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        // A directory that may be written to and not be read: then without the lock.
        Err(Errno::ACCESS) => return Ok(None),
        opened => opened?,
    };
    // Others hold it for as long as a bind takes. Whoever holds it longer is not one of us.
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) => std::thread::sleep(LOCK_PAUSE),
            locked => return locked.map(|()| Some(directory)).map_err(Into::into),
        }
    }
    warn!(path = %path.display(), "somebody holds a lock on the socket's directory; going on without it");
    Ok(None)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn stream_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

fn group_id(group: &str) -> Result<Gid, ListenError> {
    let number = group.parse().ok().or_else(|| uzers::get_group_by_name(group).map(|found| found.gid()));
    number.map(Gid::from_raw).ok_or_else(|| ListenError::NoSuchGroup(group.to_owned()))
}

fn system<E: Into<io::Error>>(address: &Address, action: &'static str) -> impl FnOnce(E) -> ListenError {
    let address = address.clone();
    move |error| ListenError::System { address, action, error: error.into() }
}
