//! Names and links that lead out of the root, and what else is no file.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    sync::atomic::{AtomicBool, Ordering},
    thread::ScopedJoinHandle,
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags};

use crate::harness::{Daemon, Packet, STREAM, Site, connect, read_answer, wait_until};

use super::{OUTSIDE, assert_refused, assert_served, in_every_form, make_device};

#[test]
fn no_name_leads_out_of_the_root() {
    let site = Site::awkward();
    fs::write(site.beside("secret.txt"), OUTSIDE).expect("a file");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for value in [
        "/etc/hostname",
        "//etc/hostname",
        "../../../../etc/hostname",
        "../../../../../../../../etc/passwd",
        "sub/../../../etc/hostname",
        "%2e%2e%2f%2e%2e%2fetc%2fhostname",
        "..%5c..%5cetc",
        "....//....//etc/hostname",
        "/proc/self/environ",
        "/proc/self/root/etc/hostname",
        "/dev/zero",
        "~root",
        "file:///etc/hostname",
        "./../x",
        "..",
        ".",
        "/",
        "./",
        "sub",
        "sub/",
        "sub/..",
        "../root/a.txt",
        "..%c0%af..%c0%afetc",
        "..%2fsecret.txt",
        "../secret.txt",
        "../axon.log",
        "sub/../../secret.txt",
        "none/../../secret.txt",
        "a.txt/../../secret.txt",
        "in/../../secret.txt",
        "a.txt/",
        "a.txt/.",
        "a.txt/b",
    ] {
        if matches!(value, "a.txt/" | "a.txt/.") {
            // Empty and `.` components are dropped: that is a.txt.
            assert_served(&daemon, value, b"0123456789");
        } else {
            assert_refused(&daemon, &site, value, 404);
        }
    }
    let absolute = site.root().join("a.txt");
    assert_refused(&daemon, &site, absolute.as_os_str().as_bytes(), 404);
    assert_served(&daemon, "sub/../a.txt", b"0123456789");
    daemon.assert_alive(idle);
}

#[test]
fn an_answer_does_not_tell_what_is_outside() {
    let site = Site::awkward();
    fs::create_dir(site.beside("dir")).expect("a directory");
    symlink(site.beside("thing"), site.path("absolute")).expect("a link");
    symlink("../thing", site.path("relative")).expect("a link");
    symlink("..", site.path("up")).expect("a link");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let names = ["../thing", "../thing/x", "sub/../../thing", "%2e%2e/thing", "absolute", "relative", "up/thing"];
    let ask = || names.map(|name| assert_refused(&daemon, &site, name, 404));
    let nothing = ask();
    fs::write(site.beside("thing"), OUTSIDE).expect("a file");
    assert!(ask() == nothing, "a file is told from nothing");
    fs::set_permissions(site.beside("thing"), Permissions::from_mode(0o000)).expect("a mode");
    assert!(ask() == nothing, "a file nobody may read is told from nothing");
    fs::remove_file(site.beside("thing")).expect("gone");
    fs::create_dir(site.beside("thing")).expect("a directory");
    assert!(ask() == nothing, "a directory is told from nothing");
    daemon.assert_alive(idle);
}

#[test]
fn symlinks_are_followed_beneath_the_root_only_in_every_form() {
    let site = Site::awkward();
    fs::create_dir(site.beside("dir")).expect("a directory");
    fs::write(site.beside("dir/secret.txt"), OUTSIDE).expect("a file");
    for (target, link) in [
        ("../dir/secret.txt", "relative"),
        ("../dir", "directory"),
        ("relative", "chain"),
        ("sub", "linked"),
        ("../a.txt", "sub/up"),
        ("../../dir/secret.txt", "sub/out"),
        ("/proc/self/fd/0", "descriptor"),
        ("/proc/self/cwd", "cwd"),
        ("nothing", "dangling"),
    ] {
        symlink(target, site.path(link)).expect("a link");
    }
    symlink(site.root().join("a.txt"), site.path("absolute")).expect("a link");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for name in [
        "outfile",
        "out/hostname",
        "out/passwd",
        "pr/etc/hostname",
        "pr/proc/self/environ",
        "relative",
        "directory/secret.txt",
        "chain",
        "sub/out",
        "linked/out",
        "descriptor",
        "cwd/a.txt",
        "loop",
        "dangling",
        // Absolute targets leave the root and come back; the kernel refuses the first step.
        "absolute",
    ] {
        assert_refused(&daemon, &site, name, 404);
    }
    for (name, content) in [
        ("in", &b"0123456789"[..]),
        ("linked/c.txt", b"insub"),
        ("sub/up", b"0123456789"),
        ("linked/up", b"0123456789"),
    ] {
        assert_served(&daemon, name, content);
    }
    daemon.assert_alive(idle);
}

#[test]
fn a_root_may_be_a_symlink() {
    let site = Site::awkward();
    fs::rename(site.root(), site.beside("elsewhere")).expect("moved");
    symlink("elsewhere", site.root()).expect("a link");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    assert_served(&daemon, "sub/c.txt", b"insub");
    assert_refused(&daemon, &site, "outfile", 404);
    assert_refused(&daemon, &site, "../elsewhere/a.txt", 404);
    daemon.assert_alive(idle);
}

#[test]
fn a_directory_that_is_swapped_for_a_symlink_leads_nowhere_either() {
    const REQUESTS: usize = 20_000;
    const ASKERS: usize = 4;
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("d/f.txt", "within");
    fs::create_dir(site.beside("dir")).expect("a directory");
    fs::write(site.beside("dir/f.txt"), OUTSIDE).expect("a file");
    symlink("../dir", site.path("l")).expect("a link");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, site.path("d"), CWD, site.path("l"), RenameFlags::EXCHANGE)
                    .expect("swapped");
            }
        });
        let ask = || {
            let mut within = 0;
            for round in 0..REQUESTS / ASKERS / 4 {
                let forms = in_every_form(&daemon, "d/f.txt");
                for answer in &forms {
                    let text = String::from_utf8_lossy(&answer.raw);
                    assert!(!text.contains(OUTSIDE), "round {round}: {text}");
                    // Renames all the time may also be too much for it: then it says so.
                    assert!(matches!(answer.status, 200 | 404 | 503), "round {round}: {text}");
                }
                within += usize::from(forms[0].status == 200);
            }
            within
        };
        let askers: Vec<_> = (0..ASKERS).map(|_| scope.spawn(ask)).collect();
        let within: Result<Vec<usize>, _> = askers.into_iter().map(ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        let within: usize = within.expect("only bytes from within").iter().sum();
        println!("{REQUESTS} requests, of {} alone {within} found the file", REQUESTS / 4);
        assert!(within > 0, "the file was there half of the time");
    });
    daemon.assert_alive(idle);
}

#[test]
fn what_is_no_regular_file_is_not_found_and_blocks_nothing() {
    let site = Site::awkward();
    let mut names = vec!["pipe", "socket", "sub"];
    if make_device(&site) {
        names.push("device");
    }
    let mut daemon = Daemon::start(&site, &["--workers", "2"]);
    let idle = daemon.idle_descriptors();
    let threads = daemon.threads();
    for name in &names {
        let started = Instant::now();
        let answers = assert_refused(&daemon, &site, name, 404);
        assert_eq!(answers, assert_refused(&daemon, &site, "none", 404), "{name} is told from nothing");
        assert!(started.elapsed() < Duration::from_secs(1), "{name} took {:?}", started.elapsed());
    }
    // Many at once: none may cost a thread that waits for a writer, or keep others waiting.
    let many: Vec<_> = (0..600)
        .map(|index| {
            let mut stream = connect(daemon.socket());
            let target = format!("{STREAM}?file1={}", names[index % names.len()]);
            stream.write_all(&Packet::get(target).to_bytes()).expect("room for a packet");
            stream
        })
        .collect();
    let started = Instant::now();
    assert_eq!(daemon.get("/api/health").status, 200);
    assert_eq!(daemon.get(format!("{STREAM}?file1=a.txt")).text(), "0123456789");
    assert!(started.elapsed() < Duration::from_secs(1), "others waited {:?}", started.elapsed());
    for mut stream in many {
        read_answer(&mut stream, started).problem(404);
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // A worker may keep one thread for what the disk has to be asked for.
    wait_until("no thread is left waiting", || daemon.threads() <= threads + 2);
    daemon.assert_alive(idle);
}

#[test]
fn what_nobody_may_read_is_forbidden() {
    let site = Site::awkward();
    site.write("closed/x.txt", "x");
    fs::set_permissions(site.path("closed"), Permissions::from_mode(0o000)).expect("a mode");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for name in ["locked.txt", "closed/x.txt", "closed/none"] {
        assert_refused(&daemon, &site, name, 403);
    }
    daemon.assert_alive(idle);
    fs::set_permissions(site.path("closed"), Permissions::from_mode(0o755)).expect("a mode");
}
