//! What the tests stand on.

mod answer;
mod command;
mod daemon;
mod disk;
mod download;
mod http;
mod inject;
mod manager;
mod metrics;
mod multipart;
mod nginx;
mod packet;
mod records;
mod site;

pub use answer::{Answer, End};
pub use command::{axon, run_axon, stderr};
pub use daemon::{Daemon, DaemonOptions, binary, run_as_tests_do, tests_run_as_root};
pub use disk::{FAULTY_LEN, FaultyDisk};
pub use download::Download;
pub use http::{HttpConnection, curl, curl_command};
pub use inject::injecting;
pub use manager::{Manager, Passed, listening_socket, spawn_with};
pub use metrics::{METRICS, Metrics};
pub use multipart::{Part, read_multipart};
pub use nginx::{NGINX_CONF, Nginx, NginxOptions, Stack, empty_prefix, nginx_command};
pub use packet::{Packet, connect, exchange, exchange_half_closed, exchange_in_pieces, read_answer};
pub use records::parse_records;
pub use site::{BIG_LEN, NOBODY, Site, noise};

use std::{
    env,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

/// Where the files are streamed from.
pub const STREAM: &str = "/api/stream-files";

/// A target that names files by `file0`, `file1` and so on. Names are encoded, whatever they are made of.
pub fn stream_target(names: &[impl AsRef<[u8]>]) -> String {
    let pair = |(index, name): (usize, &_)| {
        let name: &[u8] = AsRef::<[u8]>::as_ref(name);
        format!("file{index}={}", percent_encode(name, NON_ALPHANUMERIC))
    };
    let pairs: Vec<String> = names.iter().enumerate().map(pair).collect();
    format!("{STREAM}?{}", pairs.join("&"))
}

/// Waits until something holds, at most 10 s; then the test fails with what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "waited 10 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where `scripts/test` puts what the tests need and the system does not have.
pub fn test_env() -> PathBuf {
    let given = env::var_os("AXON_TEST_ENV").map(PathBuf::from);
    given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-env"))
}

/// Where a program is. It is never a reason to leave a test out: without the program the test fails.
#[track_caller]
pub fn program(name: &str, package: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    // A user's PATH on Debian lacks the directories of the system's own programs.
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let own = test_env().join("bin");
    let found = env::split_paths(&path)
        .chain(system)
        .chain([own])
        .map(|directory| directory.join(name))
        .find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing; run scripts/test once, or type: apt-get install {package}"))
}

/// Says why something could not be tried on this machine; `scripts/test` repeats it at its end. On CI it is a failure.
#[track_caller]
pub fn leave_out(reason: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "left out, which CI does not allow: {reason}");
    eprintln!("left out: {reason}");
    if let Some(path) = env::var_os("AXON_TEST_LEFT_OUT") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "{reason}")).expect("a file to say so");
    }
}
