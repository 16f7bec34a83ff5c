//! What is counted, for Prometheus.
//!
//! A worker counts for itself, at the end of each request and on cache lines that nobody else writes to; what all of
//! them have counted is added up when somebody asks. So a request takes no lock and waits for no other worker.
//! `docs/metrics.md` says what each metric means.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    telemetry::{
        cut::Cause,
        histogram::{Bounds, Histogram},
    },
    transport::{Activity, Exchange, LocalCounter, Outcome},
};

/// The statuses that Axon's answers have, in order. Any other is counted as well, but takes a lock.
const COMMON_STATUSES: [u16; 16] = [200, 206, 304, 400, 403, 404, 405, 406, 408, 412, 413, 415, 416, 431, 500, 503];

/// In microseconds: from an answer that was in memory to a disk that has to be woken up.
pub(super) const FIRST_BYTE_BOUNDS: Bounds<17> = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    u64::MAX,
];

/// In microseconds: from the same to half an hour of a slow reader.
pub(super) const DURATION_BOUNDS: Bounds<20> = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    u64::MAX,
];

/// In bytes: a quarter of what comes next, from 1 KiB to 4 GiB.
pub(super) const BUNDLE_BOUNDS: Bounds<13> = [
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
    1 << 28,
    1 << 30,
    1 << 32,
    u64::MAX,
];

/// A number that somebody else counts.
type Reading = Box<dyn Fn() -> u64 + Send + Sync>;

/// Everything that is counted in a process. What its workers count, and readings of what is counted elsewhere.
pub struct Metrics {
    pub(super) workers: Vec<Arc<WorkerMetrics>>,
    /// The names of routes. What has none of these counts as the last one.
    pub(super) routes: &'static [&'static str],
    pub(super) files_opened: Option<Reading>,
    pub(super) lost_records: Option<Reading>,
}

/// What one worker counts, on its own thread.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerMetrics {
    pub(super) activity: Arc<Activity>,
    route_names: &'static [&'static str],
    pub(super) routes: Box<[RouteMetrics]>,
    pub(super) parts: LocalCounter,
    pub(super) bundle_len: Histogram<13>,
    pub(super) cuts: [LocalCounter; Cause::ALL.len()],
}

/// What is counted of one route.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct RouteMetrics {
    /// Answers with one of the common statuses, in their order.
    common: [LocalCounter; COMMON_STATUSES.len()],
    /// Answers with any other.
    rare: Mutex<BTreeMap<u16, u64>>,
    pub(super) first_byte: Histogram<17>,
    pub(super) duration: Histogram<20>,
}

impl Metrics {
    /// Metrics of a server with so many workers, whose answers have one of these
    /// [routes](crate::message::Response::route). What has
    /// none of them counts as the last.
    ///
    /// # Panics
    /// Where there is no route.
    pub fn new(workers: usize, routes: &'static [&'static str]) -> Self {
        assert!(!routes.is_empty(), "answers need a route to be counted for");
        let workers = std::iter::repeat_with(|| Arc::new(WorkerMetrics::new(routes))).take(workers).collect();
        Self { workers, routes, files_opened: None, lost_records: None }
    }

    /// Adds how many files were opened.
    #[must_use]
    pub fn with_files_opened(mut self, reading: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.files_opened = Some(Box::new(reading));
        self
    }

    /// Adds how many log records were lost.
    #[must_use]
    pub fn with_lost_records(mut self, reading: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.lost_records = Some(Box::new(reading));
        self
    }

    /// What a worker counts with, by its number.
    ///
    /// # Panics
    /// Where there is no such worker.
    pub fn worker(&self, number: usize) -> Arc<WorkerMetrics> {
        Arc::clone(&self.workers[number])
    }
}

impl WorkerMetrics {
    fn new(routes: &'static [&'static str]) -> Self {
        Self {
            activity: Arc::default(),
            route_names: routes,
            routes: routes.iter().map(|_| RouteMetrics::new()).collect(),
            parts: LocalCounter::new(),
            bundle_len: Histogram::new(&BUNDLE_BOUNDS),
            cuts: [const { LocalCounter::new() }; Cause::ALL.len()],
        }
    }

    /// What the worker's connections do at this moment.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Counts an exchange that is over, after so long.
    pub fn count(&self, exchange: &Exchange, duration: Duration) {
        if exchange.request.is_some()
            && let Some(cause) = Cause::of(&exchange.outcome)
        {
            self.cuts[cause as usize].add(1);
        }
        let Some(status) = exchange.status.filter(|_| !matches!(exchange.outcome, Outcome::Silent)) else { return };
        let route = self.route(exchange.route);
        route.add(status.as_u16());
        route.duration.add(micros(duration));
        if let Some(first_byte) = exchange.first_byte {
            route.first_byte.add(micros(first_byte.saturating_duration_since(exchange.started)));
        }
        if exchange.parts > 0 {
            self.parts.add(exchange.parts as u64);
        }
        if let Some(len) = exchange.bundle_len {
            self.bundle_len.add(len);
        }
    }

    fn route(&self, name: &str) -> &RouteMetrics {
        let known = self.route_names.iter().position(|&known| known == name);
        &self.routes[known.unwrap_or(self.routes.len() - 1)]
    }
}

impl RouteMetrics {
    fn new() -> Self {
        Self {
            common: [const { LocalCounter::new() }; _],
            rare: Mutex::default(),
            first_byte: Histogram::new(&FIRST_BYTE_BOUNDS),
            duration: Histogram::new(&DURATION_BOUNDS),
        }
    }

    /// Counts an answer with this status.
    fn add(&self, status: u16) {
        match COMMON_STATUSES.binary_search(&status) {
            Ok(index) => self.common[index].add(1),
            Err(_) => *self.rare().entry(status).or_default() += 1,
        }
    }

    /// How many answers there were of each status, those without any left out.
    pub(super) fn statuses(&self) -> BTreeMap<u16, u64> {
        let common = COMMON_STATUSES.into_iter().zip(self.common.iter().map(LocalCounter::get));
        let mut all = self.rare().clone();
        all.extend(common.filter(|&(_, count)| count > 0));
        all
    }

    fn rare(&self) -> MutexGuard<'_, BTreeMap<u16, u64>> {
        // Nothing that is done under the lock can leave it in a wrong state.
        self.rare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("workers", &self.workers.len())
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// Microseconds: their sum has room for half a million years.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_up_is_in_order() {
        assert!(COMMON_STATUSES.is_sorted());
        assert!(FIRST_BYTE_BOUNDS.is_sorted() && DURATION_BOUNDS.is_sorted() && BUNDLE_BOUNDS.is_sorted());
        // A cause is counted at its place among all.
        assert!(Cause::ALL.iter().enumerate().all(|(place, &cause)| cause as usize == place));
    }
}
