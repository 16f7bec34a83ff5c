//! Files of this machine, beneath one directory.
//!
//! Confinement is the kernel's: every file is opened with `openat2` relative to the root's descriptor with
//! `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS`, so neither `..` nor a symlink nor a race between a
//! check and an open can lead outside. What counts is the descriptor that was opened; no path is looked at
//! twice.
//!
//! No call made on a worker waits for a disk: opening is first tried with `RESOLVE_CACHED`, and what the
//! kernel cannot resolve from memory is opened on the blocking pool.

use std::{
    fmt::{self, Display, Formatter},
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::{
    blocking,
    body::{Content, ContentError, Disk, FileId, Wait},
    message::{Stamp, Timestamp},
    store::{Key, tally::Tally},
};

/// The most descriptors that the files of one request keep open; with one that is read ahead of its turn they are 16.
/// Of a larger set the first ones stay open and the others are opened again, and compared, when their turn comes.
pub const MAX_HELD_DESCRIPTORS: usize = 15;

/// How many files are opened before other connections of the worker get a turn.
const OPENS_PER_TURN: usize = 64;

/// How often an open is tried again that a concurrent rename or mount has disturbed (EAGAIN, see openat2(2)).
const RACE_RETRIES: usize = 64;

/// `O_NONBLOCK`: opening a FIFO must not wait for a writer. `O_NOCTTY`: a terminal must not become ours.
const OPEN_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Neither `..` nor a symlink leads outside, nor do the links in /proc that jump anywhere.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// The same from memory alone, and without a step onto another file system.
const CACHED: ResolveFlags = BENEATH.union(ResolveFlags::CACHED).union(ResolveFlags::NO_XDEV);

/// File systems whose open asks another machine or another process, whatever is in memory: 9p, CIFS, SMB2, Ceph, NFS
/// and FUSE, by their numbers in `linux/magic.h`.
const REMOTE_FILE_SYSTEMS: [i64; 6] = [0x0102_1997, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x6969, 0x6573_5546];

/// The files beneath one directory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    root: Arc<Root>,
}

#[derive(Debug)]
struct Root {
    directory: OwnedFd,
    /// Its file system's number.
    device: u64,
    /// Whether the kernel can open from memory alone (`RESOLVE_CACHED`, Linux 5.12).
    opens_cached: bool,
    /// Files that were opened.
    opened: Tally,
    /// One look at the root at a time.
    looking: Arc<Semaphore>,
}

/// Why a directory cannot be the root.
#[derive(Debug, Error)]
pub enum RootError {
    /// It cannot be opened.
    #[error("cannot open the root directory: {0}")]
    Open(io::Error),
    /// The kernel cannot confine opens.
    // Under those settings systemd answers for the kernel that there is no such call.
    #[error(
        "this system cannot confine files to a directory: openat2 failed ({0}); Linux 5.6 or later is needed, and in a \
         systemd unit neither DynamicUser= nor RestrictSUIDSGID="
    )]
    NoConfinement(io::Error),
}

/// Why a file cannot be served.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is, but we may not read it.
    #[error("not permitted")]
    Forbidden,
    /// Out of descriptors or memory, or disturbed again and again by renames: worth another try.
    #[error("temporarily unavailable")]
    Busy(io::Error),
    /// The file system failed.
    #[error("cannot be read")]
    Io(io::Error),
    /// Nothing there, outside the root, or no regular file. Indistinguishable by intent.
    #[error("not found")]
    NotFound,
}

/// A regular file that has been opened and measured.
#[derive(Debug)]
pub struct Entry {
    key: Key,
    root: Arc<Root>,
    identity: Identity,
    changed: Timestamp,
    /// None where it was closed again, so that a request does not hold too many.
    descriptor: Option<Arc<OwnedFd>>,
}

/// How far an open goes.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// To what is in memory: anything else fails with `EAGAIN`.
    Memory,
    /// To the disk, however long it takes. From the root's own, a step onto another file system fails with `EXDEV`, as
    /// one out of the root does.
    Disk(Disk),
}

/// What an open gave.
struct Opened {
    descriptor: OwnedFd,
    identity: Identity,
    changed: Timestamp,
}

/// By what a file opened again is known to be the one that was measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: Timestamp,
}

/// The content of an [`Entry`], as part of a body.
#[derive(Debug)]
pub struct LocalFile {
    entry: Entry,
    parameter: Bytes,
}

impl Store {
    /// Opens the root, following symlinks to it.
    ///
    /// # Errors
    /// Where it is no directory we may enter, or the kernel has no `openat2`.
    pub fn open(root: &Path) -> Result<Self, RootError> {
        // Entering is enough: nobody lists the directory.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(root, flags, Mode::empty()).map_err(|e| RootError::Open(e.into()))?;
        let probe = |resolve| rustix::fs::openat2(&directory, ".", flags, Mode::empty(), resolve);
        match probe(BENEATH) {
            Ok(_) => {}
            Err(error @ (Errno::NOSYS | Errno::PERM)) => return Err(RootError::NoConfinement(error.into())),
            Err(error) => return Err(RootError::Open(error.into())),
        }
        let opens_cached = !matches!(probe(CACHED), Err(Errno::INVAL)) && !is_remote(&directory);
        let device = rustix::fs::fstat(&directory).map_err(|error| RootError::Open(error.into()))?.st_dev;
        let (opened, looking) = (Tally::default(), Arc::new(Semaphore::new(1)));
        Ok(Self { root: Arc::new(Root { directory, device, opens_cached, opened, looking }) })
    }

    /// How many files have been opened: to be measured, again where a request has too many to keep them open, and ahead
    /// of their turn. Not among them is what turned out to be no regular file.
    pub fn files_opened(&self) -> u64 {
        self.root.opened.sum()
    }

    /// Whether the root directory can be opened now. Waits for its disk, but not on this thread; must run within a tokio
    /// runtime.
    ///
    /// Cancel safety: safe. A look that a dead disk holds up goes on alone, and whoever comes after waits for it: it
    /// never costs more than one thread.
    pub async fn look_at_root(&self) -> Result<(), OpenError> {
        let busy = |error: &dyn std::error::Error| OpenError::Busy(io::Error::other(error.to_string()));
        let turn = Arc::clone(&self.root.looking).acquire_owned().await.map_err(|error| busy(&error))?;
        let root = Arc::clone(&self.root);
        let looked = blocking::run(Disk::Root, move || {
            let _turn = turn;
            root.look()
        });
        looked.await.map_err(|error| busy(&error))?.map_err(OpenError::from)
    }

    /// Opens and measures files; the results are in the order of the keys.
    ///
    /// At most [`MAX_HELD_DESCRIPTORS`] stay open. Must run within a tokio runtime.
    ///
    /// Cancel safety: dropping the future closes what was opened.
    pub async fn open_all(&self, keys: &[Key]) -> Vec<Result<Entry, OpenError>> {
        let mut entries = Vec::with_capacity(keys.len());
        let mut uncached = Vec::new();
        let mut held = 0;
        for (index, key) in keys.iter().enumerate() {
            if index % OPENS_PER_TURN == OPENS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            let entry = Entry::open(&self.root, key, Reach::Memory, &mut held);
            if matches!(entry, Err(Errno::AGAIN)) {
                uncached.push(index);
            }
            entries.push(entry.map_err(OpenError::from));
        }
        for disk in [Disk::Root, Disk::Mounted] {
            if !uncached.is_empty() {
                (uncached, held) = self.open_uncached(keys, uncached, held, disk, &mut entries).await;
            }
        }
        entries
    }

    /// Opens what lies on one disk, however long that takes; gives what does not lie there, and how many descriptors
    /// are held.
    async fn open_uncached(
        &self,
        keys: &[Key],
        uncached: Vec<usize>,
        mut held: usize,
        disk: Disk,
        entries: &mut [Result<Entry, OpenError>],
    ) -> (Vec<usize>, usize) {
        let root = Arc::clone(&self.root);
        let wanted: Vec<Key> = uncached.iter().map(|&index| keys[index].clone()).collect();
        let opened = blocking::run(disk, move || {
            let open = |key| Entry::open(&root, key, Reach::Disk(disk), &mut held);
            let opened = wanted.iter().map(open).collect::<Vec<_>>();
            (opened, held)
        });
        let mut elsewhere = Vec::new();
        match opened.await {
            Ok((opened, held)) => {
                for (index, entry) in uncached.into_iter().zip(opened) {
                    if disk == Disk::Root && matches!(entry, Err(Errno::XDEV)) {
                        elsewhere.push(index);
                    } else {
                        entries[index] = entry.map_err(OpenError::from);
                    }
                }
                (elsewhere, held)
            }
            Err(error) => {
                let cause = error.to_string();
                for index in uncached {
                    entries[index] = Err(OpenError::Busy(io::Error::other(cause.clone())));
                }
                (elsewhere, held)
            }
        }
    }
}

impl Root {
    fn open(&self, path: &Path, reach: Reach) -> Result<OwnedFd, Errno> {
        let open = |resolve| rustix::fs::openat2(&self.directory, path, OPEN_FLAGS, Mode::empty(), resolve);
        let resolve = match reach {
            Reach::Memory if self.opens_cached => {
                return match open(CACHED) {
                    // Another file system begins there: whether its open waits for somebody is not known.
                    Err(Errno::XDEV) => Err(Errno::AGAIN),
                    opened => opened,
                };
            }
            Reach::Memory => return Err(Errno::AGAIN),
            Reach::Disk(Disk::Root) => BENEATH.union(ResolveFlags::NO_XDEV),
            Reach::Disk(Disk::Mounted) => BENEATH,
        };
        let mut tries = 0;
        loop {
            match open(resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < RACE_RETRIES => tries += 1,
                other => return other,
            }
        }
    }

    /// Opens the directory itself, as an open of a file beneath it would pass it.
    fn look(&self) -> Result<(), Errno> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |access| rustix::fs::openat2(&self.directory, ".", flags | access, Mode::empty(), BENEATH);
        let opened = match open(OFlags::RDONLY) {
            // One that may be entered and not listed will do.
            Err(Errno::ACCESS) => open(OFlags::PATH)?,
            opened => opened?,
        };
        // One that was removed is still there for whoever has it open, without a name.
        if rustix::fs::fstat(&opened)?.st_nlink == 0 { Err(Errno::NOENT) } else { Ok(()) }
    }

    /// Opens a file and looks at what was opened. What is no regular file is `EISDIR`.
    fn measure(&self, key: &Key, reach: Reach) -> Result<Opened, Errno> {
        let descriptor = self.open(key.as_path(), reach)?;
        let stat = rustix::fs::fstat(&descriptor)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::ISDIR);
        }
        self.opened.add_one();
        let changed = Timestamp { secs: stat.st_ctime, nanos: nanos(stat.st_ctime_nsec) };
        Ok(Opened { descriptor, identity: Identity::of(&stat), changed })
    }
}

impl Entry {
    /// The name it was asked for by.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Size and times. Both times, whatever validators are made of.
    pub fn stamp(&self) -> Stamp {
        let Identity { size, modified, .. } = self.identity;
        Stamp { size, modified, changed: Some(self.changed) }
    }

    /// Turns the entry into content for a body; `parameter` is what a log record will name it by.
    pub fn into_content(self, parameter: Bytes) -> Arc<LocalFile> {
        Arc::new(LocalFile { entry: self, parameter })
    }

    /// Opens and measures a file, and keeps it open if there is room.
    fn open(root: &Arc<Root>, key: &Key, reach: Reach, held: &mut usize) -> Result<Self, Errno> {
        let Opened { descriptor, identity, changed } = root.measure(key, reach)?;
        let descriptor = (*held < MAX_HELD_DESCRIPTORS).then(|| {
            *held += 1;
            Arc::new(descriptor)
        });
        Ok(Self { key: key.clone(), root: Arc::clone(root), identity, changed, descriptor })
    }
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0), // never negative for a regular file
            modified: Timestamp { secs: stat.st_mtime, nanos: nanos(stat.st_mtime_nsec) },
        }
    }
}

impl Display for Identity {
    /// For the record of an answer that was cut.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { device, inode, size, modified: Timestamp { secs, nanos } } = self;
        write!(f, "{size} bytes, inode {inode} of device {device} and mtime {secs}.{nanos:09}")
    }
}

impl LocalFile {
    fn compare(&self, found: Identity) -> Result<(), ContentError> {
        let measured = self.entry.identity;
        if found.size < measured.size {
            return Err(ContentError::shrunk(measured.size, found.size));
        }
        if found != measured {
            return Err(ContentError::Changed { what: format!("it had {measured}, now {found}") });
        }
        Ok(())
    }
}

impl Content for LocalFile {
    fn open(&self, wait: Wait) -> Result<Arc<OwnedFd>, ContentError> {
        if let Some(descriptor) = &self.entry.descriptor {
            return Ok(Arc::clone(descriptor));
        }
        let reach = match wait {
            Wait::Never => Reach::Memory,
            Wait::ForDisk => Reach::Disk(self.disk()),
        };
        let opened = match self.entry.root.measure(&self.entry.key, reach) {
            Ok(opened) => opened,
            Err(Errno::AGAIN) if wait == Wait::Never => return Err(ContentError::WouldWait),
            Err(error) => return Err(ContentError::Io(error.into())),
        };
        self.compare(opened.identity)?;
        Ok(Arc::new(opened.descriptor))
    }

    fn check(&self, descriptor: &OwnedFd) -> Result<(), ContentError> {
        let found = Identity::of(&rustix::fs::fstat(descriptor).map_err(io::Error::from)?);
        if found.size > self.entry.identity.size { Ok(()) } else { self.compare(found) }
    }

    fn disk(&self) -> Disk {
        if self.entry.identity.device == self.entry.root.device { Disk::Root } else { Disk::Mounted }
    }

    fn parameter(&self) -> &[u8] {
        &self.parameter
    }

    fn measured_len(&self) -> u64 {
        self.entry.identity.size
    }

    fn file_id(&self) -> Option<FileId> {
        let Identity { device, inode, .. } = self.entry.identity;
        Some(FileId { device, inode })
    }
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ACCESS | Errno::PERM => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Self::Busy(error.into()),
            // XDEV: it would leave the root. LOOP: a magic link, or symlinks without end. NXIO and NODEV: a
            // socket or a device. The client is told the same as when there is nothing.
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::XDEV
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::NODEV
            | Errno::INVAL
            | Errno::ILSEQ => Self::NotFound,
            _ => Self::Io(error.into()),
        }
    }
}

/// Whether a directory is on a file system whose opens ask another machine or process.
pub fn is_remote(directory: &OwnedFd) -> bool {
    // What cannot be told is treated with caution.
    rustix::fs::fstatfs(directory).map_or(true, |found| REMOTE_FILE_SYSTEMS.contains(&found.f_type))
}

/// The kernel keeps nanoseconds below 1,000,000,000; what a broken file system says beyond that is cut.
fn nanos(raw: impl TryInto<u32>) -> u32 {
    raw.try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs as unix};

    use super::*;

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| Key::parse(&Bytes::copy_from_slice(name.as_bytes()), true).expect("a name")).collect()
    }

    async fn open(store: &Store, name: &str) -> Result<Entry, OpenError> {
        store.open_all(&keys(&[name])).await.remove(0)
    }

    #[tokio::test]
    async fn regular_files_beneath_the_root_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("sub")).expect("a directory");
        fs::write(dir.path().join("outside"), "secret").expect("a file");
        fs::write(root.join("a.txt"), "0123456789").expect("a file");
        unix::symlink("../a.txt", root.join("sub/in")).expect("a link");
        unix::symlink("../outside", root.join("out")).expect("a link");
        unix::symlink("/etc", root.join("etc")).expect("a link");
        unix::symlink("/proc/self/root", root.join("magic")).expect("a link");
        unix::symlink("loop", root.join("loop")).expect("a link");
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).expect("a socket");
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), Mode::RUSR).expect("a pipe");
        let store = Store::open(&root).expect("a root");
        for name in ["a.txt", "sub/in", "sub/../a.txt"] {
            assert_eq!(open(&store, name).await.expect(name).stamp().size, 10);
        }
        for name in [
            "none",
            "sub",
            ".",
            "..",
            "../outside",
            "../root/a.txt",
            "out",
            "etc/passwd",
            "etc/none",
            "magic/etc/passwd",
            "loop",
            "socket",
            "pipe",
            "a.txt/b",
            "sub/../../outside",
        ] {
            assert!(matches!(open(&store, name).await, Err(OpenError::NotFound)), "{name}");
        }
    }

    #[tokio::test]
    async fn a_large_set_holds_few_descriptors_and_files_must_stay_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let names: Vec<String> = (0..40).map(|i| format!("f{i}")).collect();
        for name in &names {
            fs::write(dir.path().join(name), name).expect("a file");
        }
        let store = Store::open(dir.path()).expect("a root");
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let entries: Vec<Entry> =
            store.open_all(&keys(&names)).await.into_iter().map(|entry| entry.expect("a file")).collect();
        assert_eq!(entries.iter().filter(|e| e.descriptor.is_some()).count(), MAX_HELD_DESCRIPTORS);
        let files: Vec<_> = entries.into_iter().map(|e| e.into_content(Bytes::from_static(b"file"))).collect();
        assert!(files[39].open(Wait::ForDisk).is_ok());
        fs::write(dir.path().join("f39"), "f").expect("a file");
        let error = files[39].open(Wait::ForDisk).expect_err("it shrank");
        assert_eq!(error.to_string(), "the file changed after it was measured: it had 3 bytes, now 1");
        fs::remove_file(dir.path().join("f38")).expect("gone");
        fs::write(dir.path().join("f38"), "f38").expect("a file");
        let error = files[38].open(Wait::ForDisk).expect_err("another file").to_string();
        let wanted = "the file changed after it was measured: it had 3 bytes, inode ";
        assert!(error.starts_with(wanted) && error.contains(", now 3 bytes, inode "), "{error}");
        fs::remove_file(dir.path().join("f37")).expect("gone");
        assert!(matches!(files[37].open(Wait::ForDisk), Err(ContentError::Io(_))));
        // One that was kept open is served as it was opened.
        fs::remove_file(dir.path().join("f0")).expect("gone");
        assert!(files[0].open(Wait::Never).is_ok());
    }

    #[tokio::test]
    async fn a_root_may_be_a_symlink_but_not_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("a"), "a").expect("a file");
        unix::symlink(".", dir.path().join("link")).expect("a link");
        let store = Store::open(&dir.path().join("link")).expect("a root");
        assert!(open(&store, "a").await.is_ok());
        assert!(matches!(Store::open(&dir.path().join("a")), Err(RootError::Open(_))));
        assert!(matches!(Store::open(&dir.path().join("none")), Err(RootError::Open(_))));
    }
}
