//! A running nginx with the project's own nginx.conf, in front of a daemon.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Daemon, HttpConnection, Site, program, run_as_tests_do, wait_until};

/// What the project ships.
pub const NGINX_CONF: &str = include_str!("../../../nginx.conf");

/// How often another port is tried when somebody else was faster.
const MAX_TRIES: usize = 10;

/// A site, a daemon that serves it, and nginx in front of both. They stop in the order of the fields.
pub struct Stack {
    /// What clients talk to.
    pub nginx: Nginx,
    /// What answers.
    pub daemon: Daemon,
    /// What is served.
    pub site: Site,
}

impl Stack {
    /// All three, over the tree of awkward files.
    pub fn awkward() -> Self {
        Self::start(Site::awkward(), &[])
    }

    /// A daemon with further arguments, and nginx.
    pub fn start(site: Site, arguments: &[&str]) -> Self {
        Self::start_with(site, arguments, &NginxOptions::default())
    }

    /// The same, in every detail.
    pub fn start_with(site: Site, arguments: &[&str], options: &NginxOptions<'_>) -> Self {
        let daemon = Daemon::start(&site, arguments);
        let nginx = Nginx::start(&site, &daemon, options);
        Self { nginx, daemon, site }
    }
}

/// What is changed in nginx.conf beside the socket and the address.
#[derive(Clone, Copy, Debug, Default)]
pub struct NginxOptions<'a> {
    /// Marks whose lines are switched on: `cache`, `slice`.
    pub blocks: &'a [&'a str],
    /// Texts that stand there once, and what comes in their place.
    pub replaced: &'a [(&'a str, &'a str)],
}

impl NginxOptions<'_> {
    /// The configuration, with lines switched on by the very command that nginx.conf and docs/caching.md give.
    pub fn apply(&self, configuration: &Path) -> String {
        let mut command = Command::new("sed");
        match self.blocks {
            [] => command.arg(""),
            blocks => command.args(["-E", &format!("s/^( *)#({})# /\\1/", blocks.join("|"))]),
        };
        let output = command.arg(configuration).output().expect("sed runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut text = String::from_utf8(output.stdout).expect("text");
        for (old, new) in self.replaced {
            assert_eq!(text.matches(old).count(), 1, "nginx.conf: {old}");
            text = text.replace(old, new);
        }
        text
    }
}

/// An nginx that is stopped when it is dropped. Runs as the same user as the daemon.
pub struct Nginx {
    child: Child,
    prefix: PathBuf,
    address: SocketAddr,
}

impl Nginx {
    /// Starts it in an empty directory beside the site's root, on a free port of this machine.
    pub fn start(site: &Site, daemon: &Daemon, options: &NginxOptions<'_>) -> Self {
        let prefix = empty_prefix(site, "nginx");
        let shipped = site.beside("shipped.conf");
        fs::write(&shipped, NGINX_CONF).expect("a configuration");
        let changed = options.apply(&shipped);
        for _ in 0..MAX_TRIES {
            let address = free_address();
            let configuration = site.beside("nginx.conf");
            let text = set(&changed, "socket", "unix:/run/axon/axon.sock", &unix(daemon.socket()));
            let text = set(&text, "listen", "127.0.0.1:8080", &address.to_string());
            fs::write(&configuration, text).expect("a configuration");
            let mut command = nginx_command(&prefix, &configuration);
            command.args(["-g", "daemon off;"]);
            command.stderr(File::create(site.beside("nginx.stderr")).expect("a file"));
            let mut child = run_as_tests_do(&mut command).spawn().expect("nginx runs");
            if is_up(&mut child, &prefix, address) {
                return Self { child, prefix, address };
            }
            let complaint = fs::read_to_string(site.beside("nginx.stderr")).unwrap_or_default();
            assert!(complaint.contains("Address already in use"), "nginx does not start:\n{complaint}");
        }
        panic!("no port is free for long enough in {MAX_TRIES} tries");
    }

    /// The URL of a target.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// A connection of a client.
    pub fn connect(&self) -> HttpConnection {
        HttpConnection::open(self.address)
    }

    /// Its own directory.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// What it has complained of so far.
    pub fn error_log(&self) -> String {
        fs::read_to_string(self.prefix.join("error.log")).expect("an error log")
    }

    /// Waits until the access log has a record that fits, and gives it. nginx writes once a second.
    #[track_caller]
    pub fn logged(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(&format!("nginx's record of {what}"), || {
            let log = fs::read_to_string(self.prefix.join("access.log")).expect("an access log");
            // The last line may still be on its way.
            let whole = log.rfind('\n').map_or("", |end| &log[..end]);
            let mut records = whole.lines().map(|line| serde_json::from_str(line).expect("a record is JSON"));
            found = records.find(|record| fits(record));
            found.is_some()
        });
        found.expect("it was found")
    }

    /// What is left of answers that went through a file: nginx takes its name away at once, so it would not be
    /// found, but the directory it was in stays.
    pub fn traces_of_temporary_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.prefix.join("uwsgi_temp")).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("nginx's error log:\n{}", fs::read_to_string(self.prefix.join("error.log")).unwrap_or_default());
        }
        stop(&mut self.child);
    }
}

/// nginx with its own directory and a configuration.
pub fn nginx_command(prefix: &Path, configuration: &Path) -> Command {
    let mut command = Command::new(program("nginx", "nginx"));
    command.arg("-p").arg(prefix).arg("-c").arg(configuration);
    command
}

/// A new directory beside the site's root that belongs to whom the daemon runs as.
pub fn empty_prefix(site: &Site, name: &str) -> PathBuf {
    let prefix = site.beside(name);
    let made = run_as_tests_do(Command::new("mkdir").arg(&prefix)).status();
    assert!(made.is_ok_and(|status| status.success()), "cannot make {}", prefix.display());
    prefix
}

/// Replaces a value in the one line that ends in the mark `# set: NAME`.
#[track_caller]
fn set(configuration: &str, name: &str, old: &str, new: &str) -> String {
    let mark = format!("# set: {name}");
    let marked: Vec<&str> = configuration.lines().filter(|line| line.ends_with(&mark)).collect();
    assert!(matches!(marked[..], [line] if line.contains(old)), "nginx.conf: {mark} marks {marked:?}");
    configuration.replace(marked[0], &marked[0].replace(old, new))
}

fn unix(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// An address that was free a moment ago.
fn free_address() -> SocketAddr {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Waits until it listens; false if it ended instead, for want of the port.
#[track_caller]
fn is_up(child: &mut Child, prefix: &Path, address: SocketAddr) -> bool {
    let mut up = false;
    wait_until("nginx listens", || {
        // The file is written once the port is its own.
        let pid = fs::read_to_string(prefix.join("nginx.pid")).unwrap_or_default();
        up = pid.trim() == child.id().to_string() && TcpStream::connect(address).is_ok();
        up || child.try_wait().expect("a child").is_some()
    });
    up
}

/// Lets the master process end its workers; killing it would leave them behind.
fn stop(child: &mut Child) {
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let deadline = Instant::now() + Duration::from_secs(10);
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
