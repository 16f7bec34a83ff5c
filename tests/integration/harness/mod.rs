//! What the tests stand on.

mod answer;
mod daemon;
mod multipart;
mod packet;
mod site;

pub use answer::{Answer, End};
pub use daemon::{Daemon, DaemonOptions, binary, run_as_tests_do, tests_run_as_root};
pub use multipart::{Part, read_multipart};
pub use packet::{Packet, connect, exchange, exchange_half_closed, exchange_in_pieces, read_answer};
pub use site::{BIG_LEN, NOBODY, Site, noise};

use std::time::{Duration, Instant};

/// Where the files are streamed from.
pub const STREAM: &str = "/api/stream-files";

/// Waits until something holds, at most 10 s; then the test fails with what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "waited 10 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
