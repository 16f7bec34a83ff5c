//! What the service manager is told, in the protocol of `sd_notify(3)`.
//!
//! | when | what |
//! | --- | --- |
//! | every worker accepts | `READY=1` |
//! | every 5 s, where it has changed | `STATUS=` with connections and totals |
//! | four times in `WATCHDOG_USEC` | `WATCHDOG=1`, if every worker has given a sign of life since the last time |
//! | around what SIGHUP renews | `RELOADING=1` with `MONOTONIC_USEC=`, then `READY=1` |
//! | the drain begins | `STOPPING=1` |
//! | every 5 s of the drain | `EXTEND_TIMEOUT_USEC=` |
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is told to anybody.

use std::{
    cell::{Cell, RefCell},
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use sd_notify::NotifyState;
use tokio::{
    select,
    sync::{Notify, Semaphore},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::server::{Load, Reload, Vitals};

/// How often the status is told, and while draining the end put off.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// How long the manager is to wait for the next word of a drain: one may come late, two may not.
const EXTENSION: Duration = STATUS_INTERVAL.saturating_mul(3);

/// How many pings fit the time after which the manager gives up on us. A worker may then be busy for three quarters
/// of it, whenever it begins.
const PINGS_PER_TIMEOUT: u32 = 4;

/// Pings are no more frequent than this, however short the timeout.
const MIN_PING_INTERVAL: Duration = Duration::from_millis(1);

/// How long a reload waits until the manager has heard of its start or its end.
const RELOAD_PATIENCE: Duration = Duration::from_secs(1);

/// How long the end of the process waits until the manager has been told of it.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// Tells a service manager how a server is doing.
#[derive(Debug)]
pub struct Notifier {
    vitals: Arc<Vitals>,
    drain: CancellationToken,
    watchdog: Option<Duration>,
    /// Whether `READY=1` has been told.
    ready: Cell<bool>,
    /// The status that was told last.
    status: RefCell<String>,
    /// Who has a turn to tell, in the order they asked for it.
    turn: Arc<Semaphore>,
    /// Whether the last message could not be sent: it is complained of once.
    unheard: Arc<AtomicBool>,
    stopping: mpsc::SyncSender<()>,
}

/// Waits until the service manager knows that the process ends.
#[derive(Debug)]
pub struct Goodbye(mpsc::Receiver<()>);

impl Goodbye {
    /// Waits, a second at most. To be called once the drain has begun.
    pub fn wait(&self) {
        let _ = self.0.recv_timeout(GOODBYE_TIMEOUT);
    }
}

impl Notifier {
    /// One that tells of these vitals until the drain that this token begins is over.
    pub fn new(vitals: Arc<Vitals>, drain: CancellationToken) -> (Self, Goodbye) {
        let (stopping, stopped) = mpsc::sync_channel(1);
        let notifier = Self {
            vitals,
            drain,
            watchdog: sd_notify::watchdog_enabled().filter(|timeout| !timeout.is_zero()),
            ready: Cell::new(false),
            status: RefCell::default(),
            turn: Arc::new(Semaphore::new(1)),
            unheard: Arc::default(),
            stopping,
        };
        (notifier, Goodbye(stopped))
    }

    /// Tells, and renews whenever `hangups` says so; never ends.
    pub async fn run(self, hangups: &Notify, reload: Reload) {
        tokio::join!(self.watch(), self.reload(hangups, Arc::new(reload)));
    }

    async fn watch(&self) {
        if env::var_os("NOTIFY_SOCKET").is_none() {
            self.drain.cancelled().await;
            let _ = self.stopping.try_send(());
            return;
        }
        select! {
            biased;
            () = self.drain.cancelled() => {}
            () = self.vitals.accepting() => {
                // Before it is told: who has heard it may ask for a reload at once, and waits to hear of that.
                self.ready.set(true);
                let _ = self.tell(vec![Message::Ready, self.status()]).await;
            }
        }
        tokio::join!(self.keep_alive(), self.report());
    }

    /// Tells the status now and then, and of the drain.
    async fn report(&self) {
        let mut ticks = interval(STATUS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        loop {
            select! {
                biased;
                () = self.drain.cancelled() => break,
                _ = ticks.tick() => {
                    let told = self.status.borrow().clone();
                    let status = self.status();
                    if *self.status.borrow() != told {
                        let _ = self.tell(vec![status]).await;
                    }
                }
            }
        }
        let _ = self.tell(vec![Message::Stopping, Message::ExtendTimeout, self.status()]).await;
        let _ = self.stopping.try_send(());
        loop {
            ticks.tick().await;
            let _ = self.tell(vec![Message::ExtendTimeout, self.status()]).await;
        }
    }

    /// Pings for as long as every worker is alive.
    async fn keep_alive(&self) {
        let Some(timeout) = self.watchdog else { return };
        let mut ticks = interval((timeout / PINGS_PER_TIMEOUT).max(MIN_PING_INTERVAL));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent_since: Option<Instant> = None;
        loop {
            ticks.tick().await;
            let silent = self.vitals.silent();
            if silent.is_empty() {
                if let Some(since) = silent_since.take() {
                    info!(after_ms = since.elapsed().as_millis(), "every worker answers again");
                }
                let _ = self.tell(vec![Message::Watchdog]).await;
            } else if silent_since.is_none() {
                silent_since = Some(Instant::now());
                error!(workers = ?silent, "workers do not answer; until they do the watchdog is not told that all is well");
            }
            self.vitals.ask();
        }
    }

    async fn reload(&self, hangups: &Notify, reload: Arc<Reload>) {
        loop {
            hangups.notified().await;
            // To a manager that waits for the start or the end, a reload is neither.
            let is_told = || self.ready.get() && !self.drain.is_cancelled();
            // A manager that does not listen must not keep logs from being rotated. It hears of both in the end.
            if is_told() {
                let _ = timeout(RELOAD_PATIENCE, self.tell(vec![Message::Reloading])).await;
            }
            let reload = Arc::clone(&reload);
            // Files are read: signals, pings and the drain must not wait for their disk.
            let _ = tokio::task::spawn_blocking(move || reload.run()).await;
            if is_told() {
                let _ = timeout(RELOAD_PATIENCE, self.tell(vec![Message::Ready, self.status()])).await;
            }
        }
    }

    /// The status, which counts as told from now on.
    fn status(&self) -> Message {
        let Load { connections, requests, bytes } = self.vitals.load();
        let phase = if self.drain.is_cancelled() { "draining, " } else { "" };
        let sent = bytes / 1_000_000;
        let status = format!("{phase}{connections} open connections; {requests} requests answered, {sent} MB sent");
        self.status.replace(status.clone());
        Message::Status(status)
    }

    /// Sends messages in one datagram, after those that were to be sent before. Its queue may be full: only a thread of
    /// its own waits then.
    ///
    /// Cancel safety: the messages are sent also where nobody waits for it.
    fn tell(&self, messages: Vec<Message>) -> JoinHandle<()> {
        let (turn, unheard) = (Arc::clone(&self.turn), Arc::clone(&self.unheard));
        tokio::spawn(async move {
            let Ok(turn) = turn.acquire_owned().await else { return };
            let told = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let states: Vec<_> = messages.iter().flat_map(Message::states).collect();
                sd_notify::notify(&states)
            });
            match told.await {
                Ok(Ok(())) => unheard.store(false, Ordering::Relaxed),
                Ok(Err(cause)) if !unheard.swap(true, Ordering::Relaxed) => {
                    warn!(%cause, "the service manager cannot be told anything (NOTIFY_SOCKET)");
                }
                _ => {}
            }
        })
    }
}

/// One thing to tell.
#[derive(Debug)]
enum Message {
    Ready,
    Reloading,
    Stopping,
    Status(String),
    Watchdog,
    ExtendTimeout,
}

impl Message {
    fn states(&self) -> Vec<NotifyState<'_>> {
        match self {
            Self::Ready => vec![NotifyState::Ready],
            // Since version 253 systemd believes a reload only with the time it began at.
            Self::Reloading => [NotifyState::Reloading].into_iter().chain(NotifyState::monotonic_usec_now()).collect(),
            Self::Stopping => vec![NotifyState::Stopping],
            Self::Status(status) => vec![NotifyState::Status(status)],
            Self::Watchdog => vec![NotifyState::Watchdog],
            Self::ExtendTimeout => vec![NotifyState::ExtendTimeoutUsec(EXTENSION.as_micros() as u32)],
        }
    }
}
