//! A number that one thread counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread changes and every thread may read.
///
/// A change is a plain load and a plain store: an atomic addition would cost ten times as much, and every request makes a
/// dozen of them. Where two threads change it nothing breaks, but one of two changes at the same moment is lost.
#[derive(Debug, Default)]
pub struct LocalCounter(AtomicU64);

impl LocalCounter {
    /// One that starts with 0.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// How much it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds so much. Past the largest number it begins again with 0.
    pub fn add(&self, count: u64) {
        self.0.store(self.get().wrapping_add(count), Ordering::Relaxed);
    }

    /// Takes so much away that was added before.
    pub fn subtract(&self, count: u64) {
        self.0.store(self.get().wrapping_sub(count), Ordering::Relaxed);
    }
}
