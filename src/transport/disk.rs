//! What has to wait for a disk: all of it runs on the blocking pool.

use std::{num::NonZeroU64, os::fd::OwnedFd, sync::Arc};

use rustix::{fs::Advice, io::Errno};

use crate::body::{Body, ContentError, FileRange, Segment, Wait};

/// How far ahead of a read that had to wait for the disk the kernel is asked to fetch, within the file and beyond it.
const READ_AHEAD_LEN: u64 = 1024 * 1024;

/// How many files are opened ahead at most. Of very small ones more would fit the length.
const READ_AHEAD_FILES: usize = 16;

/// A file that is going to be sent.
pub(super) struct NextFile {
    /// What of it.
    pub(super) range: FileRange,
    /// How much of the body lies behind it, in bytes: its place, which stays the same while the front is sent.
    pub(super) left_behind: u64,
}

/// Opens if need be and reads `count` bytes, however long the disk takes.
pub(super) fn read(
    range: &FileRange,
    open: Option<Arc<OwnedFd>>,
    count: usize,
) -> Result<(Arc<OwnedFd>, Vec<u8>), ContentError> {
    let descriptor = open.map_or_else(|| range.content.open(Wait::ForDisk), Ok)?;
    will_need(&descriptor, range);
    let mut chunk = vec![0; count];
    let mut filled = 0;
    while filled < count {
        let read = rustix::io::pread(&descriptor, &mut chunk[filled..], range.offset + filled as u64);
        match read {
            Ok(0) => return Err(ContentError::shrunk(range.content.measured_len(), size_now(&descriptor))),
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(ContentError::Io(error.into())),
        }
    }
    if count as u64 == range.len {
        range.content.check(&descriptor)?;
    }
    Ok((descriptor, chunk))
}

/// The files behind the front of a body that are worth fetching now: those whose place is before `fetched_to`, the
/// last place that was fetched, up to a length and a number.
pub(super) fn next_files(body: &Body, fetched_to: u64) -> Vec<NextFile> {
    let mut left_behind = body.len();
    let mut len = 0;
    let mut files = Vec::new();
    for (index, segment) in body.segments().enumerate() {
        left_behind -= segment.len();
        if len >= READ_AHEAD_LEN {
            break;
        }
        len += segment.len();
        match segment {
            Segment::File(range) if index > 0 && left_behind < fetched_to => {
                files.push(NextFile { range: range.clone(), left_behind });
                if files.len() == READ_AHEAD_FILES {
                    break;
                }
            }
            _ => {}
        }
    }
    files
}

/// Has the kernel fetch the start of a file. What goes wrong here goes wrong again when it is sent.
pub(super) fn fetch(range: &FileRange) {
    if let Ok(descriptor) = range.content.open(Wait::ForDisk) {
        will_need(&descriptor, range);
    }
}

/// The size of an open file now, in bytes; 0 where even that cannot be had.
pub(super) fn size_now(descriptor: &OwnedFd) -> u64 {
    rustix::fs::fstat(descriptor).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
}

/// Advice only: where it is not taken, the next chunk waits for the disk as well.
fn will_need(descriptor: &OwnedFd, range: &FileRange) {
    let ahead = NonZeroU64::new(range.len.min(READ_AHEAD_LEN));
    let _ = rustix::fs::fadvise(descriptor, range.offset, ahead, Advice::WillNeed);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::body::tests::Unread;

    fn bundle(lens: &[u64]) -> Body {
        let mut body = Body::empty();
        for &len in lens {
            body.push_bytes(Bytes::from_static(b"head"));
            body.push_file(Arc::new(Unread), len);
        }
        body
    }

    fn lens(files: &[NextFile]) -> Vec<u64> {
        files.iter().map(|file| file.range.len).collect()
    }

    #[test]
    fn files_behind_the_front_are_next_and_each_only_once() {
        let mut body = bundle(&[10, 20, 30]);
        body.advance(4);
        let files = next_files(&body, u64::MAX);
        assert_eq!(lens(&files), [20, 30]);
        let fetched_to = files[1].left_behind;
        assert_eq!(fetched_to, 0);
        body.advance(14);
        assert!(next_files(&body, fetched_to).is_empty());
    }

    #[test]
    fn a_length_and_a_number_bound_what_is_fetched() {
        let many = bundle(&[1; 100]);
        let files = next_files(&many, u64::MAX);
        assert_eq!(files.len(), READ_AHEAD_FILES);
        let more = next_files(&many, files[15].left_behind);
        assert_eq!(more[0].left_behind, files[15].left_behind - 5);
        let large = bundle(&[10, READ_AHEAD_LEN, 30]);
        assert_eq!(lens(&next_files(&large, u64::MAX)), [10, READ_AHEAD_LEN]);
    }
}
