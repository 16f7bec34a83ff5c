//! Axon answers one HTTP request with many files.
//!
//! nginx takes the connection and hands the request over a unix socket in the uwsgi binary protocol; Axon
//! streams the files back as one multipart body, 64 KiB at a time, only as fast as the reader takes them.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`body`] | a chain of bytes and file ranges whose total length is known |
//! | [`message`] | HTTP meaning, no bytes on a wire: requests, answers, validators, the service |
//! | [`bundle`] | many representations as one: the plan and its multipart form |
//! | [`wire`] | bytes to heads and back: uwsgi packets, CGI variables, answer heads |
//! | [`blocking`] | where calls wait for a disk, so that no worker does |
//! | [`store`] | where content lives: names that cannot leave the root, local files |
//! | [`handler`] | requests to answers: the routes |
//! | [`transport`] | one connection: read, call, write, time out |
//! | [`server`] | listeners, workers, shutdown; joins all rooms |
//! | [`client`] | a uwsgi request; a bundle unpacked |
//! | [`telemetry`] | log records and metrics |
//! | [`check`] | is a set-up going to work: this machine and nginx's configuration |
//! | [`cli`] | what the user may type |
//!
//! Arrows go one way: `body ← message ← {wire, store, bundle} ← handler`; `transport` sees `wire`, `message`
//! and `body`, with `store` it shares `blocking`, and it is generic over [`message::Service`]; `server` alone joins handler and transport. `wire`,
//! `message`, `bundle` and `body` do no I/O and know no runtime and no clock. `scripts/layers` checks it.
//!
//! What wins over what: correct, confined, fast, small.

#[cfg(not(target_os = "linux"))]
compile_error!("Axon needs Linux: openat2 confines it to its root");

pub mod blocking;
pub mod body;
pub mod bundle;
pub mod check;
pub mod cli;
pub mod client;
pub mod handler;
pub mod message;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod transport;
pub mod wire;
