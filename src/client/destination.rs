//! Where a bundle is unpacked to: new files beneath one directory, and nothing anywhere else.
//!
//! Confinement is the kernel's: every directory is opened with `openat2` beneath the destination's descriptor with
//! `RESOLVE_BENEATH` and without following any symlink, and a file is made in the directory that was opened. Nothing
//! that is there is ever opened or written to: a file gets its name when it is whole, at once.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat},
    io::Errno,
};
use thiserror::Error;

use super::part_name::PartName;

/// A descriptor of a directory to make things in; a symlink at its place is not followed.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// What the umask leaves of these is the mode of a new file.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

/// The same for a directory.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

/// How many names for the time being are tried: some may be left from runs that were killed.
const MAX_TRIES: u32 = 100;

/// A directory to unpack into.
#[derive(Debug)]
pub struct Destination {
    directory: OwnedFd,
    /// A file that is there already is replaced.
    replace: bool,
    /// Device and inode of the files that were made here.
    made: HashSet<(u64, u64)>,
    /// Whether files without a name can be made and get one later.
    unnamed: bool,
}

/// Why a directory is no destination.
#[derive(Debug, Error)]
pub enum DestinationError {
    /// There is none.
    #[error("there is no directory {path}; type: mkdir -p {path}", path = .0.display())]
    Missing(PathBuf),
    /// It cannot be opened.
    #[error("cannot open the directory {}", .0.display())]
    Open(PathBuf, #[source] io::Error),
    /// The kernel cannot confine opens.
    #[error("this system cannot confine files to a directory: openat2 failed; Linux 5.6 or later is needed")]
    NoConfinement(#[source] io::Error),
}

/// Why a file cannot be made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// Another part had the same name.
    #[error("an earlier part of this bundle has the same name")]
    Twice,
    /// There is a file.
    #[error("there is such a file already; -f replaces it")]
    Exists,
    /// There is a directory, a symlink, a device, a socket or a pipe. Not even replaced.
    #[error("what is there is not a regular file; remove it, or choose another directory with -C")]
    NotAFile,
    /// A symlink would have to be followed.
    #[error("one of its directories is a symbolic link, and none is followed")]
    Symlink,
    /// A file is where a directory should be.
    #[error("one of its directories is a file")]
    NotADirectory,
    /// It can only be given a name that may be another file's by then.
    #[error("this file system cannot name a file without perhaps replacing another; -f lets it")]
    NoExclusiveName,
    /// Anything else.
    #[error("cannot make it: {0}")]
    Io(io::Error),
}

/// A file that has no name yet. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    directory: OwnedFd,
    name: OsString,
    /// Its name for the time being, where it has to have one.
    temporary: Option<OsString>,
}

impl Destination {
    /// Opens the directory, following symlinks to it. With `replace`, regular files that are there are replaced.
    pub fn open(path: &Path, replace: bool) -> Result<Self, DestinationError> {
        let failed = |error: Errno| match error {
            Errno::NOENT => DestinationError::Missing(path.to_owned()),
            error => DestinationError::Open(path.to_owned(), error.into()),
        };
        let directory = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(failed)?;
        match rustix::fs::openat2(&directory, ".", DIRECTORY, Mode::empty(), BENEATH) {
            Ok(_) => {}
            Err(error @ (Errno::NOSYS | Errno::PERM)) => return Err(DestinationError::NoConfinement(error.into())),
            Err(error) => return Err(failed(error)),
        }
        // A file without a name gets its name by way of /proc (open(2), O_TMPFILE).
        let unnamed = Path::new("/proc/self/fd").is_dir();
        Ok(Self { directory, replace, made: HashSet::new(), unnamed })
    }

    /// Makes a file that will have this name, and the directories it needs.
    pub(super) fn create(&self, name: &PartName) -> Result<NewFile, CreateError> {
        let directory = self.directory_of(name)?;
        self.check_place(&directory, name.file_name())?;
        let (file, temporary) = if self.unnamed { create_unnamed(&directory) } else { create_temporary(&directory) }?;
        Ok(NewFile { file, directory, name: name.file_name().to_owned(), temporary })
    }

    /// Gives a file its name, and a time if there is one.
    pub(super) fn publish(&mut self, mut new: NewFile, modified: Option<SystemTime>) -> Result<(), CreateError> {
        new.sync()?;
        if let Some(modified) = modified {
            new.file.set_modified(modified).map_err(CreateError::Io)?;
        }
        let made = identity(&rustix::fs::fstat(&new.file)?);
        match new.link() {
            // There was nothing when the part began; or there was, and it may be replaced.
            Err(Errno::EXIST) => {
                self.check_place(&new.directory, &new.name)?;
                new.replace()?;
            }
            // Neither a rename that replaces nothing nor a second name: rclone, sshfs and others.
            Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) if new.temporary.is_some() => {
                self.check_place(&new.directory, &new.name)?;
                if !self.replace {
                    return Err(CreateError::NoExclusiveName);
                }
                new.replace()?;
            }
            other => other?,
        }
        self.made.insert(made);
        Ok(())
    }

    /// Opens the directory that a file will be in, step by step as far as it has to be made.
    fn directory_of(&self, name: &PartName) -> Result<OwnedFd, CreateError> {
        let open = |path: &Path| rustix::fs::openat2(&self.directory, path, DIRECTORY, Mode::empty(), BENEATH);
        let directories = name.directories();
        match open(directories.last().unwrap_or(&Path::new("."))) {
            Err(Errno::NOENT) => {}
            opened => return Ok(opened?),
        }
        let mut parent = open(Path::new("."))?;
        for path in directories {
            parent = match open(path) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&parent, path.file_name().unwrap_or_default(), DIRECTORY_MODE) {
                        Ok(()) | Err(Errno::EXIST) => open(path)?,
                        Err(error) => return Err(error.into()),
                    }
                }
                opened => opened?,
            };
        }
        Ok(parent)
    }

    /// Whether a file may get this name.
    fn check_place(&self, directory: &OwnedFd, name: &OsStr) -> Result<(), CreateError> {
        let found = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        if self.made.contains(&identity(&found)) {
            Err(CreateError::Twice)
        } else if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            Err(CreateError::NotAFile)
        } else if self.replace {
            Ok(())
        } else {
            Err(CreateError::Exists)
        }
    }
}

impl NewFile {
    /// Appends content.
    pub(super) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)
    }

    /// Waits until the content is where it will stay, on file systems that tell only then that it is not: those of other
    /// machines and processes, which have no files without a name. Others tell at once that there is no room, and each
    /// of a thousand files would wait for the disk.
    fn sync(&self) -> Result<(), Errno> {
        match self.temporary.as_ref().map_or(Ok(()), |_| rustix::fs::fsync(&self.file)) {
            // There is nothing to wait for (fsync(2)).
            Err(Errno::INVAL | Errno::NOSYS | Errno::ROFS) => Ok(()),
            synced => synced,
        }
    }

    /// Gives it its name if nothing has that (`EEXIST`).
    fn link(&mut self) -> Result<(), Errno> {
        let Some(temporary) = &self.temporary else { return self.link_as(&self.name) };
        match rustix::fs::renameat_with(&self.directory, temporary, &self.directory, &self.name, RenameFlags::NOREPLACE)
        {
            // Not every file system can do that.
            Err(Errno::INVAL) => {
                rustix::fs::linkat(&self.directory, temporary, &self.directory, &self.name, AtFlags::empty())
            }
            Err(error) => Err(error),
            Ok(()) => {
                self.temporary = None;
                Ok(())
            }
        }
    }

    /// Gives it its name in the place of what has that.
    fn replace(&mut self) -> Result<(), Errno> {
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => with_temporary_name(|name| self.link_as(name))?.1,
        };
        // Where it fails, the name for the time being is taken away at the end.
        let temporary = self.temporary.insert(temporary);
        rustix::fs::renameat(&self.directory, &*temporary, &self.directory, &self.name)?;
        self.temporary = None;
        Ok(())
    }

    fn link_as(&self, name: &OsStr) -> Result<(), Errno> {
        let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, unnamed, &self.directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.directory, temporary, AtFlags::empty());
        }
    }
}

impl From<Errno> for CreateError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::LOOP => Self::Symlink,
            Errno::NOTDIR => Self::NotADirectory,
            error => Self::Io(error.into()),
        }
    }
}

/// A file without a name leaves nothing behind, even where the process is killed.
fn create_unnamed(directory: &OwnedFd) -> Result<(File, Option<OsString>), CreateError> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, FILE_MODE) {
        Ok(file) => Ok((file.into(), None)),
        // Not every file system has such files (open(2)).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => create_temporary(directory),
        Err(error) => Err(error.into()),
    }
}

fn create_temporary(directory: &OwnedFd) -> Result<(File, Option<OsString>), CreateError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let (file, name) = with_temporary_name(|name| rustix::fs::openat(directory, name, flags, FILE_MODE))?;
    Ok((file.into(), Some(name)))
}

/// Tries names until one is free.
fn with_temporary_name<T>(mut attempt: impl FnMut(&OsStr) -> Result<T, Errno>) -> Result<(T, OsString), Errno> {
    for number in 0..MAX_TRIES {
        let name = OsString::from(format!(".axon-unpack-{}-{number}", std::process::id()));
        match attempt(&name) {
            Ok(made) => return Ok((made, name)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, symlink},
        time::{Duration, UNIX_EPOCH},
    };

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        destination: Destination,
    }

    impl Place {
        fn new(replace: bool, unnamed: bool) -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            fs::create_dir(dir.path().join("in")).expect("a directory");
            let mut destination = Destination::open(&dir.path().join("in"), replace).expect("a destination");
            assert!(destination.unnamed, "there is /proc");
            destination.unnamed = unnamed;
            Self { dir, destination }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join("in").join(name)
        }

        fn create(&self, name: &str) -> Result<NewFile, CreateError> {
            self.destination.create(&PartName::parse(name.as_bytes(), true).expect("a name"))
        }

        fn write(&mut self, name: &str, content: &str) -> Result<(), CreateError> {
            let mut new = self.create(name)?;
            new.write(content.as_bytes()).expect("room");
            self.destination.publish(new, Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)))
        }

        /// All names below the directory, in order.
        fn names(&self) -> Vec<String> {
            let mut names = Vec::new();
            let mut left = vec![self.path("")];
            while let Some(directory) = left.pop() {
                for entry in fs::read_dir(directory).expect("a directory") {
                    let path = entry.expect("an entry").path();
                    if path.is_dir() && !path.is_symlink() {
                        left.push(path.clone());
                    }
                    let name = path.strip_prefix(self.path("")).expect("beneath").to_str().expect("text").to_owned();
                    names.push(name);
                }
            }
            names.sort();
            names
        }
    }

    /// With files that get their name at last, and with those that have one for the time being.
    fn both_ways(replace: bool, test: impl Fn(Place)) {
        for unnamed in [true, false] {
            test(Place::new(replace, unnamed));
        }
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_whole() {
        both_ways(false, |mut place| {
            let mut new = place.create("sub/deep/a.txt").expect("a file");
            new.write(b"half").expect("room");
            assert!(!place.path("sub/deep/a.txt").exists());
            drop(new);
            assert_eq!(place.names(), ["sub", "sub/deep"]);
            place.write("sub/deep/a.txt", "whole").expect("a file");
            assert_eq!(place.names(), ["sub", "sub/deep", "sub/deep/a.txt"]);
            let found = fs::metadata(place.path("sub/deep/a.txt")).expect("a file");
            assert_eq!((found.len(), found.mtime(), found.mode() & 0o111), (5, 1_700_000_000, 0));
        });
    }

    #[test]
    fn what_is_there_stays_unless_it_may_be_replaced() {
        both_ways(false, |mut place| {
            fs::write(place.path("a.txt"), "old").expect("a file");
            assert!(matches!(place.write("a.txt", "new"), Err(CreateError::Exists)));
            // Also where it comes while the part is being written.
            let new = place.create("b.txt").expect("a file");
            fs::write(place.path("b.txt"), "old").expect("a file");
            assert!(matches!(place.destination.publish(new, None), Err(CreateError::Exists)));
            for name in ["a.txt", "b.txt"] {
                assert_eq!(fs::read(place.path(name)).expect("a file"), b"old");
            }
            assert_eq!(place.names(), ["a.txt", "b.txt"]);
        });
        both_ways(true, |mut place| {
            fs::write(place.path("a.txt"), "old").expect("a file");
            fs::hard_link(place.path("a.txt"), place.path("other")).expect("a second name");
            place.write("a.txt", "new").expect("a file");
            place.write("b.txt", "new").expect("a file");
            assert_eq!(fs::read(place.path("a.txt")).expect("a file"), b"new");
            assert_eq!(fs::read(place.path("other")).expect("a file"), b"old");
            assert!(matches!(place.write("a.txt", "newer"), Err(CreateError::Twice)));
            assert!(matches!(place.write("b.txt", "newer"), Err(CreateError::Twice)));
            assert_eq!(place.names(), ["a.txt", "b.txt", "other"]);
        });
    }

    #[test]
    fn nothing_but_a_regular_file_is_replaced() {
        both_ways(true, |mut place| {
            fs::create_dir(place.path("directory")).expect("a directory");
            fs::write(place.dir.path().join("outside"), "old").expect("a file");
            symlink("../outside", place.path("link")).expect("a link");
            symlink("nowhere", place.path("dangling")).expect("a link");
            drop(std::os::unix::net::UnixListener::bind(place.path("socket")).expect("a socket"));
            rustix::fs::mkfifoat(CWD, place.path("pipe"), Mode::RUSR).expect("a pipe");
            let names = place.names();
            for name in ["directory", "link", "dangling", "socket", "pipe"] {
                assert!(matches!(place.write(name, "new"), Err(CreateError::NotAFile)), "{name}");
            }
            // Also where it comes while the part is being written.
            let new = place.create("late").expect("a file");
            symlink("../outside", place.path("late")).expect("a link");
            assert!(matches!(place.destination.publish(new, None), Err(CreateError::NotAFile)));
            fs::remove_file(place.path("late")).expect("a link");
            assert_eq!(place.names(), names);
            assert_eq!(fs::read(place.dir.path().join("outside")).expect("a file"), b"old");
        });
    }

    #[test]
    fn no_symlink_is_followed_wherever_it_leads() {
        both_ways(true, |mut place| {
            fs::create_dir(place.dir.path().join("outside")).expect("a directory");
            fs::create_dir(place.path("inside")).expect("a directory");
            for (target, link) in [("../outside", "out"), ("/", "root"), ("inside", "in"), ("/proc/self/cwd", "magic")]
            {
                symlink(target, place.path(link)).expect("a link");
                for name in [format!("{link}/a.txt"), format!("{link}/new/a.txt")] {
                    assert!(matches!(place.write(&name, "x"), Err(CreateError::Symlink)), "{name}");
                }
            }
            fs::write(place.path("file"), "x").expect("a file");
            assert!(matches!(place.write("file/a.txt", "x"), Err(CreateError::NotADirectory)));
            assert_eq!(place.names(), ["file", "in", "inside", "magic", "out", "root"]);
            assert_eq!(fs::read_dir(place.dir.path().join("outside")).expect("a directory").count(), 0);
        });
    }

    #[test]
    fn a_destination_is_a_directory_that_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("file"), "x").expect("a file");
        symlink(".", dir.path().join("link")).expect("a link");
        assert!(Destination::open(&dir.path().join("link"), false).is_ok());
        let error = Destination::open(&dir.path().join("none"), false).expect_err("none");
        assert!(error.to_string().contains("type: mkdir -p "), "{error}");
        assert!(matches!(Destination::open(&dir.path().join("file"), false), Err(DestinationError::Open(..))));
    }

    #[test]
    fn names_that_are_left_over_are_passed_by() {
        let mut place = Place::new(false, false);
        let left = |number| format!(".axon-unpack-{}-{number}", std::process::id());
        for number in 0..MAX_TRIES - 1 {
            fs::write(place.path(&left(number)), "left").expect("a file");
        }
        place.write("a.txt", "x").expect("a file");
        assert_eq!(fs::read(place.path("a.txt")).expect("a file"), b"x");
        // Not for ever.
        fs::write(place.path(&left(MAX_TRIES - 1)), "left").expect("a file");
        assert!(
            matches!(place.write("b.txt", "x"), Err(CreateError::Io(error)) if error.kind() == io::ErrorKind::AlreadyExists)
        );
        assert_eq!(place.names().len(), MAX_TRIES as usize + 1);
    }
}
