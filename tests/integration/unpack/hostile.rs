//! Names that lead elsewhere, and what is in their way.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
};

use super::{Target, body, part, tree};
use crate::harness::{Daemon, Site, axon, stderr, stream_target};

/// Unpacks a part between two harmless ones, and checks that nothing but those two was written anywhere.
#[track_caller]
fn assert_refused(target: &Target, hostile: &str, arguments: &[&str], words: &str) {
    let everywhere = || tree(target.directory.parent().expect("a parent"));
    let before = everywhere();
    let said = target.unpack_to(1, body(&[&part("first", "1"), hostile, &part("last", "2")]), arguments);
    assert!(said.contains(words), "{hostile:?}: {words} in {said}");
    assert_eq!(said.lines().count(), 1, "{hostile:?}: {said}");
    for (name, content) in [("first", "1"), ("last", "2")] {
        assert_eq!(fs::read_to_string(target.path(name)).expect("it was written"), content);
        fs::remove_file(target.path(name)).expect("it was written");
    }
    assert_eq!(everywhere(), before, "{hostile:?}");
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let target = Target::new();
    for (location, words) in [
        ("../escaped", "a name with .."),
        ("..", "a name with .."),
        ("%2e%2e/escaped", "a name with .."),
        ("%2E%2E%2Fescaped", "a name with .."),
        ("sub/../../escaped", "a name with .."),
        ("sub/../inside", "a name with .."),
        ("./../escaped", "a name with .."),
        ("/tmp/escaped", "an absolute name"),
        ("%2Ftmp/escaped", "an absolute name"),
        ("//escaped", "an absolute name"),
        ("a%00b", "a NUL byte"),
        ("..%00", "a NUL byte"),
        ("", "the name is empty"),
        (".", "the name of a directory"),
        ("sub/", "the name of a directory"),
        ("sub/.", "the name of a directory"),
        (".bashrc", "--dotfiles"),
        ("sub/.git/hooks/pre-commit", "--dotfiles"),
        (&"x".repeat(256), "File name too long"),
        (&"d/".repeat(2048), "longer than 4095 bytes"),
    ] {
        assert_refused(&target, &part(location, "evil"), &[], words);
        if words != "--dotfiles" {
            assert_refused(&target, &part(location, "evil"), &["-f", "--dotfiles"], words);
        }
    }
    for (disposition, words) in [
        ("inline; filename=\"../escaped\"", "a name with .."),
        ("inline; filename=a; filename*=UTF-8''..%2Fescaped", "a name with .."),
        ("attachment; filename=/tmp/escaped", "an absolute name"),
        ("form-data; name=x; filename=\"../escaped\"", "a name with .."),
        ("form-data; name=\"x\"", "no name to save it under"),
        ("inline; filename=\"unclosed", "no name to save it under"),
        ("inline", "no name to save it under"),
    ] {
        assert_refused(&target, &format!("Content-Disposition: {disposition}\r\n\r\nevil"), &["-f"], words);
    }
    for name in ["a/b", "/etc/passwd", "../escaped"] {
        let hostile = format!("Content-Disposition: inline; filename=\"{name}\"\r\nContent-Location: ok\r\n\r\nevil");
        assert_refused(&target, &hostile, &["--flat"], "a file name with a slash");
    }
    assert_refused(&target, "\r\nevil", &[], "no name to save it under");
    assert_refused(&target, &format!("Content-Range: bytes 0-3/9\r\n{}", part("a", "evil")), &[], "only a piece");
    for encoding in ["Content-Encoding: gzip", "Content-Transfer-Encoding: base64", "content-encoding: identity, br"] {
        assert_refused(&target, &format!("{encoding}\r\n{}", part("a", "evil")), &[], "nothing is decoded here");
    }
    assert!(target.tree().is_empty());
}

#[test]
fn names_that_are_only_odd_are_written() {
    let target = Target::new();
    for name in
        ["...%20", "-rf", "~", "a%3Ab", "C%3A%5Cx", "nul", "%FF%FE", "n%0Al", "%E2%80%AEtxt.exe", "%24(id)", "*", "%25"]
    {
        target.unpack_to(0, body(&[part(name, name)]), &["--dotfiles"]);
        let decoded: Vec<u8> = percent_encoding::percent_decode_str(name).collect();
        assert_eq!(target.tree().get(&decoded), Some(&Some(name.into())), "{name}");
    }
    // What Axon would have encoded makes it a URL, and of that nothing is a name.
    let url = "Content-Location: http://host/a?b\r\nContent-Disposition: inline; filename=plain.txt\r\n\r\n1";
    target.unpack_to(0, body(&[url]), &[]);
    assert!(target.path("plain.txt").exists());
}

#[test]
fn what_is_in_the_way_stays_as_it_is() {
    let target = Target::new();
    let outside = target.site.beside("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::set_permissions(&outside, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("a mode");
    fs::write(outside.join("file"), "kept").expect("a file");
    fs::set_permissions(outside.join("file"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("a mode");
    fs::create_dir(target.path("directory")).expect("a directory");
    for (from, link) in [
        ("../outside", "out"),
        ("../outside/file", "outfile"),
        ("/", "root"),
        ("directory", "in"),
        ("none", "dangling"),
    ] {
        symlink(from, target.path(link)).expect("a link");
    }
    drop(UnixListener::bind(target.path("socket")).expect("a socket"));
    rustix::fs::mkfifoat(rustix::fs::CWD, target.path("pipe"), rustix::fs::Mode::RWXU).expect("a pipe");
    fs::write(target.path("file"), "kept").expect("a file");
    for arguments in [&[][..], &["-f"]] {
        for (location, words) in [
            ("out/file", "a symbolic link"),
            ("out/new/file", "a symbolic link"),
            ("root/tmp/escaped", "a symbolic link"),
            ("in/file", "a symbolic link"),
            ("dangling/file", "a symbolic link"),
            ("outfile", "not a regular file"),
            ("dangling", "not a regular file"),
            ("directory", "not a regular file"),
            ("socket", "not a regular file"),
            ("pipe", "not a regular file"),
            ("file/below", "one of its directories is a file"),
        ] {
            assert_refused(&target, &part(location, "evil"), arguments, words);
        }
    }
    assert_refused(&target, &part("file", "evil"), &[], "there is such a file already; -f replaces it");
    // A bundle cannot make itself a way out either: it has no links, and a name is used once.
    let way = [part("first/x", "1"), part("first", "evil")];
    let said = target.unpack_to(1, body(&way), &["-f"]);
    assert!(said.contains("first: not unpacked: what is there is not a regular file"), "{said}");
}

#[test]
fn no_device_is_written_to_or_replaced() {
    let mut command = axon();
    command.args(["unpack", "-f", "-C", "/dev"]);
    let output = command.write_stdin(body(&[part("null", "x"), part("full", "x")])).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).matches("not a regular file").count(), 2, "{}", stderr(&output));
    let kind = fs::metadata("/dev/null").expect("a device").file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&kind), "it is one still");
}

#[test]
fn a_name_counts_once() {
    let site = Site::awkward();
    let daemon = Daemon::start(&site, &[]);
    let answer = daemon.get(stream_target(&["a.txt", "b.txt", "a.txt", "./a.txt"]));
    for arguments in [&[][..], &["-f"]] {
        let target = Target::new();
        let said = target.unpack_to(1, &answer.body[..], arguments);
        assert_eq!(said.matches("an earlier part of this bundle has the same name").count(), 2, "{said}");
        assert_eq!(target.files(), ["a.txt", "b.txt"]);
    }
    let target = Target::new();
    let twice = body(&[part("a", "first"), part("./a", "second"), part("x//a", "third"), part("x/a", "fourth")]);
    target.unpack_to(1, twice, &["-f"]);
    assert_eq!(fs::read(target.path("a")).expect("a file"), b"first");
    assert_eq!(fs::read(target.path("x/a")).expect("a file"), b"third");
}

#[test]
fn a_directory_that_may_not_be_written_to_refuses_its_files_only() {
    let target = Target::new();
    target.unpack_to(0, body(&[part("locked/a", "1")]), &[]);
    let locked = target.path("locked");
    fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o555)).expect("a mode");
    let said = target.unpack_to(1, body(&[part("locked/b", "1"), part("locked/c/d", "1"), part("e", "1")]), &["-f"]);
    assert_eq!(said.matches("Permission denied").count(), 2, "{said}");
    assert_eq!(target.files(), ["e", "locked/a"]);
    fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
}
