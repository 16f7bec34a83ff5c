//! Where records wait for a slow disk, so that requests do not.
//!
//! A worker appends its record to a buffer and goes on; a thread of its own writes the buffer out. That thread
//! is woken at most once in [`GATHER_TIME`] and writes everything that has come since in one call: waking it for
//! every record cost more than the rest of a small request (two futex calls and four yields). What does not fit
//! the buffer, because the sink is stuck, is dropped and counted.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::{fs::OFlags, io::Errno};
use tracing::error;

/// `O_NONBLOCK`: opening a pipe must not wait for a reader. `O_NOCTTY`: a terminal must not become ours.
const OPEN_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// How many bytes of records may wait: more than a second of a busy server, and a bound on memory.
const MAX_WAITING_LEN: usize = 1024 * 1024;

/// How long records are gathered before they are written.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// How long the end of the process waits for a sink that does not take the last records.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// The entrance to the sink. Cheap to clone; writing to it never waits for the sink.
#[derive(Clone, Debug)]
pub(super) struct Sink(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Told when the writer has something to do, and when it has ended.
    changed: Condvar,
    reopen: AtomicBool,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    records: u64,
    writer_sleeps: bool,
    finishing: bool,
    finished: bool,
}

impl Sink {
    /// Starts the writer: to a file that is appended to, or to standard error.
    pub(super) fn start(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(|path| append_to(path).map(|file| (path.to_owned(), file))).transpose()?;
        let target = Target { file, mid_line: false };
        let shared = Arc::new(Shared::default());
        let of_writer = Arc::clone(&shared);
        thread::Builder::new().name("axon-log".into()).spawn(move || of_writer.write_out(target))?;
        Ok(Self(shared))
    }

    /// Opens the file anew before the next records are written.
    pub(super) fn reopen(&self) {
        self.0.reopen.store(true, Ordering::Relaxed);
    }

    /// How many records were dropped or could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Writes what waits, if the sink takes it within a second.
    pub(super) fn finish(&self) {
        let mut waiting = self.0.waiting();
        waiting.finishing = true;
        self.0.changed.notify_all();
        let _ = self.0.changed.wait_timeout_while(waiting, FINISH_TIMEOUT, |waiting| !waiting.finished);
    }
}

impl Write for Sink {
    /// Takes one record, or drops and counts it.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.waiting();
        if waiting.bytes.len() + record.len() > MAX_WAITING_LEN {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            waiting.bytes.extend_from_slice(record);
            waiting.records += 1;
            if std::mem::take(&mut waiting.writer_sleeps) {
                self.0.changed.notify_all();
            }
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that is done under the lock can leave it in a wrong state.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer's life.
    fn write_out(&self, mut target: Target) {
        let mut batch = Vec::new();
        loop {
            let mut waiting = self.waiting();
            while waiting.bytes.is_empty() && !waiting.finishing {
                waiting.writer_sleeps = true;
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            let gathering = self.changed.wait_timeout_while(waiting, GATHER_TIME, |waiting| !waiting.finishing);
            waiting = gathering.unwrap_or_else(PoisonError::into_inner).0;
            if waiting.bytes.is_empty() {
                waiting.finished = true;
                self.changed.notify_all();
                return;
            }
            // The two buffers change places: neither is allocated anew.
            std::mem::swap(&mut waiting.bytes, &mut batch);
            let records = std::mem::take(&mut waiting.records);
            drop(waiting);
            if self.reopen.swap(false, Ordering::Relaxed) {
                target.reopen();
            }
            let written = target.write_batch(&batch);
            if written < batch.len() {
                let whole = batch[..written].split(|&b| b == b'\n').count() as u64 - 1;
                self.lost.fetch_add(records.saturating_sub(whole), Ordering::Relaxed);
            }
            batch.clear();
        }
    }
}

/// What is written to, and whether it ended in the middle of a line.
struct Target {
    file: Option<(PathBuf, File)>,
    mid_line: bool,
}

impl Target {
    /// Writes as much as the target takes, and gives how many bytes that was.
    fn write_batch(&mut self, batch: &[u8]) -> usize {
        // What is left of a record that was cut must not spoil the next one.
        if self.mid_line && self.write(b"\n").is_ok_and(|count| count == 1) {
            self.mid_line = false;
        }
        let mut written = 0;
        while written < batch.len() {
            match self.write(&batch[written..]) {
                Ok(count) if count > 0 => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        if written > 0 {
            self.mid_line = batch[written - 1] != b'\n';
        }
        written
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some((_, file)) => file.write(bytes),
            None => io::stderr().write(bytes),
        }
    }

    /// If the new file cannot be opened, the old one is better than nothing, and has a record that says so.
    fn reopen(&mut self) {
        let Some((path, file)) = &mut self.file else { return };
        match append_to(path) {
            Ok(new) => {
                *file = new;
                self.mid_line = false;
            }
            // It is written with the next batch: the buffer is not locked now.
            Err(cause) => {
                error!(path = %path.display(), %cause, "cannot open the log file anew; records still go to the old one");
            }
        }
    }
}

/// Opens a log file. One that is a pipe must not hold up the start until somebody reads from it.
fn append_to(path: &Path) -> io::Result<File> {
    let open = |options: &mut OpenOptions| options.custom_flags(OPEN_FLAGS.bits().cast_signed()).open(path);
    let file = match open(OpenOptions::new().append(true).create(true)) {
        // A pipe without a reader. Opened for both, it waits for one and holds 64 KiB until then (fifo(7)).
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            open(OpenOptions::new().read(true).append(true))?
        }
        opened => opened?,
    };
    // Written to by a thread that may wait: what a slow reader does not take at once is not lost.
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn records_arrive_in_order_and_the_last_ones_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let mut sink = Sink::start(Some(&path)).expect("a sink");
        for number in 0..10_000 {
            writeln!(sink, "{number}").expect("it never fails");
        }
        sink.finish();
        let log = fs::read_to_string(&path).expect("a log");
        assert!(log.lines().map(str::parse).eq((0..10_000).map(Ok)));
        assert_eq!(sink.lost(), 0);
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
        let mut sink = Sink::start(Some(&path)).expect("a sink");
        sink.write_all(b"old\n").expect("it never fails");
        while fs::read(&path).expect("a log").is_empty() {
            thread::yield_now();
        }
        fs::rename(&path, &moved).expect("moved");
        sink.reopen();
        sink.write_all(b"new\n").expect("it never fails");
        sink.finish();
        assert_eq!(fs::read_to_string(&moved).expect("a log"), "old\n");
        assert_eq!(fs::read_to_string(&path).expect("a log"), "new\n");
    }

    #[test]
    fn what_a_dead_sink_refuses_is_counted() {
        let mut sink = Sink::start(Some(Path::new("/dev/full"))).expect("a sink");
        for _ in 0..3 {
            sink.write_all(b"record\n").expect("it never fails");
        }
        sink.finish();
        assert_eq!(sink.lost(), 3);
    }

    #[test]
    fn a_stuck_sink_costs_records_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
        // Somebody opened the pipe and does not read from it.
        let _reader = OpenOptions::new().read(true).write(true).open(&path).expect("a pipe");
        let mut sink = Sink::start(Some(&path)).expect("a sink");
        let record = [b'x'; 1000];
        for _ in 0..4000 {
            sink.write_all(&record).expect("it never fails");
        }
        let kept = 4000 - sink.lost();
        assert!(kept >= 1000 && kept <= 2 * MAX_WAITING_LEN as u64 / 1000 + 100, "{kept} were kept");
    }
}
