//! This machine: what Axon would find when it starts.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `root` | the directory that is served, and whether its files can be read |
//! | `kernel` | what the kernel can do with a file of that directory |
//! | `sockets` | where Axon listens, or is to listen |
//! | `limits` | descriptors, the queue of connections, buffers of sockets |
//! | `secret` | the secret file, and where records go |
//!
//! All of it as the user who asks: whoever checks as root is told so.

mod kernel;
mod limits;
mod root;
mod secret;
mod sockets;

use std::path::Path;

pub(super) use sockets::{group_id, group_name, listening};

use crate::check::{Finding, Subject};

/// Looks at everything but nginx.
pub(super) fn examine(subject: &Subject) -> Vec<Finding> {
    let root = subject.has_root.then_some(subject.config.root.as_path());
    let mut findings = root::examine(root);
    findings.extend(kernel::examine(root));
    findings.extend(sockets::examine(subject));
    findings.extend(limits::examine(&subject.config.server));
    findings.extend(secret::examine(subject));
    findings
}

/// Whether a file lies in the served directory, and could be asked for.
fn is_served(path: &Path, root: Option<&Path>) -> bool {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (directory.canonicalize(), root.and_then(|root| root.canonicalize().ok())) {
        (Ok(directory), Some(root)) => directory.starts_with(root),
        _ => false,
    }
}

/// Whether we may write to a file or directory, by who we are now.
fn may_write(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD};
    rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}
