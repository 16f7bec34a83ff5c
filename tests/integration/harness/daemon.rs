//! A running `axon serve`.

use std::{
    env,
    fs::{self, File, Permissions},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread,
    time::Duration,
};

use super::{Answer, Packet, Site, exchange, site::NOBODY, wait_until};

/// How a daemon is started.
#[derive(Default)]
pub struct DaemonOptions<'a> {
    /// Further arguments.
    pub arguments: &'a [&'a str],
    /// A shell command that runs it, with `"$@"` for its command line: for `umask` and `ulimit`.
    pub shell: Option<&'a str>,
    /// Where standard error goes instead of a file.
    pub stderr: Option<Stdio>,
    /// What standard input is instead of the tests' own.
    pub stdin: Option<Stdio>,
    /// The same of standard output.
    pub stdout: Option<Stdio>,
    /// Whether it is left to others to say where to listen.
    pub without_address: bool,
}

impl DaemonOptions<'_> {
    /// How many workers it will have.
    fn workers(&self) -> usize {
        let given = self.arguments.iter().skip_while(|argument| **argument != "--workers").nth(1);
        given.map_or_else(
            || thread::available_parallelism().expect("a number of CPUs").get(),
            |number| number.parse().expect("a number of workers"),
        )
    }
}

/// A daemon that is stopped when it is dropped.
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Daemon {
    /// Serves a site's root on a socket beside it, with further arguments.
    pub fn start(site: &Site, arguments: &[&str]) -> Self {
        Self::start_with(site, DaemonOptions { arguments, ..DaemonOptions::default() })
    }

    /// The same, in every detail.
    pub fn start_with(site: &Site, options: DaemonOptions<'_>) -> Self {
        let workers = options.workers();
        let daemon = Self::spawn(site, options);
        wait_until("the daemon listens", || std::os::unix::net::UnixStream::connect(&daemon.socket).is_ok());
        // It listens before its last worker has all its descriptors, and what is open now will count as idle.
        let mut in_a_row = 0;
        wait_until("all workers wait for connections", || {
            in_a_row = if daemon.waits(workers) { in_a_row + 1 } else { 0 };
            in_a_row == 2
        });
        daemon
    }

    /// Starts it without waiting for it to listen.
    pub fn spawn(site: &Site, options: DaemonOptions<'_>) -> Self {
        let socket = site.beside("axon.sock");
        let log = site.beside("axon.log");
        let mut command = match options.shell {
            None => Command::new(binary()),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, "sh"]).arg(binary());
                shell
            }
        };
        command.arg("serve").arg("--root").arg(site.root());
        if !options.without_address {
            command.arg("--uwsgi").arg(format!("unix:{}", socket.display()));
        }
        command.args(options.arguments);
        command.stdin(options.stdin.unwrap_or_else(Stdio::inherit));
        command.stdout(options.stdout.unwrap_or_else(Stdio::inherit));
        let appended = File::options().append(true).create(true).open(&log).expect("a log");
        command.stderr(options.stderr.unwrap_or_else(|| appended.into()));
        let child = run_as_tests_do(&mut command).spawn().expect("the binary runs");
        Self { child, socket, log }
    }

    /// Whether it has so many workers, and every thread sleeps.
    fn waits(&self, workers: usize) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a process");
        // "number (name) state ..." (proc_pid_stat(5)); a thread that has ended meanwhile has none.
        let stats: Vec<String> =
            threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok()).collect();
        let sleeps = |stat: &String| stat.rsplit(')').next().is_some_and(|state| state.starts_with(" S"));
        stats.iter().filter(|stat| stat.contains("(axon-worker")).count() == workers && stats.iter().all(sleeps)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Everything it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// Waits until the log has a line with all of these in it, and gives that line.
    #[track_caller]
    pub fn logged(&self, words: &[&str]) -> String {
        let mut found = None;
        wait_until(&format!("a log line with {words:?}"), || {
            let log = self.log();
            found = log.lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned);
            found.is_some()
        });
        found.expect("it was found")
    }

    /// Sends a packet and reads the answer to its end.
    pub fn send(&self, packet: &Packet) -> Answer {
        exchange(&self.socket, &packet.to_bytes())
    }

    /// A GET of a target.
    pub fn get(&self, target: impl AsRef<[u8]>) -> Answer {
        self.send(&Packet::get(target))
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("a process").count()
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a process").count()
    }

    /// How much memory it has resident, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// How much address space it has, in KiB.
    pub fn address_space_kib(&self) -> u64 {
        self.status_kib("VmSize:")
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// How much memory it has to itself, and its share of what it shares with others, in KiB (PSS).
    pub fn proportional_kib(&self) -> u64 {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid())).expect("a process");
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// The CPU time it has used, user and system.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("a process");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = [fields[11], fields[12]].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10) // 100 ticks a second, on every Linux
    }

    /// The check that ends every case: the same process answers promptly and has let go of everything.
    #[track_caller]
    pub fn assert_alive(&mut self, idle_descriptors: usize) {
        assert_eq!(self.child.try_wait().expect("a child"), None, "it has ended:\n{}", self.log());
        let answer = self.get("/api/health");
        assert_eq!(answer.status, 200);
        assert!(answer.duration < Duration::from_secs(1), "health took {:?}", answer.duration);
        wait_until("the descriptors are back at idle", || self.descriptors() <= idle_descriptors);
    }

    /// Sends a signal by its name: TERM, INT, HUP, KILL, STOP, CONT.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send {name}");
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Waits for it to end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the daemon ends", || {
            status = self.ended();
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets a command run as the unprivileged user that owns the sites, where the tests themselves run as root.
pub fn run_as_tests_do(command: &mut Command) -> &mut Command {
    if tests_run_as_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Whether the tests run as root, as they do in a container.
pub fn tests_run_as_root() -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    *ROOT.get_or_init(|| {
        let id = Command::new("id").arg("-u").output().expect("id");
        id.stdout == b"0\n"
    })
}

/// The binary under test, at a place where an unprivileged user can reach it. AXON_TEST_BINARY names another one than
/// was built with the tests: that of a release, to measure it.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let built = env::var_os("AXON_TEST_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_axon").into(), PathBuf::from);
        if tests_run_as_root() { reachable_copy(&built) } else { built }
    })
}

/// A copy in the directory for temporary files: one for each build, shared by all test processes.
fn reachable_copy(built: &Path) -> PathBuf {
    let facts = fs::metadata(built).expect("the binary is built");
    let name = format!("axon-test-binary-{}-{:09}-{}", facts.mtime(), facts.mtime_nsec(), facts.len());
    let copy = env::temp_dir().join(name);
    if !copy.exists() {
        let unfinished = PathBuf::from(format!("{}.{}", copy.display(), std::process::id()));
        // Not copied by this process: another thread that starts a program at that moment would hand on the
        // descriptor open for writing, and while it is open nobody can run the copy (ETXTBSY).
        let copied = Command::new("cp").arg(built).arg(&unfinished).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot copy {}", built.display());
        fs::set_permissions(&unfinished, Permissions::from_mode(0o755)).expect("a mode");
        fs::rename(&unfinished, &copy).expect("a name");
    }
    copy
}
