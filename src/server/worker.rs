//! A thread with a runtime of its own: accepts connections and serves them, then drains.

use std::{
    io,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{SocketFlags, accept_with, sockopt},
};
use tokio::{
    io::unix::AsyncFd,
    select,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use crate::{
    blocking,
    message::Service,
    server::{Listener, ServerError, ServerOptions, Shutdown, scheduling, vitals::Pulse},
    telemetry,
    transport::{self, Address, Exchange, Outcome, StreamSocket},
};

/// How many connections are accepted in a row before those already accepted get a turn.
const ACCEPTS_PER_TURN: usize = 32;

/// How long to wait after an accept that failed for want of something: descriptors, memory. The connection
/// stays in the queue meanwhile, and trying again at once would only burn the CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A busy server must not repeat the same complaint for every connection.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// How long such a thread is kept without work.
const DISK_THREAD_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How long connections get to leave their record once they have been cut.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Worker<V> {
    pub(super) service: Arc<V>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) pulse: Pulse,
    pub(super) listeners: Arc<Vec<Listener>>,
    pub(super) options: ServerOptions,
    pub(super) shutdown: Shutdown,
}

impl<V: Service + 'static> Worker<V> {
    /// Serves until the shutdown is complete.
    pub(super) fn run(self) -> Result<(), ServerError> {
        // However this thread ends, the others must not go on as if nothing had happened.
        let _stop_all = self.shutdown.drain.clone().drop_guard();
        scheduling::wait_for_the_processor();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // For both disks: what bounds them is one number for all workers.
            .max_blocking_threads(2 * blocking::MAX_THREADS)
            .thread_keep_alive(DISK_THREAD_KEEP_ALIVE)
            .build()?;
        let result = runtime.block_on(self.serve());
        // A read that waits for a broken disk must not hold up the end of the process.
        runtime.shutdown_background();
        result
    }

    async fn serve(self) -> Result<(), ServerError> {
        let drain_timeout = self.options.drain_timeout;
        let connections = TaskTracker::new();
        let pulse = Arc::new(self.pulse);
        let shared = Arc::new(Connections {
            service: self.service,
            options: self.options,
            permits: self.permits,
            pulse: Arc::clone(&pulse),
            drain: self.shutdown.drain.clone(),
            // Its own token: waiting on one that all workers share would make them wait for each other.
            cut: self.shutdown.cut.child_token(),
            tracker: connections.clone(),
        });
        let mut accepting = JoinSet::new();
        for index in 0..self.listeners.len() {
            let (shared, listeners) = (Arc::clone(&shared), Arc::clone(&self.listeners));
            let socket = transport::watch(Arc::clone(listeners[index].socket()))?;
            accepting.spawn(async move { shared.accept_from(&listeners[index], socket).await });
        }
        tokio::spawn(Arc::clone(&pulse).answer());
        pulse.accepts();
        while let Some(ended) = accepting.join_next().await {
            ended.map_err(|_| ServerError::WorkerLost)??;
        }
        drop(self.listeners);
        connections.close();
        if connections.is_empty() {
            return Ok(());
        }
        info!(connections = connections.len(), "draining");
        let cut = self.shutdown.cut;
        select! {
            drained = timeout(drain_timeout, connections.wait()) => if drained.is_ok() { return Ok(()) },
            () = cut.cancelled() => {}
        }
        warn!(connections = connections.len(), "cutting what still runs");
        shared.cut.cancel();
        let _ = timeout(CUT_TIMEOUT, connections.wait()).await;
        Ok(())
    }
}

/// What the connections of a worker share.
struct Connections<V> {
    service: Arc<V>,
    options: ServerOptions,
    permits: Arc<Semaphore>,
    pulse: Arc<Pulse>,
    drain: CancellationToken,
    cut: CancellationToken,
    tracker: TaskTracker,
}

impl<V: Service + 'static> Connections<V> {
    /// Accepts until the drain begins. Never ends because of a connection or of a want of resources.
    async fn accept_from(self: Arc<Self>, listener: &Listener, socket: AsyncFd<Arc<OwnedFd>>) -> io::Result<()> {
        let is_tcp = matches!(listener.address(), Address::Tcp(_));
        let mut last_complaint: Option<Instant> = None;
        loop {
            let mut ready = select! {
                biased;
                () = self.drain.cancelled() => break,
                ready = socket.readable() => ready?,
            };
            for _ in 0..ACCEPTS_PER_TURN {
                // First the permit, then the connection: without one it stays in the queue.
                let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                    select! {
                        () = self.drain.cancelled() => {}
                        permit = self.permits.acquire() => drop(permit),
                    }
                    break;
                };
                match accept(socket.get_ref()) {
                    Ok(Some(accepted)) => self.spawn(accepted, permit, is_tcp),
                    Ok(None) => {}
                    Err(Errno::AGAIN) => {
                        ready.clear_ready();
                        break;
                    }
                    Err(cause) => {
                        if last_complaint.is_none_or(|at| at.elapsed() >= COMPLAINT_INTERVAL) {
                            error!(%cause, "cannot accept connections now; trying again");
                            last_complaint = Some(Instant::now());
                        }
                        select! {
                            () = self.drain.cancelled() => {}
                            () = sleep(ACCEPT_PAUSE) => {}
                        }
                        break;
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        if listener.outlives_us() {
            // Whoever is in its queue is served by the process that comes after this one.
            return Ok(());
        }
        listener.withdraw();
        select! {
            () = self.empty_queue(socket.get_ref(), is_tcp) => {}
            () = self.cut.cancelled() => {}
        }
        Ok(())
    }

    /// Accepts what has queued up: the kernel has promised an answer to each of them.
    async fn empty_queue(self: &Arc<Self>, socket: &OwnedFd, is_tcp: bool) {
        let mut turn = 0;
        while let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await {
            match accept(socket) {
                Ok(Some(accepted)) => self.spawn(accepted, permit, is_tcp),
                Ok(None) => {}
                Err(_) => return,
            }
            turn += 1;
            if turn % ACCEPTS_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn spawn(self: &Arc<Self>, accepted: OwnedFd, permit: OwnedSemaphorePermit, is_tcp: bool) {
        if is_tcp {
            // Heads and ends of answers must not wait for acknowledgements. Best effort: it only costs time.
            let _ = sockopt::set_tcp_nodelay(&accepted, true);
        }
        let mut connection = Box::pin(Arc::clone(self).connection(accepted, permit));
        // Most are over before they have to wait: those need no task. One that panics is gone, as a task would be.
        let mut first_turn = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| connection.as_mut().poll(&mut first_turn)));
        if polled.is_ok_and(|polled| polled.is_pending()) {
            // A task polls at least once more, and from then on is woken.
            tokio::spawn(self.tracker.track_future(connection));
        }
    }

    async fn connection(self: Arc<Self>, accepted: OwnedFd, _permit: OwnedSemaphorePermit) {
        let access_log = self.options.access_log;
        let exchange = Exchange::counted(Arc::clone(self.pulse.metrics().activity()));
        let mut recorded = Recorded { exchange, access_log, pulse: &self.pulse };
        // Dropped before the record: the peer waits for the close, nobody waits for the record.
        let socket = StreamSocket::new(accepted);
        select! {
            biased;
            () = transport::serve(&socket, &*self.service, &self.options.transport, &mut recorded.exchange) => {}
            () = self.cut.cancelled() => {}
        }
    }
}

/// An exchange that leaves its record when it is dropped: also by a panic.
struct Recorded<'a> {
    exchange: Exchange,
    access_log: bool,
    pulse: &'a Pulse,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.exchange.outcome = Outcome::Panicked;
        }
        telemetry::record(&self.exchange, self.pulse.metrics(), self.access_log);
    }
}

/// Takes a connection out of the queue, non-blocking; None where its peer gave up while it was waiting.
fn accept(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => Ok(None),
        accepted => accepted.map(Some),
    }
}
