//! `axon serve`.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use clap::Args;
use thiserror::Error;
use tokio::{select, sync::Notify, time::sleep};
use tracing::{error, warn};

use crate::{
    cli::settings::Settings,
    server::{Listener, Notifier, PassedError, Reload, Server, ServerError, Shutdown, Signals, StartError},
    telemetry::{Log, LogError, with_causes},
};

/// How long a start that waits for a disk may go on once it was told to stop: so long that one that is only busy takes
/// its socket away again.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Serve the files beneath a directory.
///
/// Listens for requests of nginx and streams files back until it is told to stop. On SIGTERM or SIGINT it stops
/// accepting and lets running answers finish; a second signal cuts them. SIGHUP reopens the log file and reads the
/// secret file and the reload file again, without a request noticing. /api/health and /api/metrics tell how it is doing.
///
/// Under systemd it takes the sockets of a socket unit, besides those of --uwsgi, and tells when it is ready, how it
/// is doing, and that it is alive (Type=notify, WatchdogSec=).
///
/// Durations are 500ms, 10s, 5m or 1h, a bare number is seconds; sizes are bytes, 64k, 1m or 2g.
#[derive(Args, Clone, Debug)]
#[command(after_help = SECTIONS, allow_negative_numbers = true)]
pub struct ServeArguments {
    /// The directory to serve; no file outside it is ever opened. Example: --root /srv/files
    #[arg(long, env = "AXON_ROOT", value_name = "DIR")]
    root: PathBuf,

    #[command(flatten)]
    pub(super) settings: Settings,
}

const SECTIONS: &str = "\
Exit codes:
  0  it was stopped, and everything that ran has ended
  1  it could not start or go on; the last line says why
  2  wrong usage

Environment:
  LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES  the sockets of a service manager, as in sd_listen_fds(3)
  NOTIFY_SOCKET, WATCHDOG_USEC  where it is told how Axon is doing, as in sd_notify(3)

Files:
  /run/axon/axon.sock  where axon.socket and nginx.conf have the socket
  /etc/axon/axon.env  the settings of axon.service
  /var/lib/axon/secret  the secret of axon.service

Signals:
  SIGTERM, SIGINT  stop accepting and let running answers finish; the second time, cut them
  SIGHUP  reopen the log file, read the secret file and the reload file again

Examples:
  axon serve --root /srv/files --uwsgi unix:/run/axon/axon.sock --socket-group www-data

  And in nginx's configuration (nginx.conf in the repository is the whole of it):
  location / {
      include uwsgi_params;
      uwsgi_param HTTP_PROXY \"\";
      uwsgi_pass unix:/run/axon/axon.sock;
      uwsgi_buffering off;
      uwsgi_buffer_size 64k;
      uwsgi_buffers 4 64k;
      gzip off;
  }";

/// Why the server did not start, or did not end as asked.
#[derive(Debug, Error)]
pub enum ServeFailure {
    /// No log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// No server.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No way to hear signals.
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
}

/// Serves until a signal says to stop, on the sockets that were `passed` and on those of the arguments.
pub fn serve(arguments: &ServeArguments, passed: Result<Vec<Listener>, PassedError>) -> Result<(), ServeFailure> {
    let log = Arc::new(Log::start(&arguments.settings.log_options())?);
    let ended = listen_and_serve(arguments, passed, &log);
    if let Err(error) = &ended
        && arguments.settings.log_file.is_some()
    {
        // It goes to standard error in any case, but an operator looks into the log.
        error!(cause = with_causes(error), "the server ended");
    }
    log.finish();
    ended
}

fn listen_and_serve(
    arguments: &ServeArguments,
    passed: Result<Vec<Listener>, PassedError>,
    log: &Arc<Log>,
) -> Result<(), ServeFailure> {
    // Before anything listens: a signal that comes early must be heard, too. It waits until somebody asks for it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeFailure::Signals)?;
    let signals = runtime.block_on(async { Signals::install() }).map_err(ServeFailure::Signals)?;
    let passed = passed.map_err(StartError::from)?;
    let shutdown = Shutdown::default();
    let (heard, log, arguments) = (shutdown.clone(), Arc::clone(log), arguments.clone());
    let (opened, opening) = mpsc::channel();
    let listening = thread::Builder::new().name("axon-signals".into()).spawn(move || {
        let hangups = Notify::new();
        let live = async {
            let (started, notifier) = match open(arguments, passed, &log, &heard).await {
                Ok(Some((server, reload))) => {
                    let (notifier, goodbye) = Notifier::new(Arc::clone(server.vitals()), heard.drain.clone());
                    (Ok(Some((server, goodbye))), Some((notifier, reload)))
                }
                Ok(None) => (Ok(None), None),
                Err(error) => (Err(error), None),
            };
            // The process ends where nobody takes it.
            let _ = opened.send(started);
            if let Some((notifier, reload)) = notifier {
                notifier.run(&hangups, reload).await;
            }
        };
        runtime.block_on(async {
            tokio::join!(signals.run(heard.clone(), || hangups.notify_one()), live, log.report_losses());
        });
    });
    listening.map_err(ServeFailure::Signals)?;
    // It is told in any case: that thread never ends.
    let started = opening.recv().unwrap_or_else(|_| Err(ServerError::WorkerLost.into()))?;
    let Some((server, goodbye)) = started else {
        warn!("told to stop before it had started");
        return Ok(());
    };
    let ended = server.run(&shutdown);
    goodbye.wait();
    Ok(ended.map_err(StartError::from)?)
}

/// Opens a server and what SIGHUP renews of it, which may wait for a disk. None where it was told to stop meanwhile, and
/// the disk does not answer.
async fn open(
    arguments: ServeArguments,
    passed: Vec<Listener>,
    log: &Arc<Log>,
    shutdown: &Shutdown,
) -> Result<Option<(Server, Reload)>, StartError> {
    let log = Arc::clone(log);
    let opening = tokio::task::spawn_blocking(move || {
        let settings = &arguments.settings;
        let server = Server::open(&settings.config(arguments.root.clone()), passed, &log)?;
        let secret = settings.secret_file.clone().map(|path| (path, server.key()));
        Ok(Some((server, Reload { log, secret, settings: settings.settings_file() })))
    });
    let stopped = async {
        shutdown.drain.cancelled().await;
        sleep(STOP_PATIENCE).await;
    };
    select! {
        biased;
        opened = opening => opened.unwrap_or_else(|_| Err(ServerError::WorkerLost.into())),
        () = stopped => Ok(None),
    }
}
