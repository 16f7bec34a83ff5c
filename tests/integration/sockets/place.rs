//! The socket's file: its mode, its group, and what was at its place before.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::harness::{Daemon, DaemonOptions, NOBODY, Site, binary, tests_run_as_root, wait_until};

/// A user and a group that nothing here belongs to.
const STRANGER: u32 = 65_432;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("a file").permissions().mode() & 0o7777
}

fn start_under(site: &Site, umask: &str, arguments: &[&str]) -> Daemon {
    let shell = format!("umask {umask}; exec \"$@\"");
    Daemon::start_with(site, DaemonOptions { arguments, shell: Some(&shell), ..DaemonOptions::default() })
}

/// Waits until a daemon has given up, and checks how.
#[track_caller]
fn assert_gives_up(mut daemon: Daemon, words: &str) {
    assert_eq!(daemon.wait().code(), Some(1), "{}", daemon.log());
    let log = daemon.log();
    // For whoever typed it, and for whoever reads the log.
    assert!(log.lines().any(|line| line.starts_with("axon: ") && line.contains(words)), "{log}");
}

#[test]
fn the_mode_does_not_depend_on_the_umask() {
    for umask in ["000", "022", "077", "0777"] {
        for (arguments, expected) in
            [(&[][..], 0o660), (&["--socket-mode", "0600"], 0o600), (&["--socket-mode", "666"], 0o666)]
        {
            let site = Site::empty();
            let mut daemon = start_under(&site, umask, arguments);
            let idle = daemon.idle_descriptors();
            assert_eq!(mode(daemon.socket()), expected, "umask {umask}, {arguments:?}");
            daemon.assert_alive(idle);
        }
    }
}

#[test]
fn the_mode_is_never_wider_than_it_will_be() {
    let site = Site::empty();
    let socket = site.beside("axon.sock");
    let seen = std::sync::Mutex::new(BTreeSet::new());
    for _ in 0..10 {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Looks as often as it can from before the socket is bound until it is served.
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Ok(found) = fs::symlink_metadata(&socket) {
                        seen.lock().expect("a set").insert(found.permissions().mode() & 0o777);
                    }
                }
            });
            let mut daemon = start_under(&site, "000", &[]);
            done.store(true, Ordering::Relaxed);
            daemon.signal("TERM");
            assert!(daemon.wait().success());
        });
    }
    let seen = seen.into_inner().expect("a set");
    let shown: Vec<String> = seen.iter().map(|mode| format!("{mode:04o}")).collect();
    assert!(seen.contains(&0o660), "{shown:?}");
    assert!(seen.iter().all(|mode| mode & !0o660 == 0), "{shown:?}");
}

#[test]
fn only_the_owner_and_the_group_may_connect() {
    if !tests_run_as_root() {
        // Nobody else's part can be played then; the mode says it, and is tested above.
        let site = Site::empty();
        assert_eq!(mode(Daemon::start(&site, &[]).socket()), 0o660);
        return;
    }
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let address = format!("unix:{}", daemon.socket().display());
    for (user, group, allowed) in [
        (NOBODY, NOBODY, true),
        (NOBODY, STRANGER, true),
        (STRANGER, NOBODY, true), // as nginx does, in the socket's group
        (STRANGER, STRANGER, false),
    ] {
        let mut command = Command::new(binary());
        let output = command.args(["request", &address, "/api/health"]).uid(user).gid(group).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(!allowed)), "{user}:{group}: {error}");
        assert_eq!(error.contains("Permission denied"), !allowed, "{user}:{group}: {error}");
    }
    daemon.assert_alive(idle);
}

#[test]
fn the_group_can_be_chosen_by_name_or_number() {
    let site = Site::empty();
    let gid = fs::metadata(site.root()).expect("a directory").gid();
    let name = Command::new("getent").args(["group", &gid.to_string()]).output().expect("getent runs").stdout;
    let name = String::from_utf8(name).expect("a group").split(':').next().expect("a name").to_owned();
    for group in [gid.to_string(), name] {
        let mut daemon = Daemon::start(&site, &["--socket-group", &group]);
        let idle = daemon.idle_descriptors();
        let found = fs::metadata(daemon.socket()).expect("a socket");
        assert_eq!((found.gid(), found.permissions().mode() & 0o7777), (gid, 0o660), "{group}");
        daemon.assert_alive(idle);
    }
    let site = Site::empty();
    for (group, words) in [("no-such-group", "no group no-such-group"), ("", "no group"), ("0", "group")] {
        let daemon =
            Daemon::spawn(&site, DaemonOptions { arguments: &["--socket-group", group], ..DaemonOptions::default() });
        assert_gives_up(daemon, words);
        assert!(!site.beside("axon.sock").exists(), "{group:?}: a socket of the wrong group is left behind");
    }
}

#[test]
fn a_socket_whose_daemon_was_killed_is_replaced() {
    let site = Site::empty();
    for _ in 0..3 {
        let mut daemon = Daemon::start(&site, &[]);
        daemon.signal("KILL");
        daemon.wait();
        assert!(fs::symlink_metadata(site.beside("axon.sock")).expect("left behind").file_type().is_socket());
    }
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    assert_eq!(mode(daemon.socket()), 0o660);
    daemon.assert_alive(idle);
    daemon.signal("TERM");
    assert!(daemon.wait().success());
    assert!(!site.beside("axon.sock").exists(), "a clean stop takes its socket away");
}

#[test]
fn a_second_daemon_leaves_the_first_one_its_socket() {
    let site = Site::empty();
    let mut first = Daemon::start(&site, &[]);
    let idle = first.idle_descriptors();
    let inode = fs::metadata(first.socket()).expect("a socket").ino();
    for _ in 0..2 {
        assert_gives_up(Daemon::spawn(&site, DaemonOptions::default()), "another process is listening");
        assert_eq!(fs::metadata(first.socket()).expect("a socket").ino(), inode);
        first.assert_alive(idle);
    }
}

#[test]
fn of_many_that_start_at_once_one_serves() {
    for stale in [false, true] {
        let site = Site::empty();
        if stale {
            let mut killed = Daemon::start(&site, &[]);
            killed.signal("KILL");
            killed.wait();
        }
        let mut daemons: Vec<_> = (0..5).map(|_| Daemon::spawn(&site, DaemonOptions::default())).collect();
        wait_until("all but one have given up", || {
            daemons.iter_mut().map(|daemon| usize::from(daemon.ended().is_some())).sum::<usize>() == 4
        });
        let mut winner = daemons.into_iter().find_map(|mut daemon| daemon.ended().is_none().then_some(daemon));
        let winner = winner.as_mut().expect("one is left");
        let idle = winner.idle_descriptors();
        winner.assert_alive(idle);
        winner.signal("TERM");
        assert!(winner.wait().success(), "{}", winner.log());
    }
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let site = Site::empty();
    let socket = site.beside("axon.sock");
    fs::write(&socket, "data").expect("a file");
    let start = || Daemon::spawn(&site, DaemonOptions::default());
    assert_gives_up(start(), "not a socket");
    assert_eq!(fs::read(&socket).expect("a file"), b"data");

    fs::remove_file(&socket).expect("gone");
    fs::create_dir(&socket).expect("a directory");
    assert_gives_up(start(), "not a socket");
    assert!(socket.is_dir());

    // A link is not a socket, wherever it leads: to nothing, to a file, to a live or a dead socket.
    fs::remove_dir(&socket).expect("gone");
    let live = site.beside("live.sock");
    let _listener = UnixListener::bind(&live).expect("a socket");
    drop(UnixListener::bind(site.beside("dead.sock")).expect("a socket"));
    fs::write(site.beside("file"), "data").expect("a file");
    for target in ["nothing", "file", "live.sock", "dead.sock"] {
        symlink(target, &socket).expect("a link");
        assert_gives_up(start(), "not a socket");
        assert_eq!(fs::read_link(&socket).expect("a link"), Path::new(target));
        fs::remove_file(&socket).expect("gone");
    }
    assert!(site.beside("dead.sock").exists() && !site.beside("nothing").exists());
    assert_eq!(fs::read(site.beside("file")).expect("a file"), b"data");
}

#[test]
fn a_live_socket_with_a_full_queue_is_in_use() {
    let site = Site::empty();
    let path = site.beside("axon.sock");
    let name = SocketAddrUnix::new(&path).expect("a name");
    let socket = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket")
    };
    let listener = socket();
    rustix::net::bind(&listener, &name).expect("bound");
    rustix::net::listen(&listener, 1).expect("listening");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a mode");
    let mut queued = vec![];
    loop {
        let waiting = socket();
        if rustix::net::connect(&waiting, &name).is_err() {
            break;
        }
        queued.push(waiting);
    }
    let inode = fs::metadata(&path).expect("a socket").ino();
    assert_gives_up(Daemon::spawn(&site, DaemonOptions::default()), "another process is listening");
    assert_eq!(fs::metadata(&path).expect("a socket").ino(), inode);
}

#[test]
fn nobody_takes_away_a_socket_that_is_not_theirs() {
    let site = Site::empty();
    let mut first = Daemon::start(&site, &[]);
    fs::remove_file(first.socket()).expect("gone");
    let mut second = Daemon::start(&site, &[]);
    let idle = second.idle_descriptors();
    first.signal("TERM");
    assert!(first.wait().success());
    second.assert_alive(idle);
    second.signal("TERM");
    assert!(second.wait().success());
    assert!(!second.socket().exists());

    // Nor what somebody else has put there meanwhile.
    let mut daemon = Daemon::start(&site, &[]);
    fs::remove_file(daemon.socket()).expect("gone");
    fs::write(daemon.socket(), "data").expect("a file");
    daemon.signal("TERM");
    assert!(daemon.wait().success());
    assert_eq!(fs::read(daemon.socket()).expect("a file"), b"data");
}

#[test]
fn a_start_that_fails_leaves_no_socket_behind() {
    let site = Site::empty();
    let elsewhere = format!("unix:{}", site.beside("no/directory/x.sock").display());
    let arguments = ["--uwsgi", elsewhere.as_str()];
    let daemon = Daemon::spawn(&site, DaemonOptions { arguments: &arguments, ..DaemonOptions::default() });
    assert_gives_up(daemon, "no/directory/x.sock");
    assert!(!site.beside("axon.sock").exists());
}
