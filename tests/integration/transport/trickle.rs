//! A socket in memory that is as awkward as it is told to be.

use std::{
    io,
    os::{fd::BorrowedFd, unix::fs::FileExt as _},
    sync::{Mutex, MutexGuard},
};

use axon::transport::Socket;

/// What it gives and takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    /// How many bytes it gives at once.
    pub(super) gives: usize,
    /// How many bytes it takes at once.
    pub(super) takes: usize,
    /// Whether it would block before every call that succeeds.
    pub(super) hesitates: bool,
    /// After how many bytes it takes no more.
    pub(super) full_after: usize,
    /// After how many bytes it is closed by the reader.
    pub(super) gone_after: usize,
    /// Whether the sender can hand it files.
    pub(super) takes_files: bool,
    /// Whether the input ends, or only pauses, after what there is.
    pub(super) input_ends: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            gives: usize::MAX,
            takes: usize::MAX,
            hesitates: false,
            full_after: usize::MAX,
            gone_after: usize::MAX,
            takes_files: true,
            input_ends: false,
        }
    }
}

/// The socket.
pub(super) struct Trickle {
    manners: Manners,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    input: Vec<u8>,
    given: usize,
    output: Vec<u8>,
    hesitated: bool,
    shut: bool,
    waits: usize,
}

impl Trickle {
    pub(super) fn new(input: Vec<u8>, manners: Manners) -> Self {
        Self { manners, state: Mutex::new(State { input, ..State::default() }) }
    }

    /// What was sent to it.
    pub(super) fn output(&self) -> Vec<u8> {
        self.state().output.clone()
    }

    /// How much of its input was read.
    pub(super) fn given(&self) -> usize {
        self.state().given
    }

    /// Whether it was told that nothing more comes.
    pub(super) fn is_shut(&self) -> bool {
        self.state().shut
    }

    /// How often somebody had to wait for it.
    pub(super) fn waits(&self) -> usize {
        self.state().waits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic before")
    }

    /// Makes room for some of `len` bytes, or says why not.
    fn admit(&self, state: &mut State, len: usize) -> io::Result<usize> {
        self.hesitate(state)?;
        if state.output.len() >= self.manners.gone_after {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match len.min(self.manners.takes).min(self.manners.full_after - state.output.len()) {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            room => Ok(room),
        }
    }

    fn hesitate(&self, state: &mut State) -> io::Result<()> {
        state.hesitated = self.manners.hesitates && !state.hesitated;
        if state.hesitated { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    async fn retry<T>(
        &self,
        mut attempt: impl FnMut() -> io::Result<T>,
        mut hopeless: impl FnMut() -> bool,
    ) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.state().waits += 1;
                    if hopeless() {
                        std::future::pending::<()>().await;
                    }
                    tokio::task::yield_now().await;
                }
                result => return result,
            }
        }
    }
}

impl Socket for Trickle {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        self.hesitate(&mut state)?;
        let left = &state.input[state.given..];
        if left.is_empty() && !self.manners.input_ends {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = left.len().min(buffer.len()).min(self.manners.gives);
        buffer[..count].copy_from_slice(&left[..count]);
        state.given += count;
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        let count = self.admit(&mut state, bytes.len())?;
        state.output.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<usize> {
        if !self.manners.takes_files {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut state = self.state();
        let count = self.admit(&mut state, count)?;
        let mut bytes = vec![0; count];
        let read = std::fs::File::from(file.try_clone_to_owned()?).read_at(&mut bytes, offset)?;
        state.output.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.state().shut = true;
        Ok(())
    }

    async fn when_readable<T: Send>(&self, attempt: impl FnMut() -> io::Result<T> + Send) -> io::Result<T> {
        let hopeless = || {
            let state = self.state();
            state.given == state.input.len() && !self.manners.input_ends
        };
        self.retry(attempt, hopeless).await
    }

    async fn when_writable<T: Send>(&self, attempt: impl FnMut() -> io::Result<T> + Send) -> io::Result<T> {
        self.retry(attempt, || self.state().output.len() >= self.manners.full_after).await
    }
}
