//! What is said, listed and asked for.

use std::{
    fs,
    process::{Command, Stdio},
};

use super::{Target, body, part};
use crate::harness::{axon, binary, program, run_as_tests_do, run_axon, stderr};

fn three() -> String {
    let missing = "Content-Type: application/problem+json\r\nContent-Length: 22\r\nContent-Location: none.txt\r\n\
                   Axon-Status: 404\r\n\r\n{\"detail\":\"not found\"}";
    let dated = "Content-Type: text/plain\r\nContent-Location: sub/b%0A.txt\r\nLast-Modified: Tue, 14 Nov 2023 22:13:20 \
                 GMT\r\nETag: \"tag\"\r\n\r\nabc";
    body(&[&part("a.txt", "0123456789"), missing, dated])
}

#[test]
fn a_list_writes_nothing() {
    let target = Target::new();
    let output = target.unpack(three(), &["-l"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let expected = "          10  a.txt\n     missing  none.txt\n           3  sub/b\\n.txt\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    let output = target.unpack(three(), &["--list", "--verbose"]);
    let expected = "          10  -  -  -  a.txt\n     missing  none.txt\n           3  Tue, 14 Nov 2023 22:13:20 GMT  \
                    text/plain  \"tag\"  sub/b\\n.txt\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    // Names that would be refused are only looked at, and a cut is one all the same.
    let output = target.unpack(body(&[part("../x", "1"), part("y", "2")]).replace("ry--\r\n", ""), &["-l"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "           1  ../x\n");
    assert!(stderr(&output).contains("it is cut in a boundary line"), "{}", stderr(&output));
    assert!(target.tree().is_empty());
}

#[test]
fn a_list_that_nobody_reads_to_its_end_is_no_failure() {
    let target = Target::new();
    let file = target.site.beside("bundle");
    let parts: Vec<String> = (0..5000).map(|number| part(&format!("name-{number}"), "x")).collect();
    fs::write(&file, body(&parts)).expect("a file");
    let mut command = Command::new(binary());
    run_as_tests_do(&mut command).args(["unpack", "-l"]).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    // One that cannot be written is.
    let output = axon().args(["unpack", "-l"]).arg(&file).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 5000);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" unpack -l \"$1\" > /dev/full"]).arg(binary()).arg(&file);
    let output = run_as_tests_do(&mut command).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("No space left"), "{}", stderr(&output));
}

#[test]
fn what_is_written_is_said_if_asked() {
    let target = Target::new();
    let said = target.unpack_to(1, three(), &["-v"]);
    assert_eq!(
        said,
        "axon: a.txt: 10 bytes\naxon: none.txt: not in the bundle: not found (404 Not Found)\naxon: sub/b\\n.txt: 3 \
         bytes\naxon: unpacked 2 files, 13 bytes\n"
    );
    // Nobody has to hear it.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" unpack -fv -C \"$1\" 2> /dev/full"]).arg(binary()).arg(&target.directory);
    let mut command =
        assert_cmd::Command::from_std(std::mem::replace(run_as_tests_do(&mut command), Command::new("true")));
    let output = command.write_stdin(body(&[part("a.txt", "new")])).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read(target.path("a.txt")).expect("a file"), b"new");
}

#[test]
fn what_is_there_is_replaced_only_if_asked() {
    let target = Target::new();
    target.unpack_to(0, body(&[part("sub/a.txt", "old"), part("b.txt", "old")]), &[]);
    let new = body(&[part("sub/a.txt", "new"), part("c.txt", "new")]);
    let said = target.unpack_to(1, &new[..], &[]);
    assert_eq!(said, "axon: sub/a.txt: not unpacked: there is such a file already; -f replaces it\n");
    assert_eq!(target.files(), ["b.txt", "c.txt", "sub/a.txt"]);
    assert_eq!(fs::read(target.path("sub/a.txt")).expect("a file"), b"old");
    assert_eq!(target.unpack_to(0, &new[..], &["--force"]), "");
    assert_eq!(fs::read(target.path("sub/a.txt")).expect("a file"), b"new");
    assert_eq!(target.files(), ["b.txt", "c.txt", "sub/a.txt"]);
}

#[test]
fn wrong_usage_and_what_cannot_be_read() {
    let output = run_axon(["unpack", "--frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    let target = Target::new();
    let nowhere = target.path("nowhere");
    let nowhere = nowhere.to_str().expect("a path");
    let output = run_axon(["unpack", "-C", nowhere, "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), format!("axon: there is no directory {nowhere}; type: mkdir -p {nowhere}\n"));
    let output = run_axon(["unpack", "-l", nowhere]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot read") && stderr(&output).contains("No such file"), "{}", stderr(&output));
    let output = run_axon(["unpack", "-l", target.directory.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("Is a directory"), "{}", stderr(&output));
    // A file may be given instead of a pipe, or a dash for the pipe.
    let file = target.site.beside("bundle");
    fs::write(&file, body(&[part("a.txt", "1")])).expect("a file");
    target.unpack_to(0, "", &[file.to_str().expect("a path")]);
    target.unpack_to(0, body(&[part("b.txt", "1")]), &["-"]);
    assert_eq!(target.files(), ["a.txt", "b.txt"]);
}

#[test]
fn a_terminal_is_asked_for_nothing() {
    // Only a terminal looks like one.
    let script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut command = Command::new(program("python3", "python3"));
    command.args(["-c", script]).arg(binary()).arg("unpack");
    let output = command.stdin(Stdio::null()).output().expect("python runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("curl -sS --fail URL | axon unpack"), "{said} {}", stderr(&output));
    assert_eq!(output.status.code(), Some(2));
}
