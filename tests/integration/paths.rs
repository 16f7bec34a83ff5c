//! Names that lead elsewhere, or nowhere, or to what is no file.

mod confinement;
mod names;

use std::{fs, process::Command};

use crate::harness::{Answer, Daemon, Packet, STREAM, Site, tests_run_as_root};

/// What no answer may contain.
pub const OUTSIDE: &str = "content from outside the root";

/// One file in every form it can be asked for: alone, in a bundle, by HEAD. `value` is as it stands in the query.
pub fn in_every_form(daemon: &Daemon, value: impl AsRef<[u8]>) -> [Answer; 4] {
    let value = value.as_ref();
    let alone = [STREAM.as_bytes(), b"?file1=", value].concat();
    let bundled = [STREAM.as_bytes(), b"?file1=a.txt&file2=", value].concat();
    [
        daemon.get(&alone),
        daemon.get(&bundled),
        daemon.send(&Packet::new("HEAD", &alone)),
        daemon.send(&Packet::new("HEAD", &bundled)),
    ]
}

/// Checks that a name is refused with the same status in every form, and that nothing about a file gets out.
#[track_caller]
pub fn assert_refused(daemon: &Daemon, site: &Site, value: impl AsRef<[u8]>, status: u16) -> [Vec<u8>; 4] {
    let value = value.as_ref();
    let shown = value.escape_ascii();
    in_every_form(daemon, value).map(|answer| {
        assert_eq!(answer.status, status, "{shown}: {}", String::from_utf8_lossy(&answer.raw));
        for field in ["etag", "last-modified", "content-disposition", "accept-ranges", "axon-parts"] {
            assert_eq!(answer.header(field), None, "{shown}");
        }
        let text = String::from_utf8_lossy(&answer.raw);
        assert!(!text.contains(OUTSIDE) && !text.contains("0123456789"), "{text}");
        assert!(!text.contains(&*site.root().to_string_lossy()), "a server path in {text}");
        answer.raw
    })
}

#[track_caller]
pub fn assert_served(daemon: &Daemon, value: impl AsRef<[u8]>, content: &[u8]) {
    let value = value.as_ref();
    let shown = value.escape_ascii();
    let [alone, bundled, head, bundled_head] = in_every_form(daemon, value);
    assert_eq!((alone.status, &alone.body[..]), (200, content), "{shown}");
    assert_eq!(bundled.parts()[1].body, content, "{shown}");
    assert_eq!((head.status, head.content_length(), head.body.len()), (200, content.len() as u64, 0), "{shown}");
    assert_eq!((bundled_head.status, bundled_head.content_length()), (200, bundled.content_length()), "{shown}");
}

/// Makes a device under the root, if the tests may: as root, where the system lets it.
pub fn make_device(site: &Site) -> bool {
    let path = site.path("device");
    let made = || Command::new("mknod").args(["-m", "666"]).arg(&path).args(["c", "1", "5"]).status(); // /dev/zero
    tests_run_as_root() && made().is_ok_and(|status| status.success()) && fs::File::open(path).is_ok()
}
