//! Writing a body: which system call is used is decided here and nowhere else.
//!
//! Heads, delimiters and small files are gathered into one buffer and leave in one call; larger files go
//! from the page cache to the socket with `sendfile`. The buffer belongs to the worker: what the socket
//! did not take is gathered again later, so a stalled connection holds next to no content.
//!
//! No call waits for a disk: whether data is in memory is asked first (`preadv2` with `RWF_NOWAIT`), of every byte that
//! is copied and of both ends of every chunk that is not, and what is not in memory is read on the blocking pool. A file
//! system that does not know the question (FUSE and others) counts as one whose data is never in memory.

use std::{
    cell::RefCell,
    io::{self, IoSliceMut},
    ops::Range,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

use rustix::io::{Errno, ReadWriteFlags};
use thiserror::Error;
use tokio::time::timeout;

use crate::{
    blocking,
    body::{Body, Content, ContentError, FileRange, Segment, Wait},
    transport::{Activity, Socket, TransportOptions, disk, recent},
};

/// From this size on a file is not copied into the gathered buffer but sent with `sendfile`, which costs
/// a system call of its own.
const SENDFILE_MIN_LEN: u64 = 16 * 1024 + 1;

/// How many calls a connection may make before the others of its worker get a turn. A fast reader of a
/// file in memory is always ready: without a bound it would starve them.
const CALLS_PER_TURN: u32 = 16;

/// A reader that has taken nothing for this long counts as stalled: no pause of one that reads lasts as long, unless it
/// is very slow.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How much of a chunk that had to be read from the disk is kept while a reader takes nothing.
const KEPT_COLD_LEN: usize = 4096;

/// Bytes of this length or less are not begun where they do not fit any more.
const SHORT_LEN: usize = 100;

thread_local! {
    /// What a worker gathers into.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why a body was not sent whole.
#[derive(Debug, Error)]
pub enum SendError {
    /// A file could not be read as it was promised.
    #[error("{parameter}: {error}")]
    Content {
        /// The request parameter that named the file.
        parameter: String,
        /// What happened to it.
        error: ContentError,
    },
    /// The peer closed the connection.
    #[error("the peer is gone: {0}")]
    Peer(io::Error),
    /// The peer took nothing for as long as it may.
    #[error("the peer took nothing in time")]
    Stalled,
}

/// Sends a whole body; `progress` is told of every count of bytes that the kernel took, `activity` of what it took to
/// get there.
///
/// After an error nothing more may be sent: the peer must be able to see that the answer is not whole.
/// Cancel safety: part of the body may be on the wire; the connection can only be closed.
pub async fn send(
    socket: &impl Socket,
    body: &mut Body,
    options: &TransportOptions,
    activity: &Activity,
    mut progress: impl FnMut(u64) + Send,
) -> Result<(), SendError> {
    socket.expect_to_send(body.len());
    let sendfile = options.sendfile;
    let mut sender = Sender { socket, options, activity, sendfile, open: None, calls: 0, fetched_to: u64::MAX };
    while !body.is_empty() {
        let count = sender.send_some(body).await?;
        progress(count);
        body.advance(count);
        sender.calls += 1;
        if sender.calls >= CALLS_PER_TURN {
            sender.calls = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

struct Sender<'a, S> {
    socket: &'a S,
    options: &'a TransportOptions,
    activity: &'a Activity,
    /// Off once the kernel said that it cannot.
    sendfile: bool,
    /// The file that is being sent, so that it is opened once.
    open: Option<Open>,
    calls: u32,
    /// How much of the body lies behind the last file that was fetched ahead.
    fetched_to: u64,
}

struct Open {
    content: Arc<dyn Content>,
    descriptor: Arc<OwnedFd>,
    /// What of it was in memory when it was last looked at.
    warm: Range<u64>,
}

/// What one attempt came to.
enum Attempt {
    Sent(usize),
    /// The next bytes are not in memory.
    Cold,
    Failed(SendError),
    /// The kernel cannot send this file by itself.
    NoSendfile,
}

impl<S: Socket> Sender<'_, S> {
    /// Sends at least one byte of the front of the body.
    async fn send_some(&mut self, body: &Body) -> Result<u64, SendError> {
        loop {
            let attempt = match body.front() {
                Some(Segment::File(range)) if self.sendfile && range.len >= SENDFILE_MIN_LEN => {
                    self.send_file(range).await?
                }
                _ => self.send_gathered(body).await?,
            };
            match attempt {
                Attempt::Sent(count) => return Ok(count as u64),
                Attempt::Failed(error) => return Err(error),
                Attempt::NoSendfile => self.sendfile = false,
                Attempt::Cold => {
                    let Some(Segment::File(range)) = body.front() else {
                        return Err(SendError::Peer(io::Error::other("only files are ever cold")));
                    };
                    return self.send_cold(range, body).await;
                }
            }
        }
    }

    /// One `sendfile`, unless it would have to wait for the disk.
    async fn send_file(&mut self, range: &FileRange) -> Result<Attempt, SendError> {
        let descriptor = match open_now(range, self.open.as_ref()) {
            Ok(descriptor) => descriptor,
            Err(ContentError::WouldWait) => return Ok(Attempt::Cold),
            Err(error) => return Err(content_error(range, error)),
        };
        let known = self.open.as_ref().filter(|open| Arc::ptr_eq(&open.content, &range.content));
        let mut warm = known.map_or(0..0, |open| open.warm.clone());
        let count = range.len.min(self.options.chunk_size as u64) as usize;
        let attempt = self.attempt(|| {
            let chunk = range.offset..range.offset + count as u64;
            match look(range, &descriptor, &chunk, &mut warm) {
                Ok(true) => {}
                Ok(false) => return Ok(Attempt::Cold),
                Err(error) => return Ok(Attempt::Failed(error)),
            }
            if count as u64 == range.len
                && let Err(error) = range.content.check(&descriptor)
            {
                return Ok(Attempt::Failed(content_error(range, error)));
            }
            match self.socket.send_file(descriptor.as_fd(), range.offset, count) {
                Ok(0) => Ok(Attempt::Failed(shrunk(range, &descriptor))),
                Ok(count) => Ok(Attempt::Sent(count)),
                Err(error) => match error.kind() {
                    io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput => Ok(Attempt::NoSendfile),
                    io::ErrorKind::WouldBlock => {
                        // Nobody knows how long the wait will be: what is in memory now may be gone by then.
                        warm = 0..0;
                        Err(error)
                    }
                    _ if is_of_the_peer(&error) => Err(error),
                    // Whatever else one call over a file and a socket reports is of the file.
                    _ => Ok(Attempt::Failed(content_error(range, ContentError::Io(error)))),
                },
            }
        });
        let attempt = attempt.await?;
        self.open = Some(Open { content: Arc::clone(&range.content), descriptor, warm });
        Ok(attempt)
    }

    /// One write of as many segments as fit a chunk.
    async fn send_gathered(&mut self, body: &Body) -> Result<Attempt, SendError> {
        let open = self.open.as_ref();
        self.attempt(|| {
            GATHERED.with_borrow_mut(|buffer| {
                buffer.resize(self.options.chunk_size, 0);
                let count = match gather(body, buffer, open, self.sendfile) {
                    Ok(0) => return Ok(Attempt::Cold),
                    Ok(count) => count,
                    Err(error) => return Ok(Attempt::Failed(error)),
                };
                self.socket.send(&buffer[..count]).map(Attempt::Sent)
            })
        })
        .await
    }

    /// Reads a chunk on the blocking pool and writes what the socket takes of it; the files behind it are fetched
    /// meanwhile.
    async fn send_cold(&mut self, range: &FileRange, body: &Body) -> Result<u64, SendError> {
        self.activity.add_cold_read();
        let wanted = range.clone();
        let count = range.len.min(self.options.chunk_size as u64) as usize;
        let open = self.open.take().filter(|open| Arc::ptr_eq(&open.content, &range.content));
        let open = open.map(|open| open.descriptor);
        self.read_ahead(body);
        let read = blocking::run(range.content.disk(), move || disk::read(&wanted, open, count)).await;
        let read = read.unwrap_or_else(|error| Err(ContentError::Io(io::Error::other(error))));
        let (descriptor, mut chunk) = read.map_err(|error| content_error(range, error))?;
        self.open = Some(Open { content: Arc::clone(&range.content), descriptor, warm: 0..0 });
        match self.socket.send(&chunk) {
            Ok(count) if count > 0 => return Ok(count as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) => return Err(SendError::Peer(io::ErrorKind::WriteZero.into())),
            Err(error) => return Err(SendError::Peer(error)),
        }
        // A reader that takes nothing must not make us hold content: most of the chunk is read again when it goes on.
        chunk.truncate(KEPT_COLD_LEN);
        chunk.shrink_to_fit();
        match self.attempt(|| self.socket.send(&chunk).map(Attempt::Sent)).await? {
            Attempt::Sent(count) => Ok(count as u64),
            _ => Err(SendError::Peer(io::ErrorKind::WriteZero.into())),
        }
    }

    /// Has the kernel fetch the files that follow the front of a body.
    fn read_ahead(&mut self, body: &Body) {
        let mut files = disk::next_files(body, self.fetched_to);
        let Some(first) = files.first() else { return };
        // A disk at a time; those on another one are the first of the next time.
        let disk = first.range.content.disk();
        let same = files.iter().take_while(|file| file.range.content.disk() == disk).count();
        files.truncate(same);
        let fetched_to = files[same - 1].left_behind;
        // Nobody waits for it. A reader that goes away meanwhile has had some files fetched for nothing.
        if blocking::run_if_idle(disk, move || files.iter().for_each(|file| disk::fetch(&file.range))) {
            self.fetched_to = fetched_to;
        }
    }

    /// Runs an attempt until the socket takes something, but no longer than a reader may stall.
    async fn attempt(&self, mut attempt: impl FnMut() -> io::Result<Attempt> + Send) -> Result<Attempt, SendError> {
        // Nearly always there is room, and then no clock has to be set.
        let attempted = match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(&mut attempt).await?,
            attempted => attempted,
        };
        match attempted {
            Ok(Attempt::Sent(0)) => Err(SendError::Peer(io::ErrorKind::WriteZero.into())),
            Ok(attempt) => Ok(attempt),
            Err(error) => Err(SendError::Peer(error)),
        }
    }

    /// Waits for room, and counts as stalled once that has taken long.
    async fn wait(
        &self,
        mut attempt: impl FnMut() -> io::Result<Attempt> + Send,
    ) -> Result<io::Result<Attempt>, SendError> {
        let limit = self.options.stall_timeout;
        if let Ok(attempted) = timeout(limit.min(STALLED_AFTER), self.socket.when_writable(&mut attempt)).await {
            return Ok(attempted);
        }
        let left = limit.saturating_sub(STALLED_AFTER);
        if left.is_zero() {
            return Err(SendError::Stalled);
        }
        let _stall = self.activity.stall();
        let waited = timeout(left, self.socket.when_writable(attempt)).await;
        waited.map_err(|_| SendError::Stalled)
    }
}

/// Whether a chunk of a file is in memory. `warm` is what is known of it, and knows more afterwards.
///
/// Both ends are asked about: what the kernel forgets it forgets from the front, what it fetches it fetches forwards.
/// The front of a chunk lies behind the end of the one before.
fn look(range: &FileRange, descriptor: &OwnedFd, chunk: &Range<u64>, warm: &mut Range<u64>) -> Result<bool, SendError> {
    let file = range.content.file_id();
    if warm.is_empty() {
        *warm = file.map_or(chunk.start..chunk.start, |file| recent::recall(file, chunk.start));
    }
    if chunk.end <= warm.end {
        return Ok(true);
    }
    let questions = [chunk.start, chunk.end - 1];
    let front_is_known = !warm.is_empty() && warm.end >= chunk.start;
    for &offset in &questions[usize::from(front_is_known)..] {
        match read_cached(descriptor, &mut [0], offset) {
            Ok(0) => return Err(shrunk(range, descriptor)),
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(false),
            Err(error) => return Err(content_error(range, ContentError::Io(error.into()))),
        }
    }
    warm.end = chunk.end;
    if let Some(file) = file {
        recent::note(file, chunk.clone());
    }
    Ok(true)
}

/// Opens a range's file without waiting, or takes the descriptor that is open already.
fn open_now(range: &FileRange, open: Option<&Open>) -> Result<Arc<OwnedFd>, ContentError> {
    match open {
        Some(open) if Arc::ptr_eq(&open.content, &range.content) => Ok(Arc::clone(&open.descriptor)),
        _ => range.content.open(Wait::Never),
    }
}

/// Copies the front of the body into the buffer, up to what is not in memory or better sent by `sendfile`.
fn gather(body: &Body, buffer: &mut [u8], open: Option<&Open>, sendfile: bool) -> Result<usize, SendError> {
    let mut count = 0;
    for segment in body.segments() {
        let room = &mut buffer[count..];
        if room.is_empty() {
            break;
        }
        match segment {
            // The line that closes a bundle leaves in one write: some readers stumble over a piece of it.
            Segment::Bytes(bytes) if bytes.len() > room.len() && count > 0 && bytes.len() <= SHORT_LEN => break,
            Segment::Bytes(bytes) => {
                let len = bytes.len().min(room.len());
                room[..len].copy_from_slice(&bytes[..len]);
                count += len;
            }
            Segment::File(range) if sendfile && range.len >= SENDFILE_MIN_LEN => break,
            Segment::File(range) => {
                let len = range.len.min(room.len() as u64) as usize;
                let read = read_range(range, &mut room[..len], open)?;
                count += read;
                if (read as u64) < range.len {
                    break;
                }
            }
        }
    }
    Ok(count)
}

/// Reads the start of a range as far as it is in memory.
fn read_range(range: &FileRange, buffer: &mut [u8], open: Option<&Open>) -> Result<usize, SendError> {
    let descriptor = match open_now(range, open) {
        Ok(descriptor) => descriptor,
        Err(ContentError::WouldWait) => return Ok(0),
        Err(error) => return Err(content_error(range, error)),
    };
    let mut count = 0;
    while count < buffer.len() {
        match read_cached(&descriptor, &mut buffer[count..], range.offset + count as u64) {
            Ok(0) => return Err(shrunk(range, &descriptor)),
            Ok(read) => count += read,
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => break,
            Err(error) => return Err(content_error(range, ContentError::Io(error.into()))),
        }
    }
    if count as u64 == range.len {
        range.content.check(&descriptor).map_err(|error| content_error(range, error))?;
    }
    Ok(count)
}

/// A read that fails with `EAGAIN` rather than wait for the disk.
fn read_cached(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
}

/// Whether an error means that the reader is gone, and not that something is wrong here.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | TimedOut)
}

fn shrunk(range: &FileRange, descriptor: &OwnedFd) -> SendError {
    content_error(range, ContentError::shrunk(range.content.measured_len(), disk::size_now(descriptor)))
}

fn content_error(range: &FileRange, error: ContentError) -> SendError {
    SendError::Content { parameter: range.content.parameter().escape_ascii().to_string(), error }
}
