//! What an answer carries: a chain of bytes and file ranges whose total length is known.
//!
//! A [`Body`] never holds file content. It is planned before the first byte is sent, so its
//! [length](Body::len) is the answer's `Content-Length`, and it can be [sliced](Body::slice) to any
//! byte range without reading what comes before.

use std::{collections::VecDeque, fmt, io, ops::Range, os::fd::OwnedFd, sync::Arc};

use bytes::{Buf, Bytes};
use thiserror::Error;

/// A file that can be read while a body is sent.
///
/// Implementations remember which file they measured: opening it again must give the same file or
/// fail with [`ContentError::Changed`].
pub trait Content: fmt::Debug + Send + Sync {
    /// Gives a descriptor for positional reads.
    ///
    /// With [`Wait::Never`] the call must not wait for a disk; it fails with
    /// [`ContentError::WouldWait`] where it would have to.
    fn open(&self, wait: Wait) -> Result<Arc<OwnedFd>, ContentError>;

    /// Whether an open file still is as it was measured; asked right before its last bytes are sent.
    ///
    /// One that has grown is: it is sent to the measured length. One of the measured size that was written to since
    /// is not: what was sent of it may be of two versions.
    fn check(&self, descriptor: &OwnedFd) -> Result<(), ContentError>;

    /// Which disk it lies on.
    fn disk(&self) -> Disk {
        Disk::Root
    }

    /// The request parameter that named the file, for log records.
    fn parameter(&self) -> &[u8];

    /// The size that was measured when the body was planned, in bytes.
    fn measured_len(&self) -> u64;

    /// Which file it is, if it can be told from every other.
    fn file_id(&self) -> Option<FileId> {
        None
    }
}

/// A file, whatever its names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileId {
    /// The file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
}

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// Answer from memory or not at all: for threads that serve other connections too.
    Never,
    /// Wait as long as it takes: for threads of the blocking pool.
    ForDisk,
}

/// Which disk a file lies on, as far as that decides who has to wait for whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Disk {
    /// The file system of the root directory.
    Root,
    /// Any file system that is mounted beneath it.
    Mounted,
}

/// Why the content of a body could not be had.
#[derive(Debug, Error)]
pub enum ContentError {
    /// The file is no longer the one that was measured.
    #[error("the file changed after it was measured: {what}")]
    Changed {
        /// What differs, with the measured and the found value.
        what: String,
    },
    /// The system refused.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Only a call that may wait for the disk can tell ([`Wait::ForDisk`]).
    #[error("the file's data is not in memory")]
    WouldWait,
}

impl ContentError {
    /// The file holds fewer bytes than were measured and promised.
    pub fn shrunk(measured: u64, found: u64) -> Self {
        Self::Changed { what: format!("it had {measured} bytes, now {found}") }
    }
}

/// One link of a [`Body`].
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes in memory: heads, delimiters, small answers. Never empty.
    Bytes(Bytes),
    /// A range of a file. Never empty.
    File(FileRange),
}

impl Segment {
    /// Length in bytes; never 0.
    #[expect(clippy::len_without_is_empty, reason = "no segment is empty")]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(file) => file.len,
        }
    }

    /// The part of this segment from `start` up to `end`, counted from the segment's own start.
    fn slice(&self, start: u64, end: u64) -> Self {
        match self {
            // Within the length of a buffer in memory, so both fit in usize.
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(start as usize..end as usize)),
            Self::File(file) => Self::File(FileRange {
                content: Arc::clone(&file.content),
                offset: file.offset + start,
                len: end - start,
            }),
        }
    }
}

/// A range of a file.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The file.
    pub content: Arc<dyn Content>,
    /// Where the range starts in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A chain of segments; see the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Body {
    segments: VecDeque<Segment>,
    len: u64, // the sum of the segments' lengths, always; but see `MAX_LEN`
}

impl Body {
    /// The longest body that may be sent, in bytes: nginx and the kernel count in 64 bits with a sign.
    ///
    /// Sparse files make it easy to come by more. A sum beyond 64 bits stays at `u64::MAX`, so that it can never pass
    /// for a short one.
    pub const MAX_LEN: u64 = i64::MAX.cast_unsigned();

    /// A body of no bytes.
    pub fn empty() -> Self {
        Self::default()
    }

    /// A body with room for `segments` links.
    pub fn with_capacity(segments: usize) -> Self {
        Self { segments: VecDeque::with_capacity(segments), len: 0 }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }

    /// The segment to be sent next.
    pub fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Adds bytes at the end.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        self.push(Segment::Bytes(bytes));
    }

    /// Adds bytes at the start: the head of an answer goes out in one piece with what follows.
    pub fn push_front(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.len = self.len.saturating_add(bytes.len() as u64);
            self.segments.push_front(Segment::Bytes(bytes));
        }
    }

    /// Adds the first `len` bytes of a file at the end.
    pub fn push_file(&mut self, content: Arc<dyn Content>, len: u64) {
        self.push(Segment::File(FileRange { content, offset: 0, len }));
    }

    /// Adds all of another body at the end.
    pub fn append(&mut self, other: Self) {
        self.len = self.len.saturating_add(other.len);
        self.segments.extend(other.segments);
    }

    /// The bytes from `range.start` up to `range.end`, clamped to the body's length.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Self {
        let mut slice = Self::empty();
        let mut position = 0;
        for segment in &self.segments {
            let len = segment.len();
            let start = range.start.saturating_sub(position).min(len);
            let end = range.end.saturating_sub(position).min(len);
            if start < end {
                slice.push(segment.slice(start, end));
            }
            position = position.saturating_add(len);
            if position >= range.end {
                break;
            }
        }
        slice
    }

    /// Drops the first `count` bytes, which have been sent; clamped to the body's length.
    ///
    /// A file is let go as soon as its last byte is dropped.
    pub fn advance(&mut self, count: u64) {
        let mut left = count.min(self.len);
        self.len -= left;
        while left > 0 {
            let Some(front) = self.segments.front_mut() else { return };
            let len = front.len();
            if len <= left {
                left -= len;
                self.segments.pop_front();
                continue;
            }
            match front {
                Segment::Bytes(bytes) => bytes.advance(left as usize),
                Segment::File(file) => {
                    file.offset += left;
                    file.len -= left;
                }
            }
            return;
        }
    }

    fn push(&mut self, segment: Segment) {
        let len = segment.len();
        if len > 0 {
            self.len = self.len.saturating_add(len);
            self.segments.push_back(segment);
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        let mut body = Self::empty();
        body.push_bytes(bytes);
        body
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Content that is never read: the tests look at offsets.
    #[derive(Debug)]
    pub(crate) struct Unread;

    impl Content for Unread {
        fn open(&self, _wait: Wait) -> Result<Arc<OwnedFd>, ContentError> {
            Err(ContentError::WouldWait)
        }

        fn check(&self, _descriptor: &OwnedFd) -> Result<(), ContentError> {
            Ok(())
        }

        fn parameter(&self) -> &[u8] {
            b"file"
        }

        fn measured_len(&self) -> u64 {
            0
        }
    }

    /// A body of which every byte can be told from every other: files by their offset, bytes by their value.
    fn body(lens: &[(bool, u16)]) -> Body {
        let mut body = Body::empty();
        for &(is_file, len) in lens {
            if is_file {
                body.push_file(Arc::new(Unread), len.into());
            } else {
                body.push_bytes((0..len).map(|i| i as u8).collect::<Vec<_>>().into());
            }
        }
        body
    }

    /// What each byte of a body is: its file's address and its offset, or its value.
    fn bytes(body: &Body) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        for segment in body.segments() {
            assert!(segment.len() > 0, "no segment is empty");
            match segment {
                Segment::Bytes(bytes) => all.extend(bytes.iter().map(|&b| (0, b.into()))),
                Segment::File(file) => {
                    let address = Arc::as_ptr(&file.content).cast::<u8>() as usize;
                    all.extend((file.offset..file.offset + file.len).map(|at| (address, at)));
                }
            }
        }
        assert_eq!(all.len() as u64, body.len());
        all
    }

    #[test]
    fn a_sum_beyond_64_bits_is_no_short_one() {
        let mut body = Body::from(Bytes::from_static(b"head"));
        for _ in 0..3 {
            body.push_file(Arc::new(Unread), Body::MAX_LEN);
        }
        assert_eq!(body.len(), u64::MAX);
        body.append(body.clone());
        body.push_front(Bytes::from_static(b"more"));
        assert_eq!(body.len(), u64::MAX);
        assert_eq!(body.slice(0..6).len(), 6);
    }

    fn shape() -> impl Strategy<Value = Vec<(bool, u16)>> {
        proptest::collection::vec((any::<bool>(), 0..200_u16), 0..12)
    }

    proptest! {
        #[test]
        fn a_slice_is_the_slice_of_all_bytes(lens in shape(), start in 0..2500_u64, end in 0..2500_u64) {
            let body = body(&lens);
            let all = bytes(&body);
            let clamp = |at: u64| usize::try_from(at).unwrap().min(all.len());
            let expected = all.get(clamp(start)..clamp(end)).unwrap_or_default();
            prop_assert_eq!(bytes(&body.slice(start..end)), expected);
        }

        #[test]
        fn advancing_drops_what_was_sent(lens in shape(), steps in proptest::collection::vec(0..400_u64, 0..12)) {
            let mut body = body(&lens);
            let all = bytes(&body);
            let mut sent = 0;
            for step in steps {
                body.advance(step);
                sent = (sent + usize::try_from(step).unwrap()).min(all.len());
                prop_assert_eq!(&bytes(&body)[..], &all[sent..]);
            }
        }

        #[test]
        fn appending_joins(a in shape(), b in shape()) {
            let (mut first, second) = (body(&a), body(&b));
            let expected = [bytes(&first), bytes(&second)].concat();
            first.append(second);
            prop_assert_eq!(bytes(&first), expected);
        }
    }
}
