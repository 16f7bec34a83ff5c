//! The rooms that do no I/O: what a request costs before the first system call of its answer.
//!
//! `cargo bench` runs all of it in well under a minute; `cargo bench -- slice` only what has that in its name.

mod fixtures;

use axon::{bundle::Shape, handler, telemetry::Metrics, wire};
use divan::{Bencher, black_box};
use http::{HeaderValue, header};

fn main() {
    divan::main();
}

/// From the bytes of a packet to a request.
mod packet {
    use super::{Bencher, black_box, fixtures};

    #[divan::bench]
    fn one_file(bencher: Bencher<'_, '_>) {
        let packet = fixtures::packet("file1=tiles/12/0.png", &[]);
        bencher.bench_local(|| fixtures::request(black_box(&packet)));
    }

    #[divan::bench]
    fn a_long_query(bencher: Bencher<'_, '_>) {
        let packet = fixtures::packet(&fixtures::query(1000), &[]);
        bencher.bench_local(|| fixtures::request(black_box(&packet)));
    }
}

/// From a query to the names in it.
#[divan::bench(args = [1, 2, 1000])]
fn query(bencher: Bencher<'_, '_>, files: usize) {
    let query = fixtures::query(files);
    bencher.bench_local(|| {
        let pairs = wire::decode_form(black_box(query.as_bytes()));
        pairs.map(|pair| pair.expect("form data").1.len()).sum::<usize>()
    });
}

/// From measured files to a planned bundle.
mod plan {
    use super::{Bencher, Shape, fixtures};

    /// One part: hardly more than its head and the boundary.
    #[divan::bench]
    fn part_head(bencher: Bencher<'_, '_>) {
        of(bencher, 1);
    }

    #[divan::bench(args = [2, 1000])]
    fn bundle(bencher: Bencher<'_, '_>, files: usize) {
        of(bencher, files);
    }

    fn of(bencher: Bencher<'_, '_>, files: usize) {
        let key = fixtures::key();
        let parts = fixtures::parts(files, &key);
        bencher
            .with_inputs(|| parts.clone())
            .bench_local_values(|parts| axon::bundle::bundle(parts, Shape::Mixed, &key));
    }
}

/// `Content-Disposition`, the one field of a part's head that takes thought.
#[divan::bench(args = ["0-0.png", "how to read a gauge.txt", "Pegelstände für März.csv"])]
fn disposition(name: &str) -> String {
    axon::bundle::inline(Some(name.as_bytes()))
}

/// Ranges of a bundle of 1,000 files.
mod slice {
    use super::{Bencher, HeaderValue, black_box, fixtures, header};

    #[divan::bench]
    fn one_near_the_start(bencher: Bencher<'_, '_>) {
        of(bencher, "bytes=100-99999");
    }

    #[divan::bench]
    fn one_near_the_end(bencher: Bencher<'_, '_>) {
        of(bencher, "bytes=-100000");
    }

    /// As many as are answered, spread over the whole.
    #[divan::bench]
    fn many(bencher: Bencher<'_, '_>) {
        let ranges: Vec<_> =
            (0..axon::message::MAX_RANGES).map(|i| format!("{0}-{1}", i * 60_000, i * 60_000 + 999)).collect();
        of(bencher, &format!("bytes={}", ranges.join(",")));
    }

    fn of(bencher: Bencher<'_, '_>, range: &str) {
        let bundle = fixtures::bundle(1000);
        let mut request = fixtures::request(&fixtures::packet("", &[]));
        request.headers.insert(header::RANGE, HeaderValue::from_str(range).expect("a header value"));
        bencher.with_inputs(|| bundle.clone()).bench_local_values(|bundle| {
            let response = bundle.respond(black_box(&request));
            assert_eq!(response.status, 206);
            response
        });
    }
}

/// The metrics.
mod metrics {
    use std::{sync::Arc, time::Duration};

    use axon::transport::{Exchange, Outcome};
    use http::StatusCode;

    use super::{Bencher, Metrics, black_box, fixtures, handler};

    /// What every request adds to what it costs; asking for the time is not in it.
    #[divan::bench]
    fn count(bencher: Bencher<'_, '_>) {
        let worker = Metrics::new(1, handler::ROUTES).worker(0);
        let mut exchange = Exchange::counted(Arc::clone(worker.activity()));
        exchange.request = Some((&fixtures::request(&fixtures::packet("", &[]))).into());
        exchange.status = Some(StatusCode::OK);
        exchange.route = "stream-files";
        (exchange.parts, exchange.bundle_len) = (2, Some(100_000));
        exchange.first_byte = Some(exchange.started + Duration::from_micros(80));
        exchange.outcome = Outcome::Complete;
        bencher.bench_local(|| worker.count(black_box(&exchange), black_box(Duration::from_micros(90))));
    }

    /// The page, for two workers.
    #[divan::bench]
    fn page(bencher: Bencher<'_, '_>) {
        let metrics = Arc::new(Metrics::new(2, handler::ROUTES));
        bencher.bench_local(|| metrics.page());
    }
}

/// The head of an answer.
#[divan::bench]
fn answer_head(bencher: Bencher<'_, '_>) {
    let response = fixtures::bundle(2).respond(&fixtures::request(&fixtures::packet("", &[])));
    bencher.bench_local(|| wire::encode_head(black_box(&response)));
}
