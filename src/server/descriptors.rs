//! The process's limit of open descriptors, and how far it goes.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::{blocking, store::MAX_HELD_DESCRIPTORS};

/// What a connection has open while one file is sent: its socket and the file.
pub const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// What it has open at most: its socket, of a large bundle the files that stay open, and the one that is opened again.
pub const MAX_DESCRIPTORS_PER_CONNECTION: u64 = DESCRIPTORS_PER_CONNECTION + MAX_HELD_DESCRIPTORS as u64;

/// What a process needs besides its connections: log, root, listeners, runtimes; and one for each thread that fetches
/// ahead, which are half of those that may wait for a disk.
pub const SPARE_DESCRIPTORS: u64 = 64 + blocking::MAX_THREADS as u64 / 2;

/// Raises the soft limit of open descriptors to the hard one, and gives it; None is no limit.
///
/// The soft limit is 1,024 by tradition, for programs that use `select`. This one does not.
pub fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if raised.is_ok() { maximum } else { current }
}

/// Says how far a limit goes where it does not go for all connections: in a warning where it is too low even for one
/// file each, and as a fact where only large bundles on every connection at once would need more.
pub(super) fn tell_if_few(limit: Option<u64>, max_connections: u64) {
    let Some(limit) = limit else { return };
    let enough = needed(max_connections, MAX_DESCRIPTORS_PER_CONNECTION);
    if limit < needed(max_connections, DESCRIPTORS_PER_CONNECTION) {
        warn!(
            limit,
            max_connections,
            enough,
            "too few descriptors for --max-connections, even with one file each: set LimitNOFILE= (or ulimit -n) to what \
             is enough, or lower --max-connections; without descriptors answers are 503"
        );
    } else if limit < enough {
        let large_bundles = limit.saturating_sub(SPARE_DESCRIPTORS) / MAX_DESCRIPTORS_PER_CONNECTION;
        info!(
            limit,
            max_connections,
            large_bundles,
            enough,
            "descriptors for all connections with one file each, or for so many large bundles at once; LimitNOFILE= may \
             be set to what is enough for all"
        );
    }
}

fn needed(connections: u64, each: u64) -> u64 {
    connections.saturating_mul(each).saturating_add(SPARE_DESCRIPTORS)
}
