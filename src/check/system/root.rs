//! The directory that is served.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::{
    check::Finding,
    store::{RootError, Store},
};

/// How many entries of the directory are looked at: enough to see what is usual, without reading a large disk.
const MAX_ENTRIES: usize = 1000;

/// Can the directory be served?
pub(super) fn examine(root: Option<&Path>) -> Vec<Finding> {
    let Some(root) = root else {
        let message = "none was given, so nothing is known of the files and of what the kernel can do with them";
        let fix = "axon check --root DIR, or the variables of the service: set -a; . /etc/axon/axon.env";
        return vec![Finding::warning("root", message, fix)];
    };
    let shown = root.display();
    match Store::open(root) {
        // The kernel's part is told by its own line.
        Ok(_) | Err(RootError::NoConfinement(_)) => {}
        Err(RootError::Open(error)) => return vec![not_opened(root, &error)],
    }
    let mut findings = vec![match denied(root) {
        Some(finding) => finding,
        None => Finding::ok("root", format!("{shown} can be entered")),
    }];
    let mode = fs::metadata(root).map_or(0, |found| found.mode());
    if rustix::process::geteuid().is_root() {
        let closed =
            enclosing(root).into_iter().find(|path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 == 0));
        let message = match closed {
            Some(path) => format!(
                "checked as root, who may read everything; of others, only the owner and the group of {} get in",
                path.display()
            ),
            None => "checked as root, who may read everything, as the service's user may not".into(),
        };
        let fix = "check as that user: runuser -u _axon -- axon check ...";
        findings.push(Finding::warning("root", message, fix));
    }
    if mode & 0o002 != 0 {
        let message = format!("everybody on this machine may put files into {shown}, which are served then");
        findings.push(Finding::warning("root", message, format!("chmod o-w {shown}")));
    }
    if root.canonicalize().is_ok_and(|path| path == Path::new("/")) {
        let message = "it is the whole machine: configurations and keys that this user may read are served";
        findings.push(Finding::error("root", message, "axon serve --root with a directory of its own"));
    }
    findings
}

fn not_opened(root: &Path, error: &io::Error) -> Finding {
    let shown = root.display();
    let fix = match error.kind() {
        io::ErrorKind::NotFound => format!("mkdir -p {shown}"),
        io::ErrorKind::NotADirectory => "axon serve --root with the directory that the file is in".into(),
        _ => "chmod o+x on it and the directories above, or run Axon with a group that may enter".into(),
    };
    Finding::error("root", format!("{shown} cannot be opened: {error}"), fix)
}

/// Files and directories that this user may not read, among the first ones.
fn denied(root: &Path) -> Option<Finding> {
    let found = walk(root);
    let first = found.denied.first()?;
    let message = format!(
        "{} can be entered, but of {} entries {} cannot be read, {} among them: 403",
        root.display(),
        found.entries,
        found.denied.len(),
        first.display()
    );
    Some(Finding::warning("root", message, "chmod -R o+rX on it, or run Axon with a group that may read"))
}

/// What a look into a directory gave.
pub(super) struct Walk {
    /// How many entries were looked at.
    entries: usize,
    denied: Vec<PathBuf>,
    /// A regular file that is not empty, open.
    pub(super) sample: Option<File>,
}

/// Looks at the first entries of a directory, those near the top first. Symbolic links are not followed.
pub(super) fn walk(root: &Path) -> Walk {
    let mut walk = Walk { entries: 0, denied: Vec::new(), sample: None };
    let mut directories = std::collections::VecDeque::from([root.to_owned()]);
    while let Some(directory) = directories.pop_front() {
        // Entering is enough to serve what is in it: then its files cannot be listed, and are not looked at.
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            if walk.entries == MAX_ENTRIES {
                return walk;
            }
            walk.entries += 1;
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                if fs::symlink_metadata(path.join(".")).is_err() {
                    walk.denied.push(path);
                } else {
                    directories.push_back(path);
                }
            } else if kind.is_ok_and(|kind| kind.is_file()) {
                // Should it have become a FIFO meanwhile, nobody waits for its other end.
                let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
                match OpenOptions::new().read(true).custom_flags(nonblocking).open(&path) {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => walk.denied.push(path),
                    Ok(file) if walk.sample.is_none() && file.metadata().is_ok_and(|found| found.len() > 0) => {
                        walk.sample = Some(file);
                    }
                    _ => {}
                }
            }
        }
    }
    walk
}

/// A directory and those above it.
fn enclosing(root: &Path) -> Vec<PathBuf> {
    let whole = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    whole.ancestors().map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_entries_are_looked_at_and_no_more() {
        let dir = tempfile::tempdir().expect("a directory");
        for number in 0..MAX_ENTRIES {
            fs::write(dir.path().join(number.to_string()), "").expect("a file");
        }
        assert_eq!(walk(dir.path()).entries, MAX_ENTRIES);
        assert!(walk(dir.path()).sample.is_none());
        fs::create_dir(dir.path().join("more")).expect("a directory");
        assert_eq!(walk(dir.path()).entries, MAX_ENTRIES);
    }

    #[test]
    fn a_sample_is_a_file_with_content_however_deep_and_no_link() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("a/b")).expect("a directory");
        std::os::unix::fs::symlink("/proc/self/exe", dir.path().join("link")).expect("a link");
        fs::write(dir.path().join("empty"), "").expect("a file");
        assert!(walk(dir.path()).sample.is_none());
        fs::write(dir.path().join("a/b/c"), "c").expect("a file");
        assert!(walk(dir.path()).sample.is_some());
        assert!(walk(&dir.path().join("none")).sample.is_none());
    }
}
