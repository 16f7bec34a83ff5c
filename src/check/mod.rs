//! Is a set-up going to work? What is looked at, found wrong, and how to mend it.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `finding` | one thing that was looked at, and how it is told |
//! | `system` | this machine: root, sockets, limits, secret, what the kernel can do |
//! | `nginx` | a configuration of nginx: what stands in the way of Axon's answers |
//!
//! What the kernel can do is found out by doing it, not by its version. Nothing is changed: no file is made. A TCP port
//! is bound for a moment, and what listens already gets a request for its health.

mod finding;
mod nginx;
mod system;

use std::path::PathBuf;

pub use finding::{Counts, Finding, Report, Severity};
pub use nginx::Place;

use crate::server::Config;

/// Where the socket is by systemd/axon.socket and nginx.conf, for a check that is told of none.
const USUAL_SOCKET: &str = "/run/axon/axon.sock";

/// What is going to be checked.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What `axon serve` would be started with. Without addresses they are the service manager's matter.
    pub config: Config,
    /// Whether there is a root; without one, `config.root` does not count.
    pub has_root: bool,
    /// Where records are appended; None is standard error.
    pub log_file: Option<PathBuf>,
    /// A configuration of nginx: the output of `nginx -T`, or a file of it; `-` is standard input.
    pub nginx: Option<PathBuf>,
}

/// Looks at everything.
pub fn run(subject: &Subject) -> Report {
    let mut findings = system::examine(subject);
    if let Some(path) = &subject.nginx {
        findings.extend(nginx::examine(path, subject));
    }
    Report { findings }
}
