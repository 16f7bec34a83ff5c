//! What the process does when it is told to: the signals of a Unix daemon.

use std::{future::poll_fn, io, task::Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

use crate::server::Shutdown;

/// SIGTERM and SIGINT: drain, and the second time cut. SIGHUP: whatever is to be done on it.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

enum Heard {
    Stop,
    Hangup,
}

impl Signals {
    /// Takes the signals over from the system's default. Must run within a tokio runtime.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Passes them on, for ever.
    pub async fn run(mut self, shutdown: Shutdown, on_hangup: impl Fn()) {
        loop {
            match self.next().await {
                Heard::Hangup => on_hangup(),
                Heard::Stop if shutdown.drain.is_cancelled() => {
                    info!("told to stop again: cutting what still runs");
                    shutdown.cut.cancel();
                }
                Heard::Stop => {
                    info!("told to stop: draining");
                    shutdown.drain.cancel();
                }
            }
        }
    }

    async fn next(&mut self) -> Heard {
        poll_fn(|cx| {
            let stop = [&mut self.interrupt, &mut self.terminate].into_iter().any(|s| s.poll_recv(cx).is_ready());
            if stop {
                return Poll::Ready(Heard::Stop);
            }
            self.hangup.poll_recv(cx).map(|_| Heard::Hangup)
        })
        .await
    }
}
