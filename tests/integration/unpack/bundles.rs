//! Bundles of the daemon behind nginx, through curl and a pipe.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::SystemTime,
};

use super::{Target, Tree};
use crate::harness::{
    Daemon, STREAM, Site, Stack, axon, binary, curl_command, run_as_tests_do, run_axon, stderr, stream_target,
};

/// `curl … | axon unpack -C …`
#[track_caller]
fn curl_unpack(curl: &[impl AsRef<OsStr>], target: &Path, arguments: &[&str]) -> Output {
    let mut curl = curl_command().args(curl).stdout(Stdio::piped()).spawn().expect("curl runs");
    let mut command = Command::new(binary());
    run_as_tests_do(&mut command).args(["unpack", "-C"]).arg(target).args(arguments);
    let body = curl.stdout.take().expect("a pipe");
    let output = command.stdin(body).output().expect("it runs");
    curl.wait().expect("curl ends");
    output
}

/// The files that can be served and are not huge.
fn names(site: &Site) -> Vec<PathBuf> {
    let mut names = site.names();
    names.retain(|name| name != Path::new("big.bin"));
    assert!(names.len() > 30, "{names:?}");
    names
}

fn target_of(names: &[PathBuf]) -> String {
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_os_str().as_bytes()).collect();
    stream_target(&names)
}

/// What should be there after all these files, and the directories they are in.
fn expected(site: &Site, names: &[PathBuf]) -> Tree {
    let mut tree = Tree::new();
    for name in names {
        for directory in name.ancestors().skip(1).filter(|directory| *directory != Path::new("")) {
            tree.insert(directory.as_os_str().as_bytes().to_vec(), None);
        }
        tree.insert(name.as_os_str().as_bytes().to_vec(), Some(site.read(name)));
    }
    tree
}

#[test]
fn every_file_comes_back_with_its_name_bytes_and_time() {
    let stack = Stack::awkward();
    let names = names(&stack.site);
    for format in ["mixed", "form-data", "related"] {
        let target = Target::new();
        let url = stack.nginx.url(&format!("{}&format={format}", target_of(&names)));
        let output = curl_unpack(&["--fail", &url], &target.directory, &[]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{format}");
        assert!(output.stdout.is_empty());
        assert!(target.tree() == expected(&stack.site, &names), "{format}: {:?}", target.files());
        for name in &names {
            let served = fs::metadata(stack.site.path(name)).expect("a file");
            let found = fs::metadata(target.path(name)).expect("a file");
            let time = served.modified().expect("a time");
            // What HTTP cannot say, or should not, is not sent: then it is the time of unpacking.
            if time > SystemTime::UNIX_EPOCH && time < SystemTime::now() {
                assert_eq!(found.mtime(), served.mtime(), "{}", name.display());
            }
            assert_eq!(found.mode() & 0o7111, 0, "{}: nobody may run it", name.display());
        }
    }
}

#[test]
fn a_bundle_of_one_and_a_list_with_names() {
    let stack = Stack::awkward();
    let target = Target::new();
    let url = stack.nginx.url(&format!("{STREAM}?file=sub/c.txt&format=mixed"));
    let output = curl_unpack(&[&url], &target.directory, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(target.files(), ["sub/c.txt"]);

    let list = r#"{"files": ["a.txt", {"path": "sub/c.txt", "name": "see \"c\".txt"}]}"#;
    let url = stack.nginx.url(STREAM);
    let curl = ["-d", list, "-H", "Content-Type: application/json", &url];
    let output = curl_unpack(&curl, &target.directory, &["--flat"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(target.files(), ["a.txt", "see \\\"c\\\".txt", "sub/c.txt"]);
    assert_eq!(fs::read(target.path("see \"c\".txt")).expect("a file"), b"insub");
}

#[test]
fn a_thousand_files_in_their_directories() {
    let site = Site::empty();
    let names: Vec<PathBuf> = (0..1000).map(|i| format!("tiles/{}/{}/{i}.png", i % 7, i % 31).into()).collect();
    for (index, name) in names.iter().enumerate() {
        site.write(name, format!("content {index}"));
    }
    let daemon = Daemon::start(&site, &[]);
    let bundle = site.beside("bundle");
    let list = serde_json::json!({ "files": names });
    let address = format!("unix:{}", daemon.socket().display());
    let json = "Content-Type: application/json";
    let output = run_axon(["request", &address, STREAM, "-H", json, "-d", &list.to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    fs::write(&bundle, output.stdout).expect("a file");
    let target = Target::beside(site);
    let output = axon().args(["unpack", "-C"]).arg(&target.directory).arg(&bundle).output().expect("it runs");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(target.tree() == expected(&target.site, &names));
}

#[test]
fn what_is_missing_is_said_and_not_written() {
    let stack = Stack::awkward();
    let url = stack.nginx.url(&format!(
        "{STREAM}?file1=a.txt&file2=none.txt&file3=locked.txt&file4=n%0Aone%1B[2J&file5=b.txt&missing=part"
    ));
    for (format, arguments, code) in
        [("mixed", &[][..], 1), ("form-data", &["--allow-missing"], 0), ("related", &[], 1)]
    {
        let target = Target::new();
        let output = curl_unpack(&["--globoff", &format!("{url}&format={format}")], &target.directory, arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(
            said,
            "axon: none.txt: not in the bundle: not found (404 Not Found)\n\
             axon: locked.txt: not in the bundle: not permitted (403 Forbidden)\n\
             axon: n\\none\\u{1b}[2J: not in the bundle: not found (404 Not Found)\n"
        );
        assert_eq!(target.files(), ["a.txt", "b.txt"]);
    }
    // Without missing=part the whole request fails, and curl with it.
    let target = Target::new();
    let url = stack.nginx.url(&stream_target(&["a.txt", "none.txt"]));
    let output = curl_unpack(&["--fail", &url], &target.directory, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is nothing to unpack"), "{}", stderr(&output));
    let output = curl_unpack(&[&url], &target.directory, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("an error of the server: curl -sS --fail"), "{}", stderr(&output));
    assert!(target.tree().is_empty());
}

#[test]
fn one_file_or_a_piece_of_one_is_no_bundle() {
    let stack = Stack::awkward();
    let target = Target::new();
    // As dashes.bin begins, so does a bundle.
    for (name, word) in [("a.txt", "0123456789"), ("mixed.bin", "a\\r\\nb\\nc\\rd\\0e"), ("dashes.bin", "no bundle")] {
        let url = stack.nginx.url(&stream_target(&[name]));
        let output = curl_unpack(&[&url], &target.directory, &[]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let said = stderr(&output);
        assert!(said.contains("this is no bundle") && said.contains(word), "{name}: {said}");
        assert!(said.contains("curl -o FILE") && said.contains("format=mixed"), "{name}: {said}");
    }
    let url = stack.nginx.url(&stream_target(&["a.txt", "b.txt"]));
    let output = curl_unpack(&["-i", &url], &target.directory, &[]);
    assert!(stderr(&output).contains("leave out curl's -i"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
    // Several ranges come as multipart, too, and none of them is the file.
    let url = stack.nginx.url(&stream_target(&["s65537.bin"]));
    let output = curl_unpack(&["-r", "0-9,30000-30009", &url], &target.directory, &["--dotfiles"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert_eq!(said.matches("it is only a piece of a file").count(), 2, "{said}");
    assert!(target.tree().is_empty());
}

#[test]
fn a_download_that_was_cut_is_noticed() {
    let stack = Stack::awkward();
    let target = Target::new();
    let names = ["a.txt", "s131073.bin", "b.txt"];
    let url = stack.nginx.url(&stream_target(&names));
    let output = curl_unpack(&["-r", "0-99999", &url], &target.directory, &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("of 131073 bytes came (byte 100000), in part 2, s131073.bin"), "{said}");
    assert_eq!(target.files(), ["a.txt"]);
    // And the same once more, whole.
    let output = curl_unpack(&[&url], &target.directory, &["-f"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for name in names {
        assert!(fs::read(target.path(name)).expect("a file") == stack.site.read(name), "{name}");
    }
}
