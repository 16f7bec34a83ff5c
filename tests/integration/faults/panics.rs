//! A panic costs the request it happens in, and nothing else.

use std::{str::FromStr as _, thread};

use axon::{
    body::Body,
    message::{Request, Response},
    server::{Listener, ServerOptions, Shutdown, SocketOptions, Vitals, run},
    transport::Address,
};
use http::StatusCode;

use crate::harness::{End, Packet, Site, exchange};

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
    let site = Site::empty();
    let socket = site.beside("own.sock");
    let address = Address::from_str(&format!("unix:{}", socket.display())).expect("an address");
    let listener = Listener::bind(&address, &SocketOptions::default()).expect("a listener");
    let shutdown = Shutdown::default();
    let stop = shutdown.drain.clone();
    let options = ServerOptions { workers: 1, max_connections: 2, ..ServerOptions::default() };
    let vitals = Vitals::new(&options);
    let server = thread::spawn(move || run(vec![listener], service, options, &shutdown, &vitals));
    let get = |path: &str| exchange(&socket, &Packet::get(path).to_bytes());
    // More of them than connections are allowed: each gives its place back.
    for _ in 0..5 {
        for path in ["/at-once", "/later"] {
            let answer = get(path);
            assert_eq!((&answer.raw[..], answer.end), (&b""[..], End::Closed), "{path}");
        }
        assert_eq!(get("/fine").text(), "/fine");
    }
    stop.cancel();
    server.join().expect("the server does not panic").expect("and ends as it was told");
    assert!(!socket.exists());
}
