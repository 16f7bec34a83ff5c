//! The operations a connection needs of its socket, and the kernel's sockets with them.

use std::{
    io,
    ops::RangeInclusive,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{Arc, OnceLock},
};

use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};
use tokio::io::{Interest, unix::AsyncFd};

/// The answers that a larger send buffer takes whole, in bytes: up to the first a socket has room as it is, beyond the
/// second they have to wait anyway, and a larger buffer was measured to cost more than it saved.
const TAKEN_WHOLE_LEN: RangeInclusive<u64> = 128 * 1024 + 1..=400 * 1024;

/// How much room is asked for those. The kernel doubles it for its own use, so this is 416 KiB instead of 208;
/// unprivileged processes get no more by default (`net.core.wmem_max`). It is what a reader that stalls keeps in the
/// kernel, of files as references to their pages.
pub const SEND_BUFFER_LEN: usize = 208 * 1024;

/// A connected stream socket.
///
/// The plain calls never wait: they fail with [`WouldBlock`](io::ErrorKind::WouldBlock) instead, and
/// [`when_readable`](Self::when_readable) and [`when_writable`](Self::when_writable) try again once that may
/// have changed. So no large buffer has to live while a connection waits.
pub trait Socket: Send + Sync {
    /// Reads into `buffer`; 0 at the end of the stream.
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes some of `bytes`.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes some of a file's bytes without copying them through our memory. 0 means that the file ends.
    ///
    /// Fails with [`Unsupported`](io::ErrorKind::Unsupported) or [`InvalidInput`](io::ErrorKind::InvalidInput)
    /// where it cannot: then the caller reads and [sends](Self::send).
    fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<usize>;

    /// Hears how much is going to be sent, and may make room for it. A hint: nothing depends on it.
    fn expect_to_send(&self, len: u64) {
        let _ = len;
    }

    /// Says that nothing more will be sent.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Runs `attempt` until it gives something else than `WouldBlock`, waiting for input in between.
    ///
    /// Cancel safety: safe; nothing is lost between two attempts.
    fn when_readable<T: Send>(
        &self,
        attempt: impl FnMut() -> io::Result<T> + Send,
    ) -> impl Future<Output = io::Result<T>> + Send;

    /// Runs `attempt` until it gives something else than `WouldBlock`, waiting for room before each time: for a caller
    /// that has just been refused.
    ///
    /// Cancel safety: safe for the socket; what an attempt has sent is sent.
    fn when_writable<T: Send>(
        &self,
        attempt: impl FnMut() -> io::Result<T> + Send,
    ) -> impl Future<Output = io::Result<T>> + Send;
}

/// A unix or TCP stream socket of the kernel, non-blocking.
///
/// The runtime hears of it only once it has to wait: a request that is there when its connection is
/// accepted, and whose answer fits into the socket's buffer, costs no registration and no wake-up.
#[derive(Debug)]
pub struct StreamSocket {
    descriptor: Arc<OwnedFd>,
    registered: OnceLock<AsyncFd<Arc<OwnedFd>>>,
}

impl StreamSocket {
    /// Takes a connected socket that is in non-blocking mode.
    pub fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor: Arc::new(descriptor), registered: OnceLock::new() }
    }

    /// Runs `attempt` whenever the runtime says that it may come to something, until it does.
    async fn when<T>(&self, interest: Interest, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        if self.registered.get().is_none() {
            let registered = watch(Arc::clone(&self.descriptor))?;
            // One task uses a socket, so nobody was faster.
            let _ = self.registered.set(registered);
        }
        let registered = self.registered.get().ok_or(io::ErrorKind::NotConnected)?;
        loop {
            let mut ready = registered.ready(interest).await?;
            // Only WouldBlock clears readiness; any other result ends the loop.
            if let Ok(result) = ready.try_io(|_| attempt()) {
                return result;
            }
        }
    }
}

/// Lets the runtime tell when a descriptor is ready. Must run within a tokio runtime.
pub fn watch(descriptor: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe: it wants the descriptor to stay open and the same while it is watched, \
                  which an owned descriptor behind an Arc is by its type"
    )]
    AsyncFd::new(descriptor)
}

impl Socket for StreamSocket {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, count) = rustix::net::recv(&self.descriptor, buffer, RecvFlags::DONTWAIT)?;
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<usize> {
        let mut offset = offset;
        Ok(rustix::fs::sendfile(&self.descriptor, file, Some(&mut offset), count)?)
    }

    fn expect_to_send(&self, len: u64) {
        if TAKEN_WHOLE_LEN.contains(&len) {
            // The kernel gives what `net.core.wmem_max` allows.
            let _ = sockopt::set_socket_send_buffer_size(&self.descriptor, SEND_BUFFER_LEN);
        }
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.descriptor, Shutdown::Write)?)
    }

    async fn when_readable<T: Send>(&self, mut attempt: impl FnMut() -> io::Result<T> + Send) -> io::Result<T> {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        self.when(Interest::READABLE, attempt).await
    }

    async fn when_writable<T: Send>(&self, attempt: impl FnMut() -> io::Result<T> + Send) -> io::Result<T> {
        self.when(Interest::WRITABLE, attempt).await
    }
}
