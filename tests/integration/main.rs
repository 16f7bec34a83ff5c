//! The integration tests: the real binary on a real socket, and what only a whole connection shows.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `bundle` | many files as one: lengths, order, identity, names, and one that cannot be served |
//! | `check` | `axon check`: this machine, and configurations of nginx with a mistake each |
//! | `cli` | `axon request`, the help and the environment |
//! | `clients` | bundles read by Python, Node and Chromium, and answers judged by a linter |
//! | `corpus` | packets as bytes, with their expected reading beside each |
//! | `faults` | files that change, disks that fail, readers that stall, too many of something, a log that is stuck |
//! | `handler` | requests to answers, without a socket |
//! | `harness` | a site of awkward files, a running daemon, nginx, raw clients, a strict multipart reader |
//! | `health` | whether somebody answers, and whether files could be served |
//! | `limits` | every limit from both sides |
//! | `log` | what a request leaves in the log |
//! | `manual` | the manual pages and the completions of shells, as they are generated |
//! | `metrics` | what is counted, and what ships beside it: alerts, dashboard |
//! | `nginx` | through a real nginx with the project's nginx.conf |
//! | `paths` | names that lead elsewhere, or nowhere, or to what is no file |
//! | `protocol` | the uwsgi protocol: packets whole, in pieces, at their limits, and what only looks like one |
//! | `representation` | ranges, conditions, shapes, lists: of real files, without a socket |
//! | `scheduling` | the policy that the threads run under |
//! | `sockets` | who may connect, what is at a socket's place, and how a daemon ends |
//! | `systemd` | sockets that are passed, what a service manager is told and asks for, restarts, the units |
//! | `transport` | one connection over sockets in memory that stall, trickle and break |
//! | `unpack` | `axon unpack`: bundles through nginx and curl, cut ones, hostile ones, those of others |
//!
//! A test that needs a program says so in its name's module; where the program is missing it is installed by
//! `scripts/test`, and without it the test fails and says what to install.

#![allow(unreachable_pub, reason = "public within this binary")]

mod bundle;
mod check;
mod cli;
mod clients;
mod corpus;
mod faults;
mod handler;
mod harness;
mod health;
mod limits;
mod log;
mod manual;
mod metrics;
mod nginx;
mod paths;
mod protocol;
mod representation;
mod scheduling;
mod sockets;
mod systemd;
mod transport;
mod unpack;
