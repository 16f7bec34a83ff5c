//! The metrics as text that Prometheus reads.

use std::{collections::BTreeMap, fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, prometheus_text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::{Registry, Unit},
};

use crate::telemetry::{
    cut::Cause,
    histogram::{Bounds, Histogram, Snapshot},
    metrics::{BUNDLE_BOUNDS, DURATION_BOUNDS, FIRST_BYTE_BOUNDS, Metrics, RouteMetrics, WorkerMetrics},
};

/// Every name begins with it.
const PREFIX: &str = "axon";

/// Durations are counted in microseconds and told in seconds.
const MICROS_PER_SEC: u64 = 1_000_000;

/// Answers that are told of before there is one, so that the step to the first one is seen.
const STATUSES_FROM_START: [u16; 3] = [200, 500, 503];

impl Metrics {
    /// The media type of the [page](Self::page).
    pub const MEDIA_TYPE: &str = prometheus_text::CONTENT_TYPE;

    /// All metrics as they are now, in the text format of Prometheus, version 0.0.4.
    pub fn page(self: &Arc<Self>) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(Arc::clone(self)));
        let mut page = String::new();
        // Memory takes everything.
        let _ = prometheus_text::encode(&mut page, &registry);
        page
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> u64 {
        self.sum(|worker| worker.activity.open())
    }

    /// How many requests were answered, or at least begun to be.
    pub fn requests(&self) -> u64 {
        self.sum(|worker| worker.routes.iter().flat_map(RouteMetrics::statuses).map(|(_, count)| count).sum())
    }

    /// How many bytes of bodies the kernel took.
    pub fn bytes_sent(&self) -> u64 {
        self.sum(|worker| worker.activity.bytes_sent())
    }

    fn sum(&self, count: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        self.workers.iter().map(|worker| count(worker)).sum()
    }

    /// What all workers have counted of a route, by its index.
    fn of_route(&self, index: usize) -> impl Iterator<Item = &RouteMetrics> {
        self.workers.iter().map(move |worker| &worker.routes[index])
    }

    /// Answers of a route by status.
    fn statuses(&self, index: usize) -> BTreeMap<u16, u64> {
        let mut all: BTreeMap<u16, u64> = STATUSES_FROM_START.map(|status| (status, 0)).into();
        for (status, count) in self.of_route(index).flat_map(RouteMetrics::statuses) {
            *all.entry(status).or_default() += count;
        }
        all
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        let help = "Which Axon this is; always 1";
        version.encode(page.0.encode_descriptor("build", help, None, version.metric_type())?)?;
        self.encode_requests(&mut page)?;
        self.encode_durations(&mut page)?;
        self.encode_content(&mut page)?;
        self.encode_connections(&mut page)?;
        match &self.lost_records {
            Some(read) => page.counter("log_records_dropped", "Log records that were lost", None, read()),
            None => Ok(()),
        }
    }
}

impl Metrics {
    fn encode_requests(&self, page: &mut Page<'_>) -> fmt::Result {
        let help = "Requests by route and by the status of their answer";
        let mut requests = page.0.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (index, route) in self.routes.iter().enumerate() {
            for (status, count) in self.statuses(index) {
                let status = status.to_string();
                let labels = [("route", *route), ("status", &status)];
                ConstCounter::new(count).encode(requests.encode_family(&labels)?)?;
            }
        }
        let help = "Answers that were cut, by cause";
        let mut cuts = page.0.encode_descriptor("cut_transfers", help, None, MetricType::Counter)?;
        for cause in Cause::ALL {
            let count = self.sum(|worker| worker.cuts[cause as usize].get());
            ConstCounter::new(count).encode(cuts.encode_family(&[("cause", cause.name())])?)?;
        }
        Ok(())
    }

    fn encode_durations(&self, page: &mut Page<'_>) -> fmt::Result {
        let help = "From the accept of a connection until the kernel took the first byte of its answer, by route";
        self.encode_by_route(page, "time_to_first_byte", help, &FIRST_BYTE_BOUNDS, |route| &route.first_byte)?;
        let help = "From the accept of a connection until it was closed, by route";
        self.encode_by_route(page, "request_duration", help, &DURATION_BOUNDS, |route| &route.duration)
    }

    fn encode_by_route<const N: usize>(
        &self,
        page: &mut Page<'_>,
        name: &str,
        help: &str,
        bounds: &'static Bounds<N>,
        histogram: impl Fn(&RouteMetrics) -> &Histogram<N>,
    ) -> fmt::Result {
        let mut family = page.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (index, route) in self.routes.iter().enumerate() {
            let snapshot = Snapshot::of(bounds, self.of_route(index).map(&histogram));
            encode_histogram(family.encode_family(&[("route", *route)])?, &snapshot, MICROS_PER_SEC)?;
        }
        Ok(())
    }

    fn encode_content(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counter("sent", "Bytes of bodies that the kernel took", Some(&Unit::Bytes), self.bytes_sent())?;
        let parts = self.sum(|worker| worker.parts.get());
        page.counter("parts", "Files that answers were made of", None, parts)?;
        let help = "Length of the bundles that were asked for whole";
        let family = page.0.encode_descriptor("bundle_size", help, Some(&Unit::Bytes), MetricType::Histogram)?;
        let lens = Snapshot::of(&BUNDLE_BOUNDS, self.workers.iter().map(|worker| &worker.bundle_len));
        encode_histogram(family, &lens, 1)?;
        if let Some(read) = &self.files_opened {
            page.counter("files_opened", "Opens of files that succeeded", None, read())?;
        }
        let cold = self.sum(|worker| worker.activity.cold_reads());
        page.counter("cold_reads", "Chunks that were not in memory and were read from the disk", None, cold)
    }

    fn encode_connections(&self, page: &mut Page<'_>) -> fmt::Result {
        let help = "Connections that are open, the one that asks for this among them";
        page.gauge("open_connections", help, self.open_connections())?;
        let help = "Connections whose reader has taken nothing for more than a second";
        page.gauge("stalled_connections", help, self.sum(|worker| worker.activity.stalled()))
    }
}

/// The text that is being made.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn counter(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(name, help, unit, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstGauge::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

fn encode_histogram<const N: usize>(mut out: MetricEncoder<'_>, snapshot: &Snapshot<N>, unit: u64) -> fmt::Result {
    out.encode_histogram::<NoLabelSet>(snapshot.sum(unit), snapshot.count(), &snapshot.buckets(unit), None)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, StatusCode};

    use super::*;
    use crate::{
        message::Request,
        transport::{Cut, Exchange, Outcome},
    };

    const ROUTES: &[&str] = &["health", "files", "other"];

    /// An exchange that came so far.
    fn exchange(worker: &WorkerMetrics, route: &'static str, status: u16, outcome: Outcome) -> Exchange {
        let mut exchange = Exchange::counted(Arc::clone(worker.activity()));
        exchange.request = Some((&Request::new(Method::GET, "/", "")).into());
        exchange.status = StatusCode::from_u16(status).ok();
        exchange.route = route;
        exchange.first_byte = Some(exchange.started + Duration::from_micros(100));
        exchange.outcome = outcome;
        exchange
    }

    #[track_caller]
    fn assert_lines(metrics: &Arc<Metrics>, expected: &[&str]) {
        let page = metrics.page();
        for line in expected {
            assert!(page.lines().any(|found| found == *line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn what_the_workers_count_is_added_up() {
        let metrics = Arc::new(Metrics::new(2, ROUTES).with_files_opened(|| 7).with_lost_records(|| 8));
        for (number, status, micros) in [(0, 200, 250), (1, 200, 251), (1, 206, 2_000_000_000)] {
            let worker = metrics.worker(number);
            let mut exchange = exchange(&worker, "files", status, Outcome::Complete);
            exchange.parts = 2;
            exchange.bundle_len = (status == 200).then_some(1024);
            worker.count(&exchange, Duration::from_micros(micros));
        }
        assert_lines(
            &metrics,
            &[
                "# TYPE axon_build_info gauge",
                concat!("axon_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
                "# TYPE axon_requests_total counter",
                "axon_requests_total{route=\"files\",status=\"200\"} 2",
                "axon_requests_total{route=\"files\",status=\"206\"} 1",
                "axon_requests_total{route=\"files\",status=\"503\"} 0",
                "axon_requests_total{route=\"other\",status=\"200\"} 0",
                "axon_parts_total 6",
                "axon_bundle_size_bytes_bucket{le=\"1024\"} 2",
                "axon_bundle_size_bytes_sum 2048.0",
                "axon_time_to_first_byte_seconds_bucket{route=\"files\",le=\"0.0001\"} 3",
                "axon_request_duration_seconds_bucket{route=\"files\",le=\"0.00025\"} 1",
                "axon_request_duration_seconds_bucket{route=\"files\",le=\"0.0005\"} 2",
                "axon_request_duration_seconds_bucket{route=\"files\",le=\"1800\"} 2",
                "axon_request_duration_seconds_bucket{route=\"files\",le=\"+Inf\"} 3",
                "axon_request_duration_seconds_sum{route=\"files\"} 2000.000501",
                "axon_request_duration_seconds_count{route=\"health\"} 0",
                "axon_files_opened_total 7",
                "axon_log_records_dropped_total 8",
                "axon_open_connections 0",
            ],
        );
    }

    #[test]
    fn cuts_are_counted_by_cause_and_only_where_there_was_a_request() {
        let metrics = Arc::new(Metrics::new(1, ROUTES));
        let worker = metrics.worker(0);
        let gone = || Cut::Client(std::io::ErrorKind::BrokenPipe.into());
        for outcome in [Outcome::Cut(gone()), Outcome::Cut(gone()), Outcome::Cut(Cut::Stalled), Outcome::Unfinished] {
            worker.count(&exchange(&worker, "files", 200, outcome), Duration::ZERO);
        }
        let mut idle = exchange(&worker, "other", 0, Outcome::Unfinished);
        idle.request = None;
        worker.count(&idle, Duration::ZERO);
        worker.count(&exchange(&worker, "other", 0, Outcome::Unfinished), Duration::ZERO);
        worker.count(&exchange(&worker, "other", 200, Outcome::Silent), Duration::ZERO);
        assert_lines(
            &metrics,
            &[
                "axon_cut_transfers_total{cause=\"client\"} 2",
                "axon_cut_transfers_total{cause=\"stalled\"} 1",
                "axon_cut_transfers_total{cause=\"file\"} 0",
                "axon_cut_transfers_total{cause=\"shutdown\"} 2",
                "axon_requests_total{route=\"files\",status=\"200\"} 4",
                "axon_requests_total{route=\"other\",status=\"200\"} 0",
                "axon_open_connections 1",
            ],
        );
    }

    #[test]
    fn what_nobody_expected_is_counted_too() {
        let metrics = Arc::new(Metrics::new(1, ROUTES));
        let worker = metrics.worker(0);
        for (route, status) in [("unknown", 418), ("other", 418), ("unknown", 404), ("other", 599)] {
            worker.count(&exchange(&worker, route, status, Outcome::Complete), Duration::MAX);
        }
        assert_lines(
            &metrics,
            &[
                "axon_requests_total{route=\"other\",status=\"404\"} 1",
                "axon_requests_total{route=\"other\",status=\"418\"} 2",
                "axon_requests_total{route=\"other\",status=\"599\"} 1",
            ],
        );
        assert_eq!(metrics.requests(), 4);
        assert!(!metrics.page().contains("unknown"));
    }
}
