//! The integration tests: the real binary on a real socket, and what only a whole connection shows.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `harness` | a site of awkward files, a running daemon, a raw uwsgi client, a strict multipart reader |
//! | `bundle` | many files as one: lengths, order, identity, names, and one that cannot be served |
//! | `cli` | `axon request`, the help and the environment |
//! | `faults` | files that change, readers that stall, too many of something, a log that is stuck or gone |
//! | `log` | what a request leaves in the log |
//! | `paths` | names that lead elsewhere, or nowhere, or to what is no file |
//! | `protocol` | the uwsgi protocol: packets whole, in pieces, at their limits, and what only looks like one |
//! | `sockets` | who may connect, what is at a socket's place, and how a daemon ends |
//!
//! A test that needs a program says so in its name's module; where the program is missing it is installed by
//! `scripts/test`, and without it the test fails and says what to install.

#![allow(unreachable_pub, reason = "public within this binary")]

mod harness;

mod bundle;
mod cli;
mod faults;
mod log;
mod paths;
mod protocol;
mod sockets;
