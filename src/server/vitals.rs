//! What a running server tells of itself: whether it accepts, whether each worker is alive, how much it serves.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{Semaphore, watch};

use crate::{
    server::ServerOptions,
    telemetry::{Metrics, WorkerMetrics},
};

/// The round that a worker has answered which has ended: it owes no further answer.
const ENDED: u64 = u64::MAX;

/// What the workers of a server tell, for whoever watches it. Reading it costs them nothing.
#[derive(Debug)]
pub struct Vitals {
    /// One for each connection that may be open.
    permits: Arc<Semaphore>,
    workers: Box<[WorkerVitals]>,
    /// What they count.
    metrics: Arc<Metrics>,
    /// How many workers have begun to accept.
    accepting: watch::Sender<usize>,
    /// The number of the latest round of [`Vitals::ask`].
    round: watch::Sender<u64>,
}

/// What one worker tells.
#[derive(Debug, Default)]
struct WorkerVitals {
    /// The number of the latest round that it has answered.
    answered: AtomicU64,
}

/// How much a server has to do, and has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Load {
    /// Connections that are open now.
    pub connections: u64,
    /// Requests that were answered since the start, or at least begun to be.
    pub requests: u64,
    /// Bytes of their bodies that were sent.
    pub bytes: u64,
}

impl Vitals {
    /// Those of a server that has not started yet. `metrics` are for as many [workers](ServerOptions::workers()).
    pub fn new(options: &ServerOptions, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(options.max_connections.min(Semaphore::MAX_PERMITS))),
            workers: std::iter::repeat_with(WorkerVitals::default).take(options.workers()).collect(),
            metrics: Arc::new(metrics),
            accepting: watch::Sender::new(0),
            round: watch::Sender::new(0),
        })
    }

    /// How many workers the server has.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Waits until every worker accepts connections: from then on the server answers.
    ///
    /// Cancel safety: safe.
    pub async fn accepting(&self) {
        // It cannot be closed while `self` is there.
        let _ = self.accepting.subscribe().wait_for(|&count| count == self.workers.len()).await;
    }

    /// Asks every worker for a sign of life. A worker answers between two steps of its requests: one that computes
    /// or waits for a disk does not.
    pub fn ask(&self) {
        self.round.send_modify(|round| *round += 1);
    }

    /// The workers that have not answered what was [asked](Self::ask) last, by their number.
    pub fn silent(&self) -> Vec<usize> {
        let round = *self.round.borrow();
        let silent = |&(_, worker): &(usize, &WorkerVitals)| worker.answered.load(Ordering::Relaxed) < round;
        self.workers.iter().enumerate().filter(silent).map(|(number, _)| number).collect()
    }

    /// How much there is to do, and was done.
    pub fn load(&self) -> Load {
        Load {
            connections: self.metrics.open_connections(),
            requests: self.metrics.requests(),
            bytes: self.metrics.bytes_sent(),
        }
    }

    /// What the workers count.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub(super) fn permits(&self) -> &Arc<Semaphore> {
        &self.permits
    }
}

/// One worker's place among the [`Vitals`]; when it is dropped the worker has ended.
pub(super) struct Pulse {
    vitals: Arc<Vitals>,
    metrics: Arc<WorkerMetrics>,
    number: usize,
}

impl Pulse {
    pub(super) fn new(vitals: &Arc<Vitals>, number: usize) -> Self {
        Self { vitals: Arc::clone(vitals), metrics: vitals.metrics.worker(number), number }
    }

    /// Says that this worker accepts from now on.
    pub(super) fn accepts(&self) {
        self.vitals.accepting.send_modify(|count| *count += 1);
    }

    /// Answers whenever the workers are asked for a sign of life; never ends.
    pub(super) async fn answer(self: Arc<Self>) {
        let mut rounds = self.vitals.round.subscribe();
        while let Ok(round) = rounds.wait_for(|&round| round > self.own().answered.load(Ordering::Relaxed)).await {
            self.own().answered.store(*round, Ordering::Relaxed);
        }
    }

    /// What this worker counts with.
    pub(super) fn metrics(&self) -> &Arc<WorkerMetrics> {
        &self.metrics
    }

    fn own(&self) -> &WorkerVitals {
        &self.vitals.workers[self.number]
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.own().answered.store(ENDED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transport::Exchange;

    fn vitals() -> Arc<Vitals> {
        Vitals::new(&ServerOptions { workers: 2, ..ServerOptions::default() }, Metrics::new(2, &["other"]))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_server_accepts_when_all_its_workers_do() {
        let vitals = vitals();
        let [first, second] = [0, 1].map(|number| Pulse::new(&vitals, number));
        let mut accepting = std::pin::pin!(vitals.accepting());
        first.accepts();
        assert!(futures_poll(accepting.as_mut()).await.is_pending());
        second.accepts();
        accepting.await;
        vitals.accepting().await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_does_not_answer_is_named_until_it_does() {
        let vitals = vitals();
        let [first, second] = [0, 1].map(|number| Arc::new(Pulse::new(&vitals, number)));
        assert!(vitals.silent().is_empty(), "nobody was asked yet");
        let answers = tokio::spawn(Arc::clone(&first).answer());
        for _ in 0..3 {
            vitals.ask();
            tokio::task::yield_now().await;
            assert_eq!(vitals.silent(), [1]);
        }
        let late = tokio::spawn(Arc::clone(&second).answer());
        tokio::task::yield_now().await;
        assert!(vitals.silent().is_empty(), "it has caught up");
        vitals.ask();
        assert_eq!(vitals.silent(), [0, 1], "nobody had a turn yet");
        // Whoever has ended owes nothing.
        late.abort();
        answers.abort();
        tokio::task::yield_now().await;
        drop(second);
        assert_eq!(vitals.silent(), [0]);
        drop(first);
        assert!(vitals.silent().is_empty());
    }

    #[test]
    fn load_is_the_sum_over_the_workers() {
        let vitals = vitals();
        let open = [0, 1, 1].map(|number| {
            let pulse = Pulse::new(&vitals, number);
            let mut exchange = Exchange::counted(Arc::clone(pulse.metrics().activity()));
            pulse.metrics().count(&exchange, Duration::ZERO);
            exchange.status = Some(http::StatusCode::OK);
            pulse.metrics().count(&exchange, Duration::ZERO);
            exchange
        });
        assert_eq!(vitals.load(), Load { connections: 3, requests: 3, bytes: 0 });
        drop(open);
        assert_eq!(vitals.load(), Load { connections: 0, requests: 3, bytes: 0 });
    }

    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context))).await
    }
}
