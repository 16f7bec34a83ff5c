//! `axon unpack`: what comes out of a pipe as files, and what never does.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `bundles` | bundles of the daemon behind nginx, through curl and a pipe |
//! | `cut` | bundles that end too early, or go on behind their end |
//! | `hostile` | names that lead elsewhere, and what is in their way |
//! | `others` | bodies that others wrote, and what is no bundle |
//! | `output` | what is said, listed and asked for |

mod bundles;
mod cut;
mod hostile;
mod others;
mod output;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Output,
};

use crate::harness::{Site, axon, empty_prefix, stderr};

/// A directory to unpack into, and things beside it that must stay as they are.
pub struct Target {
    pub site: Site,
    pub directory: PathBuf,
}

/// What lies beneath a directory: the content of files, `None` for anything else.
pub type Tree = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl Target {
    pub fn new() -> Self {
        Self::beside(Site::empty())
    }

    /// A directory beside a site's root.
    pub fn beside(site: Site) -> Self {
        let directory = empty_prefix(&site, "out");
        Self { site, directory }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    /// Unpacks a body that comes from a pipe.
    #[track_caller]
    pub fn unpack(&self, body: impl Into<Vec<u8>>, arguments: &[&str]) -> Output {
        let mut command = axon();
        command.args(["unpack", "-C"]).arg(&self.directory).args(arguments);
        command.write_stdin(body).output().expect("it runs")
    }

    /// The same, and it must come to this end; gives what was said.
    #[track_caller]
    pub fn unpack_to(&self, code: i32, body: impl Into<Vec<u8>>, arguments: &[&str]) -> String {
        let output = self.unpack(body, arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(code == 0 || said.starts_with("axon: "), "{said:?}");
        assert!(!said.contains('\x1b') && !said.contains("panicked"), "{said:?}");
        said
    }

    /// Everything that was unpacked.
    pub fn tree(&self) -> Tree {
        tree(&self.directory)
    }

    /// The names of the files, in order.
    pub fn files(&self) -> Vec<String> {
        let files = self.tree().into_iter().filter(|(_, content)| content.is_some());
        files.map(|(name, _)| name.escape_ascii().to_string()).collect()
    }
}

/// A part that says nothing but its name and length.
pub fn part(location: &str, content: &str) -> String {
    format!("Content-Location: {location}\r\nContent-Length: {}\r\n\r\n{content}", content.len())
}

/// A body of these heads and contents.
pub fn body(parts: &[impl AsRef<str>]) -> String {
    let mut body = String::new();
    for part in parts {
        write!(body, "{}--b0undary\r\n{}", if body.is_empty() { "" } else { "\r\n" }, part.as_ref())
            .expect("text grows");
    }
    body + "\r\n--b0undary--\r\n"
}

/// What lies beneath a directory. Nothing is followed or opened that is no regular file.
pub fn tree(directory: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            let kind = fs::symlink_metadata(&path).expect("an entry's facts").file_type();
            let name: &OsStr = path.strip_prefix(directory).expect("beneath it").as_os_str();
            let content = kind.is_file().then(|| fs::read(&path).expect("a file"));
            tree.insert(name.as_bytes().to_vec(), content);
            if kind.is_dir() {
                left.push(path);
            }
        }
    }
    tree
}
