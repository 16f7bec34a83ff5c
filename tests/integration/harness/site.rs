//! A directory of files with awkward names, sizes and kinds.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, PermissionsExt as _, chown, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;

use super::daemon::tests_run_as_root;

/// The size of `big.bin`: sparse, and more than 32 bits can count.
pub const BIG_LEN: u64 = 5 * 1024 * 1024 * 1024;

/// An unprivileged user that exists everywhere; root would be allowed to read what nobody may.
pub const NOBODY: u32 = 65534;

/// A directory for one test: `root` in it is served, sockets and logs are beside it.
pub struct Site {
    dir: TempDir,
}

impl Site {
    /// An empty root.
    pub fn empty() -> Self {
        Self::empty_in(&std::env::temp_dir())
    }

    /// An empty root in a directory of another file system.
    pub fn empty_in(parent: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("axon-test-").tempdir_in(parent).expect("a directory");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("a mode");
        fs::create_dir(dir.path().join("root")).expect("a directory");
        let site = Self { dir };
        site.give_away();
        site
    }

    /// A root with the whole tree of awkward files.
    pub fn awkward() -> Self {
        let site = Self::empty();
        let text = [
            ("a.txt", "0123456789"),
            ("b.txt", "abcdef"),
            ("empty.bin", ""),
            ("endcrlf.bin", "x\r\n"),
            ("onlycrlf.bin", "\r\n"),
            ("dashes.bin", "--\r\n--x--\r\n\r\n"),
            ("mixed.bin", "a\r\nb\nc\rd\0e"),
            ("sub/c.txt", "insub"),
            ("p+q.txt", "plus"),
            ("p q.txt", "space"),
            ("100%25.txt", "pct"),
            ("100%.txt", "pct1"),
            ("q\"uo\\te.txt", "q"),
            ("a;b=c.txt", "semi"),
            ("n\nl.txt", "nl"),
            ("x\r\nX-Injected: 1\r\n\r\nbody.txt", "inj"),
            ("t\tb\x7f.txt", "tab"),
            ("ünï-日本.txt", "uni"),
            ("mail.eml", "From: a@b.test\nContent-Type: multipart/mixed; boundary=z\n\n--z\n\nhi\n--z--\n"),
            (".env", "hidden"),
            (".git/config", "hidden"),
        ];
        for (name, content) in text {
            site.write(name, content);
        }
        site.write(OsStr::from_bytes(b"\xff\xfe.bin"), "raw");
        site.write("\u{fffd}\u{fffd}.bin", "trap");
        for len in [1, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 3_000_000] {
            site.write(format!("s{len}.bin"), noise(len));
        }
        let big = File::create(site.path("big.bin")).expect("a file");
        big.set_len(BIG_LEN).expect("a sparse file");
        big.write_all_at(b"MARK", 4_294_967_290).expect("bytes beyond 32 bits");
        big.write_all_at(b"TAIL", BIG_LEN - 4).expect("bytes at the end");
        site.write("locked.txt", "no");
        fs::set_permissions(site.path("locked.txt"), Permissions::from_mode(0o000)).expect("a mode");
        for (target, link) in [
            ("/etc", "out"),
            ("/etc/hostname", "outfile"),
            ("a.txt", "in"),
            ("loop", "loop"),
            ("/proc/self/root", "pr"),
        ] {
            symlink(target, site.path(link)).expect("a link");
        }
        let made = Command::new("mkfifo").arg(site.path("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo failed");
        drop(UnixListener::bind(site.path("socket")).expect("a socket"));
        let second = Duration::from_secs(1);
        for (name, time) in [
            ("old.txt", UNIX_EPOCH - 185_700_000 * second),
            ("zero.txt", UNIX_EPOCH),
            ("fut.txt", SystemTime::now() + 80 * 365 * 86_400 * second),
            ("frac.txt", UNIX_EPOCH + 1_704_164_645 * second + Duration::from_millis(700)),
        ] {
            site.write(name, name);
            File::open(site.path(name)).and_then(|file| file.set_modified(time)).expect("a time");
        }
        site.give_away();
        site
    }

    /// The directory that is served.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// A file in the root.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join(name)
    }

    /// A file beside the root.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file in the root, and the directories it needs.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
        fs::write(&path, content).expect("a file");
        path
    }

    /// A relative directory so many levels deep, with long names.
    pub fn deep(levels: usize) -> PathBuf {
        std::iter::repeat_n("d".repeat(200), levels).collect()
    }

    /// What a file in the root holds.
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file")
    }

    /// The names of the files that can be served, in order: regular, readable, and no component starts with a dot.
    pub fn names(&self) -> Vec<PathBuf> {
        fn collect(root: &Path, directory: &Path, names: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(directory).expect("a directory") {
                let entry = entry.expect("an entry");
                let found = entry.metadata().expect("an entry's facts");
                if entry.file_name().as_bytes().starts_with(b".") {
                    continue;
                }
                if found.is_dir() {
                    collect(root, &entry.path(), names);
                } else if found.is_file() && found.permissions().mode() & 0o400 != 0 {
                    names.push(entry.path().strip_prefix(root).expect("it lies in the root").to_owned());
                }
            }
        }
        let mut names = Vec::new();
        collect(&self.root(), &self.root(), &mut names);
        names.sort();
        names
    }

    /// The tree belongs to whom the daemon runs as.
    fn give_away(&self) {
        fn give(path: &Path) {
            let _ = std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY));
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                fs::read_dir(path).expect("a directory").for_each(|entry| give(&entry.expect("an entry").path()));
            }
        }
        if tests_run_as_root() {
            chown(self.dir.path(), Some(NOBODY), Some(NOBODY)).expect("root may give away");
            give(&self.root());
        }
    }
}

/// Bytes without a pattern, the same every time.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = len as u64 + 0x9e37_79b9;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(len).collect()
}
