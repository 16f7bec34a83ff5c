//! The secret behind entity tags and boundaries, kept in a file so that they outlive a restart.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use thiserror::Error;
use tracing::{info, warn};

use crate::{message::FingerprintKey, server::read_small};

/// The fewest bytes of a secret: less could be guessed.
pub const MIN_SECRET_LEN: usize = 16;

/// Why there is no secret.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The file cannot be read, or made where it is missing.
    #[error("cannot read or make the secret file {}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The system has no randomness.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// The file is too short to be a secret.
    #[error("the secret file has {0} bytes, at least {MIN_SECRET_LEN} are needed; delete it and a new one is made")]
    TooShort(usize),
}

/// Reads the secret from a file, which is made (mode 0600) if it is missing; without a file, makes one up.
///
/// Any content of 16 bytes or more will do; white space at its end does not count, so that an editor's
/// line break does not change all tags.
pub fn load_secret(path: Option<&Path>) -> Result<FingerprintKey, SecretError> {
    let Some(path) = path else {
        return Ok(FingerprintKey::new(random()?));
    };
    if matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound) {
        create(path)?;
    }
    let failed = |error| SecretError::File { path: path.to_owned(), error };
    let secret = read_small(path).map_err(failed)?;
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o007 != 0 {
        warn!(path = %path.display(), "everybody on this machine may use the secret file; run chmod o= on it");
    }
    let secret = secret.trim_ascii_end();
    if secret.len() < MIN_SECRET_LEN {
        return Err(SecretError::TooShort(secret.len()));
    }
    Ok(FingerprintKey::from_secret(secret))
}

/// Makes the file, complete from the moment it appears under its name. If another process was faster, its
/// secret counts.
fn create(path: &Path) -> Result<(), SecretError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let written = write_secret(temporary.as_ref(), &random()?).and_then(|()| fs::hard_link(&temporary, path));
    // Gone already if it could not even be made.
    let _ = fs::remove_file(&temporary);
    match written {
        Ok(()) => info!(path = %path.display(), "made a secret file"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.exists() => {}
        Err(error) => return Err(SecretError::File { path: path.to_owned(), error }),
    }
    Ok(())
}

fn write_secret(path: &Path, secret: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    for byte in secret {
        write!(file, "{byte:02x}")?;
    }
    writeln!(file)?;
    file.sync_all()
}

fn random() -> Result<[u8; FingerprintKey::LEN], SecretError> {
    let mut bytes = [0; FingerprintKey::LEN];
    getrandom::fill(&mut bytes).map_err(SecretError::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ETag, Stamp, Timestamp};

    fn tag(key: &FingerprintKey) -> ETag {
        key.file_tag(&Stamp { size: 1, modified: Timestamp { secs: 0, nanos: 0 }, changed: None })
    }

    #[test]
    fn a_missing_file_is_made_and_then_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        let first = load_secret(Some(&path)).expect("a secret");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_eq!(tag(&first), tag(&load_secret(Some(&path)).expect("the same")));
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
        assert_ne!(tag(&first), tag(&load_secret(None).expect("another")));
        assert_ne!(tag(&load_secret(None).expect("one")), tag(&load_secret(None).expect("another")));
    }

    #[test]
    fn a_secret_has_a_least_length_and_a_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        fs::write(&path, "fifteen bytes..\n\n\n").expect("a file");
        assert!(matches!(load_secret(Some(&path)), Err(SecretError::TooShort(15))));
        fs::write(&path, "sixteen bytes...\n").expect("a file");
        let key = load_secret(Some(&path)).expect("long enough");
        fs::write(&path, "sixteen bytes...").expect("a file");
        assert_eq!(tag(&key), tag(&load_secret(Some(&path)).expect("the same")));
        assert!(matches!(load_secret(Some(&dir.path().join("no/where"))), Err(SecretError::File { .. })));
    }
}
