//! What a service manager does to a daemon: it passes sockets on, and hears how the daemon is doing.

use std::{
    fs::{self, Permissions},
    io::ErrorKind,
    os::{
        fd::AsFd,
        unix::{
            fs::PermissionsExt as _,
            net::{UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use super::{Daemon, DaemonOptions, Site};

/// How long a message may take; the status comes every 5 s.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A place for descriptors on their way: the shell finds them as 0 and 1, and moves them to 3 and 4.
const MOVE: &str = "exec 3<&0 4>&1 </dev/null >/dev/null";

/// A service manager, with a socket for notifications.
pub struct Manager {
    notifications: UnixDatagram,
    path: PathBuf,
}

/// What a manager passes on.
#[derive(Clone, Copy, Default)]
pub struct Passed<'a> {
    /// Descriptors, two at most.
    pub descriptors: &'a [&'a dyn AsFd],
    /// Further variables and other values for `LISTEN_PID`, by default the daemon's, and `LISTEN_FDS`, by default
    /// their number.
    pub variables: &'a [(&'a str, &'a str)],
}

impl Manager {
    /// One with a socket beside a site's root.
    pub fn new(site: &Site) -> Self {
        let path = site.beside("notify.sock");
        let notifications = UnixDatagram::bind(&path).expect("a socket");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("a mode");
        Self { notifications, path }
    }

    /// Where it is told how a daemon is doing.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a daemon without an address of its own, on sockets of ours, and waits until it says that it is ready.
    pub fn start(&self, site: &Site, sockets: &[&dyn AsFd], arguments: &[&str]) -> Daemon {
        let notify = ("NOTIFY_SOCKET", self.path.to_str().expect("a path"));
        let passed = Passed { descriptors: sockets, variables: &[notify] };
        let daemon = spawn_with(site, passed, arguments);
        self.hear("READY=1");
        daemon
    }

    /// The next message.
    #[track_caller]
    pub fn next(&self) -> String {
        self.next_within(TIMEOUT).expect("a message in time")
    }

    /// The next message, if there is one in this time.
    pub fn next_within(&self, time: Duration) -> Option<String> {
        self.notifications.set_read_timeout(Some(time)).expect("a time limit");
        let mut buffer = vec![0; 4096];
        match self.notifications.recv(&mut buffer) {
            Ok(len) => Some(String::from_utf8(buffer[..len].to_vec()).expect("text")),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(error) => panic!("no message: {error}"),
        }
    }

    /// Waits for a message with this line in it, and gives that message.
    #[track_caller]
    pub fn hear(&self, line: &str) -> String {
        self.hear_where(line, |message| message.lines().any(|found| found == line))
    }

    /// Waits for a message that fits, and gives it.
    #[track_caller]
    pub fn hear_where(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + TIMEOUT;
        let mut heard = Vec::new();
        while Instant::now() < deadline {
            match self.next_within(TIMEOUT) {
                Some(message) if fits(&message) => return message,
                message => heard.extend(message),
            }
        }
        panic!("waited in vain for {what}; there was {heard:?}");
    }

    /// The messages that come within this time.
    pub fn heard_within(&self, time: Duration) -> Vec<String> {
        let deadline = Instant::now() + time;
        let left = || deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        std::iter::from_fn(|| self.next_within(left()?)).collect()
    }
}

/// Starts a daemon with descriptors and variables of ours and no address of its own. Does not wait for it to listen.
pub fn spawn_with(site: &Site, passed: Passed<'_>, arguments: &[&str]) -> Daemon {
    let count = passed.descriptors.len();
    let own = [("LISTEN_PID", "$$"), ("LISTEN_FDS", &count.to_string())];
    let variables = own.iter().chain(passed.variables);
    let mut script: Vec<String> = variables.map(|(name, value)| format!("export {name}=\"{value}\"")).collect();
    let close = ["exec 3<&- 4>&-", "exec 4>&-", ""][count];
    script.extend([MOVE, close, "exec \"$@\""].map(str::to_owned));
    let stdio = |index: usize| {
        let descriptor = passed.descriptors.get(index);
        descriptor.map(|descriptor| Stdio::from(descriptor.as_fd().try_clone_to_owned().expect("a copy")))
    };
    let options = DaemonOptions {
        arguments,
        shell: Some(&script.join("\n")),
        stdin: stdio(0),
        stdout: stdio(1),
        without_address: true,
        ..DaemonOptions::default()
    };
    Daemon::spawn(site, options)
}

/// A socket for the place where the harness looks for a daemon, which anybody may connect to.
pub fn listening_socket(site: &Site) -> UnixListener {
    let path = site.beside("axon.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    fs::set_permissions(path, Permissions::from_mode(0o666)).expect("a mode");
    listener
}
