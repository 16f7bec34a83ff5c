//! Names that lead elsewhere, or nowhere, or to what is no file.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io::Write as _,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{PermissionsExt as _, symlink},
    },
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, RenameFlags};

use crate::harness::{
    Answer, Daemon, Packet, STREAM, Site, connect, read_answer, stream_target, tests_run_as_root, wait_until,
};

/// What no answer may contain.
const OUTSIDE: &str = "content from outside the root";

/// One file in every form it can be asked for: alone, in a bundle, by HEAD. `value` is as it stands in the query.
fn in_every_form(daemon: &Daemon, value: impl AsRef<[u8]>) -> [Answer; 4] {
    let value = value.as_ref();
    let alone = [STREAM.as_bytes(), b"?file1=", value].concat();
    let bundled = [STREAM.as_bytes(), b"?file1=a.txt&file2=", value].concat();
    [
        daemon.get(&alone),
        daemon.get(&bundled),
        daemon.send(&Packet::new("HEAD", &alone)),
        daemon.send(&Packet::new("HEAD", &bundled)),
    ]
}

/// Checks that a name is refused with the same status in every form, and that nothing about a file gets out.
#[track_caller]
fn assert_refused(daemon: &Daemon, site: &Site, value: impl AsRef<[u8]>, status: u16) -> [Vec<u8>; 4] {
    let value = value.as_ref();
    let shown = value.escape_ascii();
    in_every_form(daemon, value).map(|answer| {
        assert_eq!(answer.status, status, "{shown}: {}", String::from_utf8_lossy(&answer.raw));
        for field in ["etag", "last-modified", "content-disposition", "accept-ranges", "axon-parts"] {
            assert_eq!(answer.header(field), None, "{shown}");
        }
        let text = String::from_utf8_lossy(&answer.raw);
        assert!(!text.contains(OUTSIDE) && !text.contains("0123456789"), "{text}");
        assert!(!text.contains(&*site.root().to_string_lossy()), "a server path in {text}");
        answer.raw
    })
}

#[track_caller]
fn assert_served(daemon: &Daemon, value: impl AsRef<[u8]>, content: &[u8]) {
    let value = value.as_ref();
    let shown = value.escape_ascii();
    let [alone, bundled, head, bundled_head] = in_every_form(daemon, value);
    assert_eq!((alone.status, &alone.body[..]), (200, content), "{shown}");
    assert_eq!(bundled.parts()[1].body, content, "{shown}");
    assert_eq!((head.status, head.content_length(), head.body.len()), (200, content.len() as u64, 0), "{shown}");
    assert_eq!((bundled_head.status, bundled_head.content_length()), (200, bundled.content_length()), "{shown}");
}

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
        let mut within = 0;
        for round in 0..400 {
            let forms = in_every_form(&daemon, "d/f.txt");
            for answer in &forms {
                let text = String::from_utf8_lossy(&answer.raw);
                assert!(!text.contains(OUTSIDE), "round {round}: {text}");
                // Renames all the time may also be too much for it: then it says so.
                assert!(matches!(answer.status, 200 | 404 | 503), "round {round}: {text}");
            }
            within += usize::from(forms[0].status == 200);
        }
        done.store(true, Ordering::Relaxed);
        assert!(within > 0, "the file was there half of the time");
    });
    daemon.assert_alive(idle);
}

/// Makes a device under the root, if the tests may: as root, where the system lets it.
fn make_device(site: &Site) -> bool {
    let path = site.path("device");
    let made = || Command::new("mknod").args(["-m", "666"]).arg(&path).args(["c", "1", "5"]).status(); // /dev/zero
    tests_run_as_root() && made().is_ok_and(|status| status.success()) && fs::File::open(path).is_ok()
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

#[test]
fn a_query_is_decoded_exactly_once() {
    let site = Site::awkward();
    site.write("a&b=c.txt", "ampersand");
    site.write("%61.txt", "percent");
    site.write("a=b.txt", "equals");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for (value, content) in [
        ("p+q.txt", "space"),
        ("p%20q.txt", "space"),
        ("p%2Bq.txt", "plus"),
        ("p%2bq.txt", "plus"),
        ("100%2525.txt", "pct"),
        ("100%25.txt", "pct1"),
        ("a%2etxt", "0123456789"),
        ("%61.txt", "0123456789"),
        ("%2561.txt", "percent"),
        ("sub%2Fc.txt", "insub"),
        ("a%26b%3Dc.txt", "ampersand"),
        ("a=b.txt", "equals"),
        ("a;b=c.txt", "semi"),
        ("n%0Al.txt", "nl"),
    ] {
        assert_served(&daemon, value, content.as_bytes());
    }
    for value in ["100%.txt", "a%zz.txt", "a%2", "a.txt%", "%", "%%41", "a%+1", "%2g", "%u0061.txt"] {
        assert_refused(&daemon, &site, value, 400);
    }
    for value in ["..%252fetc%252fhostname", "%252e%252e%252fsecret.txt", "p%252Bq.txt", "a.txt%20", "a.txt+", "+a.txt"]
    {
        assert_refused(&daemon, &site, value, 404);
    }
    // Keys are decoded, too.
    assert_eq!(daemon.get(format!("{STREAM}?%66ile%31=a.txt")).text(), "0123456789");
    // The path arrives decoded: once more would be once too often.
    for path in
        ["/api/stream%2dfiles", "/api%2fhealth", "/api/healt%68", "/api/stream-files%3ffile1=a.txt", "/api/health/"]
    {
        daemon.send(&Packet::get(path).with("PATH_INFO", path)).problem(404);
    }
    daemon.assert_alive(idle);
}

#[test]
fn names_are_bytes() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    assert_served(&daemon, "%ff%fe.bin", b"raw");
    assert_served(&daemon, b"\xff\xfe.bin", b"raw");
    assert_served(&daemon, "%ef%bf%bd%ef%bf%bd.bin", b"trap");
    assert_served(&daemon, "\u{fffd}\u{fffd}.bin", b"trap");
    assert_refused(&daemon, &site, "%ff%ff.bin", 404);
    // Whatever is there can be had by its name.
    let mut count = 0;
    for entry in fs::read_dir(site.root()).expect("a directory").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_vec();
        if !entry.metadata().expect("a file").is_file() || name.starts_with(b".") || name == b"locked.txt" {
            continue;
        }
        if name != b"big.bin" {
            let content = site.read(OsStr::from_bytes(&name));
            let answer = daemon.get(stream_target(&[&name]));
            assert!(answer.status == 200 && answer.body == content, "{}", name.escape_ascii());
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
    daemon.assert_alive(idle);
}

#[test]
fn what_cannot_be_a_name_is_refused() {
    let site = Site::awkward();
    let longest = "x".repeat(255);
    site.write(&longest, "longest");
    site.write(Site::deep(15).join("f.txt"), "deep");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for value in ["", "%00", "a.txt%00", "a%00.txt", "a.txt%00.bin", "sub%00/c.txt"] {
        assert_refused(&daemon, &site, value, 400);
    }
    assert_refused(&daemon, &site, b"a.txt\0", 400);
    assert_served(&daemon, &longest, b"longest");
    assert_served(&daemon, Site::deep(15).join("f.txt").as_os_str().as_bytes(), b"deep");
    assert_refused(&daemon, &site, "x".repeat(256), 404);
    assert_refused(&daemon, &site, "x".repeat(4095), 404);
    assert_refused(&daemon, &site, "x/".repeat(2047), 404);
    for len in [4096, 4097, 20_000, 30_000] {
        assert_refused(&daemon, &site, "x".repeat(len), 400);
    }
    daemon.assert_alive(idle);
}

#[test]
fn dotfiles_are_not_there_unless_asked_for() {
    let site = Site::awkward();
    for name in ["sub/.hidden/x.txt", "sub/.x.txt", "..x", "...", "x.d/y.txt"] {
        site.write(name, "hidden");
    }
    let hidden =
        [".env", ".git/config", "./.env", "/.env", "sub/.hidden/x.txt", "sub/.x.txt", "sub/../.env", "..x", "..."];
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let missing = assert_refused(&daemon, &site, "none.txt", 404);
    for name in hidden.into_iter().chain([".none", ".none/x", "sub/.none", ".env/x", "%2eenv", ".locked"]) {
        // The same bytes as for what is not there, dot or not.
        assert_eq!(assert_refused(&daemon, &site, name, 404), missing, "{name}");
    }
    assert_served(&daemon, "./a.txt", b"0123456789");
    assert_served(&daemon, "sub/./c.txt", b"insub");
    assert_served(&daemon, "x.d/y.txt", b"hidden");
    daemon.assert_alive(idle);
    drop(daemon);

    let mut daemon = Daemon::start(&site, &["--dotfiles"]);
    let idle = daemon.idle_descriptors();
    for name in hidden {
        assert_served(&daemon, name, b"hidden");
    }
    for name in [".none", ".git", ".git/none", "..", ".", "../.env"] {
        assert_refused(&daemon, &site, name, 404);
    }
    daemon.assert_alive(idle);
}

#[test]
fn no_variable_but_the_query_names_a_file() {
    let site = Site::awkward();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let variables = [
        ("UWSGI_FILE", "/etc/passwd"),
        ("UWSGI_SCRIPT", "x"),
        ("UWSGI_MODULE", "os"),
        ("UWSGI_CHDIR", "/etc"),
        ("UWSGI_APPID", "x"),
        ("SCRIPT_NAME", "/api"),
        ("SCRIPT_FILENAME", "/etc/hostname"),
        ("PATH_TRANSLATED", "/etc/hostname"),
        ("DOCUMENT_ROOT", "/etc"),
        ("REQUEST_URI", "/api/stream-files?file1=b.txt"),
        ("HTTP_PROXY", "http://x:1"),
        ("HTTP_X_FORWARDED_FOR", "203.0.113.9"),
        ("HTTP_X_REAL_IP", "203.0.113.9"),
        ("HTTP_FORWARDED", "for=203.0.113.9"),
        ("HTTP_X_SENDFILE", "/etc/hostname"),
        ("HTTP_X_ACCEL_REDIRECT", "/etc/hostname"),
        ("HTTP_X_ORIGINAL_URL", "/api/stream-files?file1=b.txt"),
        ("HTTP_X_HTTP_METHOD_OVERRIDE", "DELETE"),
        ("AXON_ROOT", "/etc"),
        ("AXON_DOTFILES", "1"),
    ];
    let requests = ["?file1=a.txt", "?file1=hostname", "?file1=.env", "?file1=a.txt&file2=b.txt"];
    let everything = |packet: Packet| variables.iter().fold(packet, |packet, (name, value)| packet.with(name, value));
    for query in requests {
        let plain = Packet::get(format!("{STREAM}{query}"));
        let expected = daemon.send(&plain);
        assert_eq!(expected.status, if query.contains("a.txt") { 200 } else { 404 });
        for (name, value) in variables {
            assert_eq!(daemon.send(&plain.clone().with(name, value)).raw, expected.raw, "{name}, {query}");
        }
        let id = format!("all of them, {query}");
        let answer = daemon.send(&everything(plain).header("X-Request-Id", &id));
        assert_eq!(answer.raw, expected.raw, "{query}");
        assert_eq!(daemon.request_record(&id)["peer"], "192.0.2.10");
    }
    let health = everything(Packet::get("/api/health"));
    assert_eq!(daemon.send(&health).text(), "{\"status\":\"available\"}");
    daemon.assert_alive(idle);
}
