//! What the kernel can do: found out by doing it, since versions do not tell what a container or a file system lets
//! through.

use std::{
    fs::File,
    io::IoSliceMut,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::{Errno, ReadWriteFlags},
};

use crate::{
    check::{Finding, system::root},
    store,
};

/// A step out of the root that must fail.
const OUTSIDE: &str = "..";

/// Tries what Axon depends on, with the root and a file in it.
pub(super) fn examine(root: Option<&Path>) -> Vec<Finding> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Some(directory) = root.and_then(|root| rustix::fs::open(root, flags, Mode::empty()).ok()) else {
        // The line about the root says why there is nothing to try it with.
        return Vec::new();
    };
    let open = |path: &str, resolve| rustix::fs::openat2(&directory, path, flags, Mode::empty(), resolve);
    let mut findings = vec![
        confinement(&open(".", ResolveFlags::BENEATH), &open(OUTSIDE, ResolveFlags::BENEATH)),
        from_memory(&open(".", ResolveFlags::BENEATH | ResolveFlags::CACHED)),
        file_system(&directory),
    ];
    let sample = root.and_then(|root| root::walk(root).sample);
    let of = if sample.is_some() {
        "a file of the root"
    } else {
        "this program, as the root has no file that could be tried"
    };
    if let Some(file) = sample.or_else(|| File::open("/proc/self/exe").ok()) {
        findings.extend([sendfile(&file, of), nowait(&file, of)]);
    }
    findings
}

fn confinement(inside: &Result<OwnedFd, Errno>, outside: &Result<OwnedFd, Errno>) -> Finding {
    let fix = "Linux 5.6 or later; in a container, a seccomp profile that lets openat2 through";
    match (inside, outside) {
        (Ok(_), Err(Errno::XDEV)) => Finding::ok("openat2", "RESOLVE_BENEATH confines every open to the root"),
        (Err(error), _) => Finding::error(
            "openat2",
            format!("opens cannot be confined to the root, and Axon does not start: {error}"),
            fix,
        ),
        (_, outside) => {
            let said = outside.as_ref().map_or_else(ToString::to_string, |_| "it was opened".into());
            Finding::error("openat2", format!("RESOLVE_BENEATH does not keep \"..\" in the root: {said}"), fix)
        }
    }
}

fn from_memory(opened: &Result<OwnedFd, Errno>) -> Finding {
    match opened {
        // What is not in memory just now is asked for in another way.
        Ok(_) | Err(Errno::AGAIN) => {
            Finding::ok("openat2", "RESOLVE_CACHED opens from memory, without a change of thread")
        }
        Err(error) => {
            let message =
                format!("no RESOLVE_CACHED ({error}): every open changes threads, which costs some microseconds");
            Finding::warning("openat2", message, "Linux 5.12 or later")
        }
    }
}

fn file_system(directory: &OwnedFd) -> Finding {
    let number = rustix::fs::fstatfs(directory).map(|found| found.f_type);
    let name = number.ok().map_or_else(
        || "unknown".to_owned(),
        |number| {
            let known = NAMES.iter().find(|(magic, _)| *magic == number);
            known.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned())
        },
    );
    if store::is_remote(directory) {
        let message = format!(
            "the root is on {name}, whose opens ask another machine or process: each waits on a thread of its own, and no \
             worker does"
        );
        Finding::warning("file-system", message, "a copy on a local disk, or a cache in nginx: docs/caching.md")
    } else {
        Finding::ok("file-system", format!("the root is on {name}, a local one"))
    }
}

fn sendfile(file: &File, of: &str) -> Finding {
    let sent = UnixStream::pair().map_err(|error| error.to_string()).and_then(|(socket, _other)| {
        let mut offset = 0;
        rustix::fs::sendfile(&socket, file, Some(&mut offset), 1).map_err(|error| error.to_string())
    });
    match sent {
        Ok(count) if count > 0 => Finding::ok("sendfile", format!("hands {of} to a unix socket without copying it")),
        sent => {
            let said = sent.map_or_else(|error| error, |_| "nothing was sent".into());
            let message = format!(
                "cannot hand {of} to a unix socket ({said}): it is read and written instead, at twice the cost"
            );
            Finding::warning("sendfile", message, "a root on a local file system such as ext4 or xfs")
        }
    }
}

fn nowait(file: &File, of: &str) -> Finding {
    let mut byte = [0];
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT) {
        // Would have to wait: that is the answer which is wanted.
        Ok(_) | Err(Errno::AGAIN) => {
            let message = format!("preadv2 with RWF_NOWAIT tells whether {of} is in memory (cachestat is not used)");
            Finding::ok("read-nowait", message)
        }
        Err(error) => {
            let message = format!(
                "preadv2 with RWF_NOWAIT does not tell whether {of} is in memory ({error}): all content is read on threads \
                 of their own and copied (cachestat is not used)"
            );
            Finding::warning("read-nowait", message, "a root on a local file system such as ext4 or xfs")
        }
    }
}

/// File systems by their numbers in `linux/magic.h`, and how they are called.
const NAMES: [(i64, &str); 15] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x7371_7368, "squashfs"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x00c3_6400, "ceph"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0xca45_1a4e, "bcachefs"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Severity;

    fn opened() -> OwnedFd {
        File::open("/dev/null").expect("a file").into()
    }

    #[test]
    fn an_open_that_is_not_confined_is_an_error_and_a_slow_one_a_warning() {
        for (inside, outside, severity) in [
            (Ok(opened()), Err(Errno::XDEV), Severity::Ok),
            (Ok(opened()), Ok(opened()), Severity::Error),
            (Ok(opened()), Err(Errno::ACCESS), Severity::Error),
            (Err(Errno::NOSYS), Err(Errno::NOSYS), Severity::Error),
            (Err(Errno::PERM), Err(Errno::PERM), Severity::Error),
        ] {
            assert_eq!(confinement(&inside, &outside).severity, severity, "{inside:?} {outside:?}");
        }
        for (opened, severity) in
            [(Ok(opened()), Severity::Ok), (Err(Errno::AGAIN), Severity::Ok), (Err(Errno::INVAL), Severity::Warning)]
        {
            assert_eq!(from_memory(&opened).severity, severity, "{opened:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_sent_or_asked_about_is_a_warning() {
        // A device has no pages; a directory no content.
        let directory = File::open("/").expect("a directory");
        assert_eq!(sendfile(&directory, "it").severity, Severity::Warning);
        assert_eq!(nowait(&directory, "it").severity, Severity::Warning);
        let file = File::open("/proc/self/exe").expect("a file");
        assert_eq!((sendfile(&file, "it").severity, nowait(&file, "it").severity), (Severity::Ok, Severity::Ok));
    }
}
