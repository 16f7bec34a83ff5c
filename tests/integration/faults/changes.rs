//! Files that change between the moment they are measured and the moment they are sent.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read as _, Write as _},
    ops::Range,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixStream,
    },
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::harness::{Answer, Daemon, End, Packet, Site, connect, noise, stream_target, wait_until};

/// More than a socket's buffer holds: with it at the front, nothing behind it is sent before somebody reads.
const LARGE_LEN: usize = 2_000_000;

/// How much is read before a file is changed.
const START_LEN: usize = 4096;

/// A request whose answer has begun and is stuck, since nobody reads.
struct Begun {
    stream: UnixStream,
    start: Vec<u8>,
    whole: Answer,
}

impl Begun {
    /// Makes the request once to know its whole answer, and once more up to its start.
    fn begin(daemon: &Daemon, names: &[impl AsRef<[u8]>]) -> Self {
        let packet = Packet::get(stream_target(names));
        let whole = daemon.send(&packet);
        assert_eq!((whole.status, whole.content_length()), (200, whole.body.len() as u64));
        let mut stream = connect(daemon.socket());
        stream.write_all(&packet.to_bytes()).expect("room for a packet");
        let mut start = vec![0; START_LEN];
        stream.read_exact(&mut start).expect("the start of an answer");
        Self { stream, start, whole }
    }

    /// Reads the rest. Whatever happened, what came is how the whole answer begins.
    ///
    /// Except for what the kernel does by itself: a socket refers to the file's pages that were handed to it, and
    /// what is cut off a page, which may be large, is `emptied` there as well.
    fn finish(mut self, emptied: Range<usize>) -> (Answer, Answer) {
        let started = Instant::now();
        let end = match self.stream.read_to_end(&mut self.start) {
            Ok(_) => End::Closed,
            Err(error) if error.kind() == ErrorKind::WouldBlock => End::Hanging,
            Err(_) => End::Reset,
        };
        let duration = started.elapsed();
        assert!(duration < Duration::from_secs(1), "it took {duration:?}");
        let whole = &self.whole.raw;
        let differ =
            |(at, (came, promised)): (usize, (&u8, &u8))| came != promised && !(emptied.contains(&at) && *came == 0);
        let difference = self.start.iter().zip(whole).enumerate().position(differ);
        assert_eq!(difference, None, "neither padding nor a message");
        (Answer::parse(self.start, end, duration), self.whole)
    }

    /// Reads the rest of an answer that has to be cut; gives how much of its body came.
    fn assert_cut(self, emptied: Range<usize>) -> usize {
        let (answer, whole) = self.finish(emptied);
        assert_eq!((answer.status, answer.end), (200, End::Closed));
        assert!(answer.body.len() < whole.body.len(), "it is whole");
        answer.body.len()
    }

    /// Reads the rest of an answer that has to be whole.
    fn assert_whole(self) {
        let (answer, whole) = self.finish(0..0);
        assert!((answer.end, answer.raw.len()) == (End::Closed, whole.raw.len()), "{} came", answer.raw.len());
    }
}

fn truncate(path: &Path, len: u64) {
    File::options().write(true).open(path).and_then(|file| file.set_len(len)).expect("a shorter file");
}

/// From now on nobody may open it.
fn forbid(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("a mode");
}

fn position(body: &[u8], content: &[u8]) -> usize {
    body.windows(content.len()).position(|window| window == content).expect("it is in there")
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_cuts_the_answer() {
    let site = Site::empty();
    let content = noise(LARGE_LEN);
    site.write("a.txt", "0123456789");
    site.write("b.txt", "abcdef");
    let path = site.write("shrinks.bin", &content);
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let errors = |daemon: &Daemon| {
        let records = daemon.records().into_iter();
        records.filter(|record| record["level"] == "ERROR").collect::<Vec<_>>()
    };
    let mut cuts = 0;
    for new_len in [1_000_000, 65_536, 4097, 1, 0] {
        for (names, parameter) in [
            (&["shrinks.bin"][..], "file0"),
            (&["a.txt", "shrinks.bin", "b.txt"], "file1"),
            (&["shrinks.bin", "b.txt", "a.txt"], "file0"),
            (&["shrinks.bin", "shrinks.bin"], "file0"),
        ] {
            fs::write(&path, &content).expect("as before");
            let begun = Begun::begin(&daemon, names);
            let in_body = if names.len() > 1 { position(&begun.whole.body, &content[..64]) } else { 0 };
            truncate(&path, new_len as u64);
            let in_answer = begun.whole.raw.len() - begun.whole.body.len() + in_body;
            let came = begun.assert_cut(in_answer + new_len..in_answer + LARGE_LEN);
            assert!(came < in_body + content.len(), "{names:?}: no later part and no closing delimiter");
            cuts += 1;
            wait_until("one error record for each cut", || errors(&daemon).len() == cuts);
            let record = errors(&daemon).pop().expect("it is the last one");
            assert_eq!(record["parameter"], parameter, "{record}");
            let cause = record["cause"].as_str().expect("a cause");
            assert!(cause.contains("2000000") && cause.contains(&format!("now {new_len}")), "both sizes: {cause}");
        }
    }
    assert_eq!(errors(&daemon).len(), cuts, "{}", daemon.log());
    daemon.assert_cpu_idle();
    daemon.assert_alive(idle);
}

/// A change to a file, by its path.
type Change = fn(&Site, &Path);

/// What makes a file that is opened again another one than was measured.
const CHANGES: [(&str, Change); 11] = [
    ("shrunk", |_, path| truncate(path, 3)),
    ("emptied", |_, path| truncate(path, 0)),
    ("grown", |_, path| File::options().append(true).open(path).and_then(|mut f| f.write_all(b"+")).expect("grown")),
    ("rewritten", |_, path| fs::write(path, "RE-WRITTEN").expect("rewritten")),
    ("replaced", |site, path| {
        fs::write(site.beside("new"), "RE-PLACED.").expect("a file");
        fs::rename(site.beside("new"), path).expect("replaced");
    }),
    ("made unreadable", |_, path| forbid(path)),
    ("deleted", |_, path| fs::remove_file(path).expect("deleted")),
    ("made a directory", |_, path| {
        fs::remove_file(path).and_then(|()| fs::create_dir(path)).expect("a directory");
    }),
    ("made a pipe", |_, path| {
        fs::remove_file(path).expect("deleted");
        assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success()));
    }),
    ("made a link out of the root", |site, path| {
        fs::write(site.beside("outside"), "OUTSIDE...").expect("a file");
        fs::remove_file(path).and_then(|()| symlink("../outside", path)).expect("a link");
    }),
    ("made a link to another file", |_, path| {
        fs::remove_file(path).and_then(|()| symlink("other.txt", path)).expect("a link");
    }),
];

#[test]
fn a_file_that_is_opened_again_must_still_be_the_same() {
    for (what, change) in CHANGES {
        let site = Site::empty();
        site.write("large.bin", vec![b'x'; LARGE_LEN]);
        site.write("other.txt", "another...");
        // More files than stay open: the last ones are opened when their turn comes.
        let mut names = vec!["large.bin".to_owned()];
        for index in 1..40 {
            names.push(format!("small{index}.txt"));
            site.write(&names[index], format!("content {index:02}"));
        }
        let mut daemon = Daemon::start(&site, &[]);
        let idle = daemon.idle_descriptors();
        let begun = Begun::begin(&daemon, &names);
        let in_body = position(&begun.whole.body, b"content 30");
        change(&site, &site.path("small30.txt"));
        let came = begun.assert_cut(0..0);
        assert!(came <= in_body, "{what}: something of it came");
        let record = daemon.recorded(what, |record| record["level"] == "ERROR");
        assert_eq!(record["parameter"], "file30", "{what}: {record}");
        if matches!(what, "shrunk" | "emptied") {
            let cause = record["cause"].as_str().expect("a cause");
            assert!(cause.contains("10") && cause.contains(if what == "shrunk" { "3" } else { "0" }), "{cause}");
        }
        assert!(!record.to_string().contains(&*site.root().to_string_lossy()), "{record}");
        daemon.assert_alive(idle);
    }
}

#[test]
fn a_small_file_that_stays_open_is_served_as_it_was_or_not_at_all() {
    let site = Site::empty();
    site.write("large.bin", noise(LARGE_LEN));
    site.write("small.txt", "0123456789");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let names = ["large.bin", "small.txt", "small.txt"];

    let begun = Begun::begin(&daemon, &names);
    let in_body = position(&begun.whole.body, b"0123456789");
    truncate(&site.path("small.txt"), 9);
    assert!(begun.assert_cut(0..0) < in_body + 10);
    let record = daemon.recorded("of the cut", |record| record["level"] == "ERROR");
    assert_eq!(record["parameter"], "file1", "{record}");

    // It may be forbidden, its name may go or be given to another file: what was opened is still there.
    site.write("small.txt", "0123456789");
    let begun = Begun::begin(&daemon, &names);
    forbid(&site.path("small.txt"));
    fs::remove_file(site.path("small.txt")).expect("deleted");
    fs::remove_file(site.path("large.bin")).expect("deleted");
    begun.assert_whole();
    daemon.assert_alive(idle);
}

#[test]
fn a_file_that_is_rewritten_in_place_at_its_size_cuts_the_answer() {
    let site = Site::empty();
    let content = noise(LARGE_LEN);
    site.write("large.bin", &content);
    site.write("small.txt", "0123456789");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let names = ["large.bin", "small.txt", "large.bin"];
    for (name, content) in [("large.bin", &content[..]), ("small.txt", b"0123456789")] {
        let begun = Begun::begin(&daemon, &names);
        // The same bytes: what came before must still be how the whole answer begins, and yet it is another version.
        let path = site.path(name);
        File::options().write(true).open(&path).and_then(|mut file| file.write_all(content)).expect("rewritten");
        File::open(&path).and_then(|file| file.set_modified(std::time::SystemTime::now())).expect("a time");
        begun.assert_cut(0..0);
    }
    let errors = || daemon.records().iter().filter(|record| record["level"] == "ERROR").count();
    wait_until("both cuts are recorded", || errors() == 2);
    daemon.assert_alive(idle);
}

#[test]
fn a_file_that_grows_is_sent_to_its_measured_length() {
    let site = Site::empty();
    let path = site.write("grows.bin", noise(LARGE_LEN));
    site.write("b.txt", "abcdef");
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    for names in [&["grows.bin"][..], &["grows.bin", "b.txt"], &["b.txt", "grows.bin", "b.txt"]] {
        let begun = Begun::begin(&daemon, names);
        File::options().append(true).open(&path).and_then(|mut file| file.write_all(&noise(100_000))).expect("grown");
        begun.assert_whole();
    }
    assert!(daemon.records().iter().all(|record| record["level"] != "ERROR"), "{}", daemon.log());
    daemon.assert_alive(idle);
}
