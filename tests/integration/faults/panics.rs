//! A panic costs the request it happens in, and nothing else.

use std::{fs, panic, str::FromStr as _, sync::Arc, thread};

use axon::{
    body::Body,
    message::{Request, Response},
    server::{Listener, ServerOptions, Shutdown, SocketOptions, Vitals, run},
    telemetry::{Log, LogFormat, LogOptions, Metrics},
    transport::Address,
};
use http::StatusCode;
use serde_json::Value;
use tracing::Level;

use crate::harness::{End, Packet, Site, exchange, parse_records};

/// Panics where the path says so: at once, or after it has waited.
async fn service(request: Request) -> Response {
    match &request.path[..] {
        b"/at-once" => panic!("at once"),
        b"/later" => {
            tokio::task::yield_now().await;
            panic!("later");
        }
        _ => Response::new(StatusCode::OK, Body::from(request.path)),
    }
}

#[test]
fn a_panic_costs_one_request() {
    const ROUNDS: usize = 5;
    let site = Site::empty();
    let path = site.beside("own.log");
    let options = LogOptions { file: Some(path.clone()), format: Some(LogFormat::Json), level: Level::INFO };
    let log = Log::start(&options).expect("a log");
    let socket = site.beside("own.sock");
    let address = Address::from_str(&format!("unix:{}", socket.display())).expect("an address");
    let listener = Listener::bind(&address, &SocketOptions::default()).expect("a listener");
    let shutdown = Shutdown::default();
    let stop = shutdown.drain.clone();
    let options = ServerOptions { workers: 1, max_connections: 2, ..ServerOptions::default() };
    let vitals = Vitals::new(&options, Metrics::new(1, &["other"]));
    let metrics = Arc::clone(vitals.metrics());
    let server = thread::spawn(move || run(vec![listener], service, options, &shutdown, &vitals));
    let get = |path: &str| exchange(&socket, &Packet::get(path).to_bytes());
    // More of them than connections are allowed: each gives its place back.
    for _ in 0..ROUNDS {
        for path in ["/at-once", "/later"] {
            let answer = get(path);
            assert_eq!((&answer.raw[..], answer.end), (&b""[..], End::Closed), "{path}");
        }
        assert_eq!(get("/fine").text(), "/fine");
    }
    stop.cancel();
    server.join().expect("the server does not panic").expect("and ends as it was told");
    assert!(!socket.exists());
    log.finish();
    // The hook was the log's; what else panics in this process should say so where it did before.
    let _ = panic::take_hook();

    let records = parse_records(&fs::read_to_string(&path).expect("a log"));
    let count = |holds: &dyn Fn(&Value) -> bool| records.iter().filter(|record| holds(record)).count();
    for (path, text) in [("/at-once", "at once"), ("/later", "later")] {
        assert_eq!(count(&|record| record["level"] == "ERROR" && record["panic"] == text), ROUNDS, "one each");
        assert_eq!(count(&|record| record["path"] == path && record["cut"] == "panic"), ROUNDS, "{records:?}");
        assert_eq!(count(&|record| record["path"] == path), ROUNDS, "and no other");
    }
    let page = metrics.page();
    for line in ["axon_cut_transfers_total{cause=\"panic\"} 10", "axon_open_connections 0"] {
        assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    assert_eq!(count(&|record| record["path"] == "/fine" && record["cut"].is_null()), ROUNDS);
}
