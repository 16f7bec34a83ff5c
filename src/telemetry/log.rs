//! The log's sink. A dead or stuck one must not stop or slow requests: records wait in a bounded queue, a
//! thread of their own writes them, and what does not fit is dropped and counted.

use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal as _, Write},
    panic,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use thiserror::Error;
use tracing::{Level, error, level_filters::LevelFilter, warn};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};

/// How many records may wait for the sink: some seconds of a busy server, some megabytes at most.
const QUEUE_LEN: usize = 4096;

/// How often lost records are reported.
const LOSS_REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// How records are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Where records go and which.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A file that is appended to; None is standard error.
    pub file: Option<PathBuf>,
    /// None is text for a terminal, JSON otherwise.
    pub format: Option<LogFormat>,
    /// The least grave level that is written.
    pub level: Level,
}

/// Why there is no log.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file cannot be opened.
    #[error("cannot open the log file {}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// This process has a log already.
    #[error("a log is set up already")]
    SetUpTwice,
}

/// The running log.
#[derive(Debug)]
pub struct Log {
    reopen: Arc<AtomicBool>,
    dropped: ErrorCounter,
    unwritten: Arc<AtomicU64>,
    writer: Mutex<Option<WorkerGuard>>,
}

impl Log {
    /// Sets up the process's log, and a hook that logs a panic as one record.
    pub fn start(options: &LogOptions) -> Result<Self, LogError> {
        let reopen = Arc::new(AtomicBool::new(false));
        let unwritten = Arc::new(AtomicU64::new(0));
        let sink = Sink::open(options.file.as_deref(), Arc::clone(&reopen), Arc::clone(&unwritten))?;
        let to_terminal = options.file.is_none() && io::stderr().is_terminal();
        let (writer, guard) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(QUEUE_LEN)
            .thread_name("axon-log")
            .finish(sink);
        let dropped = writer.error_counter();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(writer)
            .with_max_level(LevelFilter::from_level(options.level))
            .with_target(false);
        let set_up = match options.format.unwrap_or(if to_terminal { LogFormat::Text } else { LogFormat::Json }) {
            LogFormat::Json => {
                let json = subscriber.json().flatten_event(true).with_current_span(false).with_span_list(false);
                tracing::subscriber::set_global_default(json.finish())
            }
            LogFormat::Text => tracing::subscriber::set_global_default(subscriber.with_ansi(to_terminal).finish()),
        };
        set_up.map_err(|_| LogError::SetUpTwice)?;
        panic::set_hook(Box::new(|panic| {
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let message = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            error!(panic = message, place, "a panic; the request it happened in is lost, the others go on");
        }));
        Ok(Self { reopen, dropped, unwritten, writer: Mutex::new(Some(guard)) })
    }

    /// Writes what waits, for a second at most. What is recorded afterwards is lost.
    pub fn finish(&self) {
        drop(self.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Opens the log file anew before the next record, after it was moved away.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// How many records have been lost: because the queue was full, or because the sink refused them.
    pub fn lost(&self) -> u64 {
        self.dropped.dropped_lines() as u64 + self.unwritten.load(Ordering::Relaxed)
    }

    /// Reports losses as they grow; never ends.
    pub async fn report_losses(&self) {
        let mut reported = 0;
        loop {
            tokio::time::sleep(LOSS_REPORT_INTERVAL).await;
            let lost = self.lost();
            if lost > reported {
                warn!(lost, since_last = lost - reported, "log records were lost: the log is full, stuck or gone");
                reported = lost;
            }
        }
    }
}

/// What the log's thread writes to.
struct Sink {
    target: Target,
    reopen: Arc<AtomicBool>,
    unwritten: Arc<AtomicU64>,
}

enum Target {
    File(PathBuf, File),
    Stderr,
}

impl Sink {
    fn open(path: Option<&Path>, reopen: Arc<AtomicBool>, unwritten: Arc<AtomicU64>) -> Result<Self, LogError> {
        let target = match path {
            None => Target::Stderr,
            Some(path) => {
                let error = |error| LogError::File { path: path.to_owned(), error };
                Target::File(path.to_owned(), append_to(path).map_err(error)?)
            }
        };
        Ok(Self { target, reopen, unwritten })
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

impl Write for Sink {
    /// Takes one record. Never fails: a record that cannot be written is counted and dropped.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        if self.reopen.swap(false, Ordering::Relaxed)
            && let Target::File(path, file) = &mut self.target
            // If the new one cannot be opened, the old one is better than nothing.
            && let Ok(new) = append_to(path)
        {
            *file = new;
        }
        let written = match &mut self.target {
            Target::File(_, file) => file.write_all(record),
            Target::Stderr => io::stderr().write_all(record),
        };
        if written.is_err() {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
