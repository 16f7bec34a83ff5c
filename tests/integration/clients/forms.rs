//! What reads multipart/form-data without a library: Node's and Chromium's `fetch()` and `Response.formData()`.
//!
//! They hand out each part as a file with the name it was asked for by (`file0`), a file name, and the content.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use serde_json::Value;

use crate::harness::{Site, Stack, program, stream_target};

use super::run;

/// A name, a file name, a length, and whether name and content were the right ones.
type Entry = (String, String, u64, bool);

/// Runs a reader.
fn read(interpreter: &Path, script: &str, url: &str, root: &Path) -> (bool, Vec<Entry>) {
    let (success, line) = run(interpreter, script, &[url.as_ref(), root.as_os_str()]);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let entry = |part: &Value| {
        let length = part["length"].as_u64().expect("a length");
        (text(&part["name"]), text(&part["filename"]), length, part["same"] == true)
    };
    (success, line["parts"].as_array().expect("parts").iter().map(entry).collect())
}

fn node(url: &str, root: &Path) -> (bool, Vec<Entry>) {
    read(&program("node", "nodejs"), "form_data_reader.mjs", url, root)
}

fn chromium(url: &str, root: &Path) -> (bool, Vec<Entry>) {
    read(&program("node", "nodejs"), "chromium_reader.mjs", url, root)
}

/// The file name in the part: what a browser would send for a file of that name.
fn sent_filename(name: &Path) -> String {
    let name = name.file_name().expect("a name").as_bytes();
    let mut filename = String::new();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => filename.push_str("%22"),
                '\r' => filename.push_str("%0D"),
                '\n' => filename.push_str("%0A"),
                control if control.is_ascii_control() => filename.push('_'),
                other => filename.push(other),
            }
        }
        filename.extend(chunk.invalid().iter().map(|_| '_'));
    }
    filename
}

/// Everything is there, in its order and right, with the file names as this reader gives them.
fn assert_reads_everything(read: impl Fn(&str, &Path) -> (bool, Vec<Entry>), filename: impl Fn(String) -> String) {
    let stack = Stack::awkward();
    let mut names = stack.site.names();
    names.retain(|name| name != Path::new("big.bin"));
    for awkward in ["q\"uo\\te.txt", "ünï-日本.txt", "empty.bin", "n\nl.txt", "s3000000.bin"] {
        assert!(names.iter().any(|name| name == Path::new(awkward)), "{awkward} is missing");
    }
    let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_os_str().as_bytes()).collect();
    let (success, entries) = read(&stack.nginx.url(&stream_target(&bytes)), &stack.site.root());
    for (number, (entry, name)) in entries.iter().zip(&names).enumerate() {
        let length = stack.site.read(name).len() as u64;
        assert_eq!(*entry, (format!("file{number}"), filename(sent_filename(name)), length, true));
    }
    assert_eq!(entries.len(), names.len());
    assert!(success);
}

/// A reader that finds everything right, whatever it is given, would prove nothing.
fn assert_notices_a_difference(read: impl Fn(&str, &Path) -> (bool, Vec<Entry>)) {
    let stack = Stack::awkward();
    let other = Site::awkward();
    other.write("b.txt", "abcdeF");
    let (success, entries) = read(&stack.nginx.url(&stream_target(&["a.txt", "b.txt"])), &other.root());
    assert!(!success);
    assert_eq!(entries.iter().map(|entry| entry.3).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn node_reads_form_data_by_itself() {
    // It undoes the three escapes.
    assert_reads_everything(node, |name| name.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"));
    assert_notices_a_difference(node);
}

#[test]
fn chromium_reads_form_data_by_itself() {
    // It leaves the escapes as they are, and takes a backslash for one.
    assert_reads_everything(chromium, |name| name.replace('\\', ""));
    assert_notices_a_difference(chromium);
}
