//! Bundles read by clients that others wrote, over HTTP and through nginx.
//!
//! The readers in `tests/clients` fetch a bundle, compare every part with the file that its Content-Location names,
//! and print what they found. `scripts/test` installs their packages; without them the tests fail and say so.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `forms` | what reads multipart/form-data without a library: Node, Chromium |
//! | `lint` | a linter's opinion of the answers |

mod forms;
mod lint;

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::harness::{Site, Stack, noise, program, stream_target, test_env};

/// A program that reads a bundle.
struct Reader {
    /// Its file in `tests/clients`.
    script: &'static str,
    /// What runs the script.
    interpreter: PathBuf,
    /// What the query says besides the files.
    format: &'static str,
}

/// What a reader made of a bundle.
struct Reading {
    success: bool,
    /// One for each part: the name, its length, whether the content was the file's.
    parts: Vec<(Vec<u8>, u64, bool)>,
}

impl Reader {
    /// Python's standard library.
    fn email() -> Self {
        Self { script: "email_reader.py", interpreter: python(), format: "" }
    }

    /// requests-toolbelt.
    fn toolbelt() -> Self {
        Self { script: "toolbelt_reader.py", interpreter: python(), format: "" }
    }

    /// The Dicer of @fastify/busboy, which takes any multipart type.
    fn dicer() -> Self {
        Self { script: "dicer_reader.mjs", interpreter: node(), format: "" }
    }

    /// The Busboy on top of it, which takes form-data only.
    fn busboy() -> Self {
        Self { script: "busboy_reader.mjs", interpreter: node(), format: "&format=form-data" }
    }

    /// `Response.formData()`, as browsers have it.
    fn fetch() -> Self {
        Self { script: "fetch_reader.mjs", interpreter: node(), format: "&format=form-data" }
    }

    /// Lets it read a bundle and compare it with the files in `root`.
    fn read(&self, url: &str, root: &Path) -> Reading {
        let (success, line) = run(&self.interpreter, self.script, &[OsStr::new(url), root.as_os_str()]);
        let parts = line["parts"].as_array().expect("parts").iter().map(|part| {
            let location = percent_decode_str(part["location"].as_str().expect("a location")).collect();
            (location, part["length"].as_u64().expect("a length"), part["same"] == true)
        });
        Reading { success, parts: parts.collect() }
    }
}

/// Runs a script of `tests/clients`: whether it was content, and its line of JSON.
#[track_caller]
fn run(interpreter: &Path, script: &str, arguments: &[impl AsRef<OsStr>]) -> (bool, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let mut command = Command::new(interpreter);
    command.arg(path).args(arguments);
    command.env("AXON_TEST_ENV", test_env()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().expect("the interpreter runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let line = serde_json::from_str(&said).unwrap_or_else(|_| {
        panic!("{script} says {said:?}, and: {}", String::from_utf8_lossy(&output.stderr));
    });
    (output.status.success(), line)
}

#[track_caller]
fn installed(name: &str) -> PathBuf {
    let path = test_env().join(name);
    assert!(path.exists(), "{} is missing: run scripts/test once, which installs it", path.display());
    path
}

fn python() -> PathBuf {
    installed("venv/bin/python")
}

fn node() -> PathBuf {
    installed("node/node_modules/@fastify/busboy");
    program("node", "nodejs")
}

/// A bundle of all that readers stumble over: empty files, binary ones, line breaks at either end, names that are
/// no text or hold line breaks, and a content that looks like the bundle's own boundary nearly to its end.
fn awkward_bundle(format: &str) -> (Stack, Vec<PathBuf>) {
    const LOOKALIKE: &str = "lookalike.bin";
    // The boundary depends on sizes and times, not on content: with both kept, it can be written into a file.
    let write = |site: &Site, content: &[u8]| {
        let path = site.write(LOOKALIKE, content);
        let file = File::options().write(true).open(path).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).expect("a time");
    };
    let site = Site::awkward();
    write(&site, &noise(1000));
    let mut names = site.names();
    names.retain(|name| name != Path::new("big.bin"));
    // An empty part in front, at the end, and two in a row.
    for index in [0, 5, 5, names.len() + 3] {
        names.insert(index, "empty.bin".into());
    }
    let stack = Stack::start(site, &["--validators", "mtime"]);
    let boundary = |stack: &Stack| {
        let answer = stack.nginx.connect().head(&(target(&names) + format));
        let (_, boundary) = answer.header("content-type").expect("a type").split_once("boundary=").expect("a boundary");
        boundary.to_owned()
    };
    let before = boundary(&stack);
    let almost = &before[..before.len() - 1];
    let mut content = format!("\r\n--{almost}\r\n\r\n{almost}\r\n--\r\n--{almost}--\r\n\r\n--{almost}").into_bytes();
    content.resize(1000, b'-');
    write(&stack.site, &content);
    assert_eq!(boundary(&stack), before, "the content does not count");
    (stack, names)
}

fn target(names: &[PathBuf]) -> String {
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_os_str().as_bytes()).collect();
    stream_target(&names)
}

/// Every part is the file, in the order of the request.
fn assert_reads_everything(reader: &Reader) {
    let (stack, names) = awkward_bundle(reader.format);
    let url = stack.nginx.url(&(target(&names) + reader.format));
    let reading = reader.read(&url, &stack.site.root());
    for (part, name) in reading.parts.iter().zip(&names) {
        let len = fs::metadata(stack.site.path(name)).expect("a file").len();
        assert_eq!(*part, (name.as_os_str().as_bytes().to_vec(), len, true), "{}", reader.script);
    }
    assert_eq!(reading.parts.len(), names.len(), "{}", reader.script);
    assert!(reading.success, "{}", reader.script);
}

/// A reader that finds everything right, whatever it is given, would prove nothing.
fn assert_notices_a_difference(reader: &Reader) {
    let stack = Stack::awkward();
    let other = Site::awkward();
    other.write("b.txt", "abcdeF");
    let url = stack.nginx.url(&(stream_target(&["a.txt", "b.txt", "s65537.bin"]) + reader.format));
    let reading = reader.read(&url, &other.root());
    assert!(!reading.success, "{}", reader.script);
    let same: Vec<bool> = reading.parts.iter().map(|(_, _, same)| *same).collect();
    assert_eq!(same, [true, false, true], "{}", reader.script);
}

#[test]
fn python_email_reads_a_bundle() {
    assert_reads_everything(&Reader::email());
    assert_notices_a_difference(&Reader::email());
}

#[test]
fn requests_toolbelt_reads_a_bundle() {
    assert_reads_everything(&Reader::toolbelt());
    assert_notices_a_difference(&Reader::toolbelt());
}

#[test]
fn fastify_dicer_reads_a_bundle() {
    assert_reads_everything(&Reader::dicer());
    assert_notices_a_difference(&Reader::dicer());
}

#[test]
fn fastify_busboy_reads_a_bundle_as_a_form() {
    assert_reads_everything(&Reader::busboy());
    assert_notices_a_difference(&Reader::busboy());
}

#[test]
fn node_reads_a_bundle_as_a_form_by_itself() {
    assert_reads_everything(&Reader::fetch());
    assert_notices_a_difference(&Reader::fetch());
}
