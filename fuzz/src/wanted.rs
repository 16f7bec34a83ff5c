//! What must hold of every file that a request names.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use axon::{
    body::{Content as _, FileId},
    handler::{HandlerOptions, Wanted},
    store::{Key, MAX_KEY_LEN, OpenError, Store},
};
use bytes::Bytes;
use http::StatusCode;
use tokio::runtime::{Builder, Runtime};

/// What is served: files that are there anyway, in a directory whose parents have files, too.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/site");

/// A key is a relative name in its shortest form, and the right one; whatever it is, it opens nothing outside the root.
pub fn check(wanted: &Wanted, options: &HandlerOptions) {
    let expected = expected(&wanted.name, options.dotfiles);
    match &wanted.key {
        Ok(key) => {
            assert_eq!(Ok(key.as_bytes()), expected.as_deref().map_err(|&status| status));
            assert!(key.as_path().is_relative() && !key.as_bytes().contains(&0));
            assert!((1..=MAX_KEY_LEN).contains(&key.as_bytes().len()));
            assert_eq!(
                Key::parse(&key.to_bytes(), options.dotfiles).as_ref(),
                Ok(key),
                "it is not in its shortest form"
            );
            if components(key).any(|component| component == b"..") {
                opens_nothing_outside(key);
            }
        }
        Err((status, _)) => assert_eq!(Err(*status), expected),
    }
}

/// A plain second reading of a name.
fn expected(name: &[u8], dotfiles: bool) -> Result<Vec<u8>, StatusCode> {
    if name.is_empty() || name.len() > MAX_KEY_LEN || name.contains(&0) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let mut kept = Vec::new();
    for component in name.split(|&b| b == b'/') {
        match component {
            b"" | b"." => {}
            b".." => kept.push(component),
            [b'.', ..] if !dotfiles => return Err(StatusCode::NOT_FOUND),
            _ => kept.push(component),
        }
    }
    Ok(if kept.is_empty() { b".".to_vec() } else { kept.join(&b'/') })
}

fn components(key: &Key) -> impl Iterator<Item = &[u8]> {
    key.as_bytes().split(|&b| b == b'/')
}

struct Site {
    store: Store,
    runtime: Runtime,
    /// Device and inode of every file in the root.
    inside: HashSet<(u64, u64)>,
}

impl Site {
    fn open() -> Self {
        let mut inside = HashSet::new();
        collect_files(Path::new(ROOT), &mut inside);
        assert!(inside.len() >= 10, "{ROOT} is not whole");
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        Self { store: Store::open(Path::new(ROOT)).expect("the root"), runtime, inside }
    }
}

fn opens_nothing_outside(key: &Key) {
    static SITE: OnceLock<Site> = OnceLock::new();
    let Site { store, runtime, inside } = SITE.get_or_init(Site::open);
    let opened = runtime.block_on(store.open_all(std::slice::from_ref(key))).remove(0);
    match opened {
        Ok(entry) => {
            assert!(!climbs(key), "{key:?} goes above the root and is opened");
            let file = entry.into_content(Bytes::new()).file_id();
            assert!(
                file.is_some_and(|FileId { device, inode }| inside.contains(&(device, inode))),
                "{key:?} is outside"
            );
        }
        Err(OpenError::NotFound) => {}
        Err(error) => panic!("{key:?}: {error:?}"),
    }
}

/// Whether it goes above the root, be it on the way. There are no symlinks in the root.
fn climbs(key: &Key) -> bool {
    let depths = components(key).scan(0_i32, |depth, component| {
        *depth += if component == b".." { -1 } else { 1 };
        Some(*depth)
    });
    depths.min().is_some_and(|depth| depth < 0)
}

fn collect_files(directory: &Path, found: &mut HashSet<(u64, u64)>) {
    let paths: Vec<PathBuf> =
        fs::read_dir(directory).expect("a directory").map(|e| e.expect("an entry").path()).collect();
    for path in paths {
        let metadata = path.symlink_metadata().expect("metadata");
        if metadata.is_dir() {
            collect_files(&path, found);
        } else {
            found.insert((metadata.dev(), metadata.ino()));
        }
    }
}
