//! Why an answer did not go out whole, in the words of the log and of the metrics.

use crate::transport::{Cut, Outcome};

/// Why an answer was cut.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cause {
    /// The reader closed the connection.
    Client,
    /// The reader took nothing for as long as it may.
    Stalled,
    /// A file changed or could not be read.
    File,
    /// The server was told to stop.
    Shutdown,
    /// Axon itself broke: a fault in it.
    Panic,
}

impl Cause {
    pub(super) const ALL: [Self; 5] = [Self::Client, Self::Stalled, Self::File, Self::Shutdown, Self::Panic];

    /// None where nothing was cut.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Cut(Cut::Client(_)) => Some(Self::Client),
            Outcome::Cut(Cut::Stalled) => Some(Self::Stalled),
            Outcome::Cut(Cut::Content { .. }) => Some(Self::File),
            Outcome::Unfinished => Some(Self::Shutdown),
            Outcome::Panicked => Some(Self::Panic),
            Outcome::Complete | Outcome::Refused(_) | Outcome::Silent => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Stalled => "stalled",
            Self::File => "file",
            Self::Shutdown => "shutdown",
            Self::Panic => "panic",
        }
    }
}
