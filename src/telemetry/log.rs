//! The process's log: what is recorded, in which form, and what becomes of a panic.

use std::{
    error::Error,
    io::{self, IsTerminal as _},
    panic,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use thiserror::Error;
use tracing::{
    Level, Subscriber, error,
    level_filters::LevelFilter,
    subscriber::{SetGlobalDefaultError, set_global_default},
    warn,
};
use tracing_subscriber::{filter::dynamic_filter_fn, layer::SubscriberExt as _};

use crate::telemetry::{json::JsonLines, sink::Sink};

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
    /// The file cannot be opened, or there is no thread to write.
    #[error("cannot open {place}: {error}")]
    Sink {
        /// Where it should go.
        place: String,
        /// Why it cannot.
        error: io::Error,
    },
    /// This process has a log already.
    #[error("a log is set up already")]
    SetUpTwice,
}

/// The running log.
#[derive(Debug)]
pub struct Log {
    sink: Sink,
    threshold: Threshold,
}

impl Log {
    /// The level where nobody chooses one.
    pub const DEFAULT_LEVEL: Level = Level::INFO;

    /// Sets up the process's log, and a hook that logs a panic as one record.
    pub fn start(options: &LogOptions) -> Result<Self, LogError> {
        let place =
            || options.file.as_ref().map_or("the log".to_owned(), |path| format!("the log file {}", path.display()));
        let sink = Sink::start(options.file.as_deref()).map_err(|error| LogError::Sink { place: place(), error })?;
        let to_terminal = options.file.is_none() && io::stderr().is_terminal();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(LevelFilter::TRACE)
            .with_target(false);
        let threshold = Threshold::new(options.level);
        let set_up = match options.format.unwrap_or(if to_terminal { LogFormat::Text } else { LogFormat::Json }) {
            LogFormat::Json => install(subscriber.event_format(JsonLines).finish(), &threshold),
            LogFormat::Text => install(subscriber.with_ansi(to_terminal).finish(), &threshold),
        };
        set_up.map_err(|_| LogError::SetUpTwice)?;
        panic::set_hook(Box::new(|panic| {
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let message = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            error!(panic = message, place, "a panic; the request it happened in is lost, the others go on");
        }));
        Ok(Self { sink, threshold })
    }

    /// The least grave level that is written.
    pub fn level(&self) -> Level {
        self.threshold.level()
    }

    /// Writes from now on what is as grave as this, or graver.
    pub fn set_level(&self, level: Level) {
        self.threshold.set(level);
    }

    /// Writes what waits, for a second at most. What is recorded afterwards is lost.
    pub fn finish(&self) {
        self.sink.finish();
    }

    /// Opens the log file anew before the next record, after it was moved away.
    pub fn reopen(&self) {
        self.sink.reopen();
    }

    /// How many records have been lost: because too many waited, or because the sink refused them.
    pub fn lost(&self) -> u64 {
        self.sink.lost()
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

/// An error with what led to it, as one text for a record.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Makes a subscriber the process's, with a filter in front of it.
fn install(subscriber: impl Subscriber + Send + Sync, threshold: &Threshold) -> Result<(), SetGlobalDefaultError> {
    let wanted = threshold.clone();
    set_global_default(subscriber.with(dynamic_filter_fn(move |metadata, _| *metadata.level() <= wanted.level())))
}

/// A level that can change while records are made, without a lock that all workers would take for every record.
#[derive(Clone, Debug)]
struct Threshold(Arc<AtomicU8>);

impl Threshold {
    /// From the gravest on; what is stored is a place in it.
    const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];

    fn new(level: Level) -> Self {
        let threshold = Self(Arc::default());
        threshold.set(level);
        threshold
    }

    fn level(&self) -> Level {
        Self::LEVELS[usize::from(self.0.load(Ordering::Relaxed))]
    }

    fn set(&self, level: Level) {
        let place = Self::LEVELS.iter().position(|&known| known == level).unwrap_or_default();
        self.0.store(place as u8, Ordering::Relaxed);
    }
}
