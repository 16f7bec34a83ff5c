//! A number that many threads count up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// More than a few threads that count at the same moment are rare: an open is a hundred times as long.
const SHARDS: usize = 16;

/// A sum, kept in pieces: threads that count at once do not wait for each other's cache line, unless there are more
/// than [`SHARDS`] of them.
#[derive(Debug, Default)]
pub(super) struct Tally([Shard; SHARDS]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

impl Tally {
    /// Counts one.
    pub(super) fn add_one(&self) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
        }
        self.0[OWN.with(|&own| own)].0.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn more_threads_than_pieces_lose_nothing() {
        let tally = Tally::default();
        thread::scope(|scope| {
            for _ in 0..SHARDS + 3 {
                scope.spawn(|| (0..1000).for_each(|_| tally.add_one()));
            }
        });
        assert_eq!(tally.sum(), (SHARDS as u64 + 3) * 1000);
    }
}
