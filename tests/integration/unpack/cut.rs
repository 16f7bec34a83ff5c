//! Bundles that end too early, or go on behind their end.

use std::{
    fs,
    io::Write as _,
    process::{Child, ChildStdin, Command, Stdio},
};

use super::{Target, body, part};
use crate::harness::{FaultyDisk, binary, empty_prefix, noise, run_as_tests_do, stderr, wait_until};

/// What its memory may grow by while it unpacks [`LARGE_LEN`] bytes, in KiB: some buffers.
const MAX_GROWTH_KIB: u64 = 2 * 1024;

/// Many times what it may keep.
const LARGE_LEN: usize = 48 * 1024 * 1024;

fn unpacking(target: &Target) -> (Child, ChildStdin) {
    let mut command = Command::new(binary());
    run_as_tests_do(&mut command).args(["unpack", "-C"]).arg(&target.directory);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let stdin = child.stdin.take().expect("a pipe");
    (child, stdin)
}

#[test]
fn whole_parts_stay_and_nothing_of_a_cut_one_does() {
    let parts = [part("a.txt", "0123456789"), part("sub/b.txt", "\r\n--b0undary"), part("c.txt", "")];
    let whole = body(&parts);
    // Where each part's delimiter line is complete.
    let line = "\r\n--b0undary\r\n".len();
    let first = "--b0undary\r\n".len() + parts[0].len() + line;
    let second = first + parts[1].len() + line;
    let third = whole.len() - 2;
    for cut in (0..whole.len() - 2).step_by(5).chain([first - 1, first, second - 1, second, third - 1]) {
        let target = Target::new();
        let said = target.unpack_to(1, &whole[..cut], &[]);
        let ends = [(first, "a.txt"), (second, "sub/b.txt")];
        let kept: Vec<&str> = ends.iter().filter(|(end, _)| cut >= *end).map(|(_, name)| *name).collect();
        assert_eq!(target.files(), kept, "cut at {cut}: {said}");
        if cut > 0 {
            assert!(said.contains("it is cut") && said.contains(&format!("(byte {cut})")), "cut at {cut}: {said}");
        }
        for (name, content) in [("a.txt", "0123456789"), ("sub/b.txt", "\r\n--b0undary")] {
            assert!(!kept.contains(&name) || fs::read(target.path(name)).expect("a file") == content.as_bytes());
        }
    }
    for end in [third, whole.len()] {
        let target = Target::new();
        assert_eq!(target.unpack_to(0, &whole[..end], &[]), "");
        assert_eq!(target.files(), ["a.txt", "c.txt", "sub/b.txt"]);
    }
}

#[test]
fn which_part_is_cut_is_said() {
    let target = Target::new();
    let whole = body(&[part("a.txt", "0123456789"), part("sub/b%1B.txt", "0123456789")]);
    let said = target.unpack_to(1, &whole[..whole.len() - 25], &[]);
    assert_eq!(
        said,
        format!(
            "axon: unpacked 1 file, but not all:\naxon: the bundle is not whole: it is cut in a part's content, of which \
             1 of 10 bytes came (byte {}), in part 2, sub/b\\u{{1b}}.txt\n",
            whole.len() - 25
        )
    );
}

#[test]
fn what_is_broken_is_never_whole() {
    let a = part("a.txt", "0123456789");
    let whole = body(&[&a, &part("b.txt", "abcdef")]);
    for (broken, kept, words) in [
        (whole.replace("Content-Length: 6", "Content-Length: 5"), 1, "no boundary line follows the 5 bytes"),
        (whole.replace("Content-Length: 6", "Content-Length: 7"), 1, "no boundary line follows the 7 bytes"),
        (whole.replace("Content-Length: 6", "Content-Length: 99"), 1, "of 99 bytes came"),
        (
            whole.replace("Content-Length: 6", "Content-Length: -6"),
            1,
            "Content-Length in a part's head is not a number",
        ),
        (whole.replace("Content-Length: 6", "Content-Length: 6\r\nContent-Length: 6"), 1, "came twice"),
        (whole.replace("Content-Length: 10", "Content-Length: 9"), 0, "no boundary line follows the 9 bytes"),
        (whole.replace("b0undary\r\nContent-Location: b", "b0undary!\r\nContent-Location: b"), 0, "goes on behind"),
        (whole.replace("b0undary--", "boundary--"), 1, "no boundary line follows"),
        (whole.replace("b0undary--", "b0undary-"), 1, "goes on behind"),
        (whole.replace("\r\n\r\n", "\n\n"), 0, "CR LF"),
        (whole.clone() + "\r\n", 2, "more behind the end"),
        (whole.clone() + &whole, 2, "more behind the end"),
    ] {
        let target = Target::new();
        let said = target.unpack_to(1, &broken[..], &[]);
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(target.files(), ["a.txt", "b.txt"][..kept], "{words}");
    }
}

#[test]
fn a_process_that_is_killed_leaves_no_file_under_its_name() {
    let target = Target::new();
    let (mut child, mut stdin) = unpacking(&target);
    let whole = body(&[part("a.txt", "0123456789"), part("sub/b.txt", "0123456789")]);
    stdin.write_all(&whole.as_bytes()[..whole.len() - 25]).expect("room");
    wait_until("the first file", || target.path("a.txt").exists() && target.path("sub").exists());
    assert!(child.try_wait().expect("a child").is_none(), "it waits for the rest");
    // Where the file system has no files without a name, it has one that says what it is.
    let named =
        || -> Vec<String> { target.files().into_iter().filter(|name| !name.contains("/.axon-unpack-")).collect() };
    assert_eq!(named(), ["a.txt"]);
    child.kill().and_then(|()| child.wait()).expect("it ends");
    assert_eq!(named(), ["a.txt"]);
    assert_eq!(fs::read(target.path("a.txt")).expect("a file"), b"0123456789");
}

#[test]
fn a_disk_that_is_full_ends_it() {
    let target = Target::new();
    let bundle = target.site.beside("bundle");
    let large = part("large.bin", &"x".repeat(100_000));
    fs::write(&bundle, body(&[part("a.txt", "0123456789"), large, part("b.txt", "1")])).expect("a file");
    // As good as full: no file may have more than 32 KiB, and whoever tries is told instead of ended.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" unpack -C \"$1\" \"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(binary()).arg(&target.directory).arg(&bundle);
    let output = run_as_tests_do(&mut command).output().expect("it runs");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write large.bin: File too large"), "{said}");
    assert_eq!(target.files(), ["a.txt"]);
}

#[test]
fn a_disk_that_tells_late_of_what_it_lost_has_no_file_for_it() {
    let target = Target::new();
    let kept = empty_prefix(&target.site, "kept");
    let Some(_disk) = FaultyDisk::writable(&target.site, &target.directory, &kept) else { return };
    let bundle = || body(&[part("a.txt", "0123456789"), part("late/b.txt", "0123456789"), part("c.txt", "1")]);
    // A name that nobody else has cannot be had there.
    let said = target.unpack_to(1, bundle(), &[]);
    assert_eq!(said.matches("without perhaps replacing another; -f lets it").count(), 2, "{said}");
    assert_eq!(said.matches("late/b.txt: not unpacked: cannot make it: Disk quota exceeded").count(), 1, "{said}");
    assert_eq!(target.files(), Vec::<String>::new(), "and nothing is left of what was tried");
    for _ in 0..2 {
        let said = target.unpack_to(1, bundle(), &["-f"]);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("late/b.txt: not unpacked: cannot make it: Disk quota exceeded"), "{said}");
        assert_eq!(target.files(), ["a.txt", "c.txt"]);
        assert_eq!(fs::read(kept.join("a.txt")).expect("a file"), b"0123456789");
    }
}

#[test]
fn memory_stays_the_same_however_large_a_part_is() {
    let content = noise(1024 * 1024);
    for length in [format!("Content-Length: {LARGE_LEN}\r\n"), String::new()] {
        let target = Target::new();
        let (mut child, mut stdin) = unpacking(&target);
        let status = format!("/proc/{}/status", child.id());
        let peak_kib = || -> u64 {
            let status = fs::read_to_string(&status).expect("a process");
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a size");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        write!(stdin, "--b0undary\r\nContent-Location: large.bin\r\n{length}\r\n").expect("room");
        // What has been written and does not fit into the pipe has been read.
        stdin.write_all(&content).expect("room");
        let before = peak_kib();
        for _ in 1..LARGE_LEN / content.len() {
            stdin.write_all(&content).expect("room");
        }
        let after = peak_kib();
        assert!(after <= before + MAX_GROWTH_KIB, "{before} KiB have become {after} KiB");
        stdin.write_all(b"\r\n--b0undary--\r\n").expect("room");
        drop(stdin);
        assert!(child.wait().expect("it ends").success());
        let file = fs::read(target.path("large.bin")).expect("a file");
        assert!(file.len() == LARGE_LEN && file.chunks(content.len()).all(|chunk| chunk == content));
    }
}
