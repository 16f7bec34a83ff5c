//! Many files as one: lengths, order, identity, names, and one that cannot be served.

mod content;
mod identity;
mod refusals;

use std::{fs, os::unix::ffi::OsStringExt as _};

use crate::harness::{Part, Site};

pub const PAIR: &str = "/api/stream-files?file1=a.txt&file2=b.txt";

pub fn bodies(parts: &[Part]) -> Vec<&str> {
    parts.iter().map(|part| std::str::from_utf8(&part.body).expect("text")).collect()
}

pub fn boundary(content_type: &str) -> &str {
    content_type.strip_prefix("multipart/mixed; boundary=").expect("a type of a bundle")
}

/// The names of all files that can be served and are not huge, in a fixed order.
pub fn ordinary_files(site: &Site) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(site.root()).expect("a directory").map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.metadata().expect("an entry").is_file());
    let mut names: Vec<_> = files.map(|entry| entry.file_name().into_vec()).collect();
    names.retain(|name| !name.starts_with(b".") && name != b"big.bin" && name != b"locked.txt");
    names.push(b"sub/c.txt".to_vec());
    names.sort();
    names
}
