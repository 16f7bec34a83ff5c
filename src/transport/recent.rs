//! What of which file was in the page cache a moment ago, so that a file that everybody reads is not asked about
//! chunk by chunk for each of them.

use std::{
    cell::RefCell,
    ops::Range,
    time::{Duration, Instant},
};

use crate::body::FileId;

/// How long data that was in memory counts as being there. The kernel lets go first of what was used longest ago, so
/// what was there a tenth of a second ago is; should it not be, a worker waits for one read.
const TRUSTED_FOR: Duration = Duration::from_millis(100);

/// How many files a worker remembers; 16 KiB in all. Another file in the same slot takes its place.
const SLOTS: usize = 256;

thread_local! {
    static RECENT: RefCell<Recent> = const { RefCell::new(Recent(Vec::new())) };
}

/// The memory of one worker.
struct Recent(Vec<Option<Seen>>);

#[derive(Clone)]
struct Seen {
    file: FileId,
    /// The bytes that were found in memory, the first of them at this time.
    range: Range<u64>,
    since: Instant,
}

/// The bytes of a file around `offset` that were in memory a moment ago; an empty range if nothing is known.
pub(super) fn recall(file: FileId, offset: u64) -> Range<u64> {
    RECENT.with_borrow_mut(|recent| recent.recall(file, offset, Instant::now()))
}

/// Remembers that these bytes of a file are in memory now.
pub(super) fn note(file: FileId, range: Range<u64>) {
    RECENT.with_borrow_mut(|recent| recent.note(file, range, Instant::now()));
}

impl Recent {
    fn slot(&mut self, file: FileId) -> &mut Option<Seen> {
        if self.0.is_empty() {
            self.0.resize(SLOTS, None);
        }
        let slot = (file.inode ^ file.device) as usize % SLOTS;
        &mut self.0[slot]
    }

    fn recall(&mut self, file: FileId, offset: u64, now: Instant) -> Range<u64> {
        match self.slot(file) {
            Some(seen) if seen.is(file, now) && seen.range.contains(&offset) => seen.range.clone(),
            _ => offset..offset,
        }
    }

    fn note(&mut self, file: FileId, range: Range<u64>, now: Instant) {
        match self.slot(file) {
            // The next piece of what is known: as old as its oldest.
            Some(seen) if seen.is(file, now) && seen.range.start <= range.start && range.start <= seen.range.end => {
                seen.range.end = seen.range.end.max(range.end);
            }
            slot => *slot = Some(Seen { file, range, since: now }),
        }
    }
}

impl Seen {
    fn is(&self, file: FileId, now: Instant) -> bool {
        self.file == file && now.saturating_duration_since(self.since) < TRUSTED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { device: 1, inode: 7 };

    #[test]
    fn pieces_join_and_are_as_old_as_the_first() {
        let mut recent = Recent(Vec::new());
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(recent.recall(FILE, 0, at(0)), 0..0);
        recent.note(FILE, 0..64, at(0));
        recent.note(FILE, 64..128, at(60));
        assert_eq!(recent.recall(FILE, 0, at(99)), 0..128);
        assert_eq!(recent.recall(FILE, 127, at(99)), 0..128);
        assert_eq!(recent.recall(FILE, 128, at(99)), 128..128);
        assert_eq!(recent.recall(FILE, 0, at(100)), 0..0);
        // What is not next to it takes its place, and so does what comes too late.
        recent.note(FILE, 256..512, at(100));
        assert_eq!(recent.recall(FILE, 300, at(100)), 256..512);
        assert_eq!(recent.recall(FILE, 0, at(100)), 0..0);
        recent.note(FILE, 512..600, at(300));
        assert_eq!(recent.recall(FILE, 300, at(300)), 300..300);
        assert_eq!(recent.recall(FILE, 512, at(300)), 512..600);
    }

    #[test]
    fn files_are_not_taken_for_each_other() {
        let mut recent = Recent(Vec::new());
        let now = Instant::now();
        recent.note(FILE, 0..64, now);
        let same_slot = FileId { inode: FILE.inode + SLOTS as u64, ..FILE };
        for other in [same_slot, FileId { device: 2, ..FILE }] {
            assert_eq!(recent.recall(other, 0, now), 0..0);
        }
        recent.note(same_slot, 0..10, now);
        assert_eq!(recent.recall(same_slot, 0, now), 0..10);
        assert_eq!(recent.recall(FILE, 0, now), 0..0);
    }
}
