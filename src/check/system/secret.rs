//! The secret file, and the file of records.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use crate::{
    check::{
        Finding, Subject,
        system::{is_served, may_write},
    },
    server::{MIN_SECRET_LEN, read_small},
};

/// Looks at both.
pub(super) fn examine(subject: &Subject) -> Vec<Finding> {
    let root = subject.has_root.then_some(subject.config.root.as_path());
    let mut findings = vec![secret(subject.config.secret_file.as_deref(), root)];
    findings.extend(subject.log_file.as_deref().map(|path| log(path, root)));
    findings
}

fn secret(path: Option<&Path>, root: Option<&Path>) -> Finding {
    let Some(path) = path else {
        let message =
            "none: a random secret at every start, so that every client and cache fetches again after a restart";
        return Finding::warning("secret-file", message, "axon serve --secret-file /var/lib/axon/secret");
    };
    let shown = path.display();
    if is_served(path, root) {
        let message = format!("{shown} lies in the root, where anybody may ask for it");
        return Finding::error("secret-file", message, "axon serve --secret-file /var/lib/axon/secret");
    }
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return to_be_made("secret-file", path);
        }
        Err(error) => return unreadable(path, &error),
        Ok(found) => found,
    };
    let content = match read_small(path) {
        Err(error) => return unreadable(path, &error),
        Ok(content) => content,
    };
    let len = content.trim_ascii_end().len();
    let own = rustix::process::geteuid().as_raw();
    let mode = found.mode() & 0o777;
    if len < MIN_SECRET_LEN {
        let message = format!("{shown} has {len} bytes, at least {MIN_SECRET_LEN} are needed: Axon does not start");
        Finding::error("secret-file", message, format!("rm {shown}, and a new one is made"))
    } else if mode & 0o007 != 0 {
        let message = format!("everybody on this machine may use {shown} (mode {mode:04o})");
        Finding::warning("secret-file", message, format!("chmod o= {shown}"))
    } else if found.uid() != own && found.uid() != 0 && own != 0 {
        let message = format!("{shown} belongs to another user (uid {}), who may replace it", found.uid());
        Finding::warning("secret-file", message, format!("chown to root or to the user of Axon: {shown}"))
    } else {
        Finding::ok("secret-file", format!("{shown}: {len} bytes, mode {mode:04o}"))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Finding {
    let message = format!("{} cannot be read, and Axon does not start: {error}", path.display());
    Finding::error("secret-file", message, "make it readable by the user of Axon: mode 0640 and its group")
}

fn log(path: &Path, root: Option<&Path>) -> Finding {
    let shown = path.display();
    if is_served(path, root) {
        let message = format!("{shown} lies in the root, where anybody may ask for it");
        return Finding::error("log-file", message, "axon serve --log-file /var/log/axon/axon.log");
    }
    match fs::metadata(path) {
        Err(_) => to_be_made("log-file", path),
        Ok(found) if found.is_dir() => Finding::error(
            "log-file",
            format!("{shown} is a directory"),
            format!("axon serve --log-file {shown}/axon.log"),
        ),
        Ok(_) if !may_write(path) => {
            let message = format!("{shown} may not be written to, and Axon does not start");
            Finding::error("log-file", message, format!("chown to the user of Axon: {shown}"))
        }
        Ok(_) => Finding::ok("log-file", format!("{shown} may be written to")),
    }
}

/// A file that Axon makes when it starts, if it can.
fn to_be_made(subject: &'static str, path: &Path) -> Finding {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (shown, within) = (path.display(), directory.display());
    if !directory.is_dir() {
        let message = format!("{shown} cannot be made: there is no directory {within}");
        Finding::error(subject, message, format!("mkdir -p {within}, or StateDirectory= and LogsDirectory= of systemd"))
    } else if may_write(directory) {
        Finding::ok(subject, format!("{shown} is not there yet; Axon makes it"))
    } else {
        let message = format!("{shown} is not there, and this user may not make it in {within}");
        Finding::error(subject, message, format!("chown to the user of Axon: {within}"))
    }
}
