//! Files that an operator keeps for the server: small, and read while it runs.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;

/// The longest such file in bytes. A secret has a hundred, the settings some thousands.
const MAX_LEN: u64 = 1024 * 1024;

/// `O_NONBLOCK`: opening a pipe must not wait for a writer. `O_NOCTTY`: a terminal must not become ours.
const OPEN_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// Reads a regular file. What is none, or longer than 1 MiB, is refused: it could hang for ever, or never end.
pub fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(OPEN_FLAGS.bits().cast_signed()).open(path)?;
    let refused = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    if !file.metadata()?.is_file() {
        return Err(refused("it is not a regular file".into()));
    }
    let mut content = Vec::new();
    file.take(MAX_LEN + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_LEN {
        return Err(refused(format!("it has more than {MAX_LEN} bytes")));
    }
    Ok(content)
}

/// The same of text.
pub(super) fn read_small_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_small(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, Mode};

    use super::*;

    #[test]
    fn regular_files_up_to_a_length_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("largest"), vec![b'x'; MAX_LEN as usize]).expect("a file");
        fs::write(path("larger"), vec![b'x'; MAX_LEN as usize + 1]).expect("a file");
        fs::write(path("bytes"), b"\xff").expect("a file");
        rustix::fs::mkfifoat(CWD, path("pipe"), Mode::RWXU).expect("a pipe");
        assert_eq!(read_small(&path("largest")).expect("a file").len() as u64, MAX_LEN);
        assert_eq!(read_small(&path("bytes")).expect("a file"), b"\xff");
        for (name, words) in [
            ("larger", "more than 1048576 bytes"),
            ("pipe", "not a regular file"),
            (".", "not a regular file"),
            ("/dev/zero", "not a regular file"),
            ("none", "No such file"),
        ] {
            let error = read_small(&path(name)).expect_err(name).to_string();
            assert!(error.contains(words), "{name}: {error}");
        }
        assert!(read_small_text(&path("bytes")).is_err_and(|error| error.to_string().contains("UTF-8")));
    }
}
