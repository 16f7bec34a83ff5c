//! The integration tests: the real binary on a real socket, and what only a whole connection shows.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `clients` | bundles read by Python, Node and Chromium, and answers judged by a linter |
//! | `corpus` | packets as bytes, with their expected reading beside each |
//! | `handler` | requests to answers, without a socket |
//! | `harness` | a site of awkward files, a running daemon, nginx, raw clients, a strict multipart reader |
//! | `nginx` | through a real nginx with the project's nginx.conf |
//! | `representation` | ranges, conditions, shapes, lists: of real files, without a socket |
//! | `transport` | one connection over sockets in memory that stall, trickle and break |
//!
//! A test that needs a program says so in its name's module; where the program is missing it is installed by
//! `scripts/test`, and without it the test fails and says what to install.

#![allow(unreachable_pub, reason = "public within this binary")]

mod clients;
mod corpus;
mod handler;
mod harness;
mod nginx;
mod representation;
mod transport;

#[test]
fn smoke() {
    let site = harness::Site::awkward();
    let mut daemon = harness::Daemon::start(&site, &[]);
    let idle = daemon.descriptors();
    assert_eq!(daemon.get("/api/health").text(), "{\"status\":\"available\"}");
    assert_eq!(daemon.get("/api/stream-files?file1=a.txt&file2=b.txt").parts().len(), 2);
    daemon.assert_alive(idle);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
}
