//! Listeners, workers and the phases of a life; joins all rooms.
//!
//! One single-threaded runtime per worker, all accepting from the same listening sockets: a connection never
//! moves between threads. A life has these phases:
//!
//! | phase | what happens |
//! | --- | --- |
//! | start | bind, then start the workers; anything wrong ends the process with a message |
//! | running | accept and serve |
//! | draining | no new connections; those that were queued are still answered, running answers finish |
//! | cut | the drain's deadline has passed, or a second signal came: what still runs is closed |
//!
//! A socket that a service manager has passed stays when the process ends, and its queue is left to the next process.

mod descriptors;
mod listener;
mod notifier;
mod passed;
mod reload;
mod scheduling;
mod secret;
mod signals;
mod small_file;
mod status;
mod vitals;
mod worker;

use std::{io, path::PathBuf, sync::Arc, thread, time::Duration};

use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use descriptors::{DESCRIPTORS_PER_CONNECTION, MAX_DESCRIPTORS_PER_CONNECTION, SPARE_DESCRIPTORS, raise_limit};
pub use listener::{BACKLOG, ListenError, Listener, SocketOptions};
pub use notifier::{Goodbye, Notifier};
pub use passed::{PassedError, passed_listeners};
pub use reload::{Reload, SettingsFile};
pub use secret::{MIN_SECRET_LEN, SecretError, load_secret};
pub use signals::Signals;
pub use small_file::read_small;
pub use vitals::{Load, Vitals};

pub use crate::handler::{HandlerOptions, ValidatorFacts};
use crate::{
    handler::{CurrentKey, Handler, ROUTES},
    message::Service,
    server::{status::Status, vitals::Pulse, worker::Worker},
    store::{RootError, Store},
    telemetry::{Log, Metrics},
    transport::{Address, TransportOptions},
};

/// Everything a server is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory whose files are served.
    pub root: PathBuf,
    /// Where to listen, besides the sockets that were passed.
    pub addresses: Vec<Address>,
    /// Who may connect there.
    pub socket: SocketOptions,
    /// Where the secret is kept; None makes one up.
    pub secret_file: Option<PathBuf>,
    /// How files are chosen and described.
    pub handler: HandlerOptions,
    /// How the server runs.
    pub server: ServerOptions,
}

/// Why a server could not start, or ended otherwise than asked.
#[derive(Debug, Error)]
pub enum StartError {
    /// No address to listen on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No way to listen on the sockets that were passed.
    #[error(transparent)]
    Passed(#[from] PassedError),
    /// No root directory.
    #[error("{}: {error}", .root.display())]
    Root {
        /// Which.
        root: PathBuf,
        /// Why.
        error: RootError,
    },
    /// No secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// It started and could not go on.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A server that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<Listener>,
    handler: Handler,
    options: ServerOptions,
    vitals: Arc<Vitals>,
}

impl Server {
    /// Opens the root and binds the addresses. It will listen there and on the sockets that were `passed`; where an
    /// address is that of one of them, on that one. What `log` loses is in the metrics.
    pub fn open(config: &Config, passed: Vec<Listener>, log: &Arc<Log>) -> Result<Self, StartError> {
        let root = config.root.clone();
        let store = Store::open(&root).map_err(|error| StartError::Root { root, error })?;
        let key = load_secret(config.secret_file.as_deref())?;
        descriptors::tell_if_few(raise_limit(), config.server.max_connections as u64);
        let mut listeners = passed;
        for address in &config.addresses {
            if !listeners.iter().any(|passed| passed.outlives_us() && passed.address() == address) {
                listeners.push(Listener::bind(address, &config.socket)?);
            }
        }
        let (opening, log) = (store.clone(), Arc::clone(log));
        let metrics = Metrics::new(config.server.workers(), ROUTES)
            .with_files_opened(move || opening.files_opened())
            .with_lost_records(move || log.lost());
        let handler = Handler::new(store, key, config.handler);
        Ok(Self { listeners, handler, options: config.server, vitals: Vitals::new(&config.server, metrics) })
    }

    /// How it is doing, for whoever watches it.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    /// The key behind entity tags and boundaries, for whoever renews it.
    pub fn key(&self) -> CurrentKey {
        self.handler.key()
    }

    /// Serves until `shutdown` asks to stop and everything has finished or was cut. Blocks the calling thread.
    pub fn run(self, shutdown: &Shutdown) -> Result<(), ServerError> {
        let status = Status::new(Arc::clone(&self.vitals), shutdown);
        let handler = self.handler.with_introspection(Arc::new(status));
        run(self.listeners, handler, self.options, shutdown, &self.vitals)
    }
}

/// How a server runs.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// The number of workers, each a thread with a runtime of its own.
    pub workers: usize,
    /// The most connections at once. The next ones wait in the listening socket's backlog. 8,192 by default:
    /// bounds memory and descriptors.
    pub max_connections: usize,
    /// How long running answers may take to finish once a stop was asked for. 30 s by default.
    pub drain_timeout: Duration,
    /// Whether every request leaves a record.
    pub access_log: bool,
    /// How connections are served.
    pub transport: TransportOptions,
}

impl ServerOptions {
    /// How many workers there will be: at least one.
    pub fn workers(&self) -> usize {
        self.workers.max(1)
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(1, usize::from),
            max_connections: 8192,
            drain_timeout: Duration::from_secs(30),
            access_log: true,
            transport: TransportOptions::default(),
        }
    }
}

/// The two steps of a stop. Cheap to clone; cancelling one asks for that step.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Stop accepting, let running answers finish.
    pub drain: CancellationToken,
    /// Close what still runs.
    pub cut: CancellationToken,
}

/// Why a server ended otherwise than asked.
#[derive(Debug, Error)]
pub enum ServerError {
    /// No runtime, no thread, or no way to wait for connections.
    #[error("a worker cannot run: {0}")]
    Worker(#[from] io::Error),
    /// A worker panicked; the panic is in the log.
    #[error("a worker ended unexpectedly")]
    WorkerLost,
}

/// Serves until `shutdown` asks to stop and everything has finished or was cut.
///
/// Blocks the calling thread. The sockets that the listeners made are removed as soon as draining begins. `vitals`
/// are those of a server with the same options, which has not run yet.
pub fn run<V: Service + 'static>(
    listeners: Vec<Listener>,
    service: V,
    options: ServerOptions,
    shutdown: &Shutdown,
    vitals: &Arc<Vitals>,
) -> Result<(), ServerError> {
    let service = Arc::new(service);
    let listeners = Arc::new(listeners);
    let workers = vitals.workers();
    for listener in &*listeners {
        info!(address = %listener.address(), workers, "listening");
    }
    let start = |number| {
        let worker = Worker {
            service: Arc::clone(&service),
            permits: Arc::clone(vitals.permits()),
            pulse: Pulse::new(vitals, number),
            listeners: Arc::clone(&listeners),
            options,
            shutdown: shutdown.clone(),
        };
        thread::Builder::new().name(format!("axon-worker-{number}")).spawn(move || worker.run())
    };
    let threads: Vec<_> = (0..workers).map(start).collect();
    if threads.iter().any(Result::is_err) {
        // Fewer workers than were asked for are not what was asked for.
        shutdown.drain.cancel();
    }
    // A socket is closed when the last worker has let go of it.
    drop(listeners);
    let mut result = Ok(());
    for thread in threads {
        let ended = match thread {
            Ok(thread) => thread.join().unwrap_or(Err(ServerError::WorkerLost)),
            Err(error) => Err(error.into()),
        };
        if ended.is_err() {
            // The others must not go on as if nothing had happened, half a service.
            shutdown.drain.cancel();
            result = ended;
        }
    }
    result
}
