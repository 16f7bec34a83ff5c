//! What the connections of a worker do at this moment.

use std::sync::Arc;

use crate::transport::LocalCounter;

/// What the connections of one worker do, counted while they do it: an answer can take hours, and what is told only at
/// its end is told too late.
///
/// One for each worker, whose thread alone counts, on cache lines of its own: it is written to with every chunk, and
/// others must not wait for it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Activity {
    open: LocalCounter,
    stalled: LocalCounter,
    bytes_sent: LocalCounter,
    cold_reads: LocalCounter,
}

impl Activity {
    /// How many connections are open now.
    pub fn open(&self) -> u64 {
        self.open.get()
    }

    /// How many of them have waited for more than a second now for their reader to take something.
    pub fn stalled(&self) -> u64 {
        self.stalled.get()
    }

    /// How many bytes of bodies were handed to the kernel.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.get()
    }

    /// How many chunks were not in memory and had to be read from the disk.
    pub fn cold_reads(&self) -> u64 {
        self.cold_reads.get()
    }

    pub(super) fn add_bytes_sent(&self, count: u64) {
        self.bytes_sent.add(count);
    }

    pub(super) fn add_cold_read(&self) {
        self.cold_reads.add(1);
    }

    /// Counts a connection as stalled until the guard is dropped.
    pub(super) fn stall(&self) -> Stall<'_> {
        self.stalled.add(1);
        Stall(self)
    }
}

/// A connection that is stalled.
#[derive(Debug)]
pub(super) struct Stall<'a>(&'a Activity);

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.0.stalled.subtract(1);
    }
}

/// A connection that is open.
#[derive(Debug)]
pub(super) struct OpenConnection(Arc<Activity>);

impl OpenConnection {
    /// Counts one until it is dropped.
    pub(super) fn begin(activity: Arc<Activity>) -> Self {
        activity.open.add(1);
        Self(activity)
    }

    pub(super) fn activity(&self) -> &Activity {
        &self.0
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.subtract(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_no_longer_counted() {
        let activity = Arc::new(Activity::default());
        let first = OpenConnection::begin(Arc::clone(&activity));
        let second = OpenConnection::begin(Arc::clone(&activity));
        let stall = first.activity().stall();
        assert_eq!((activity.open(), activity.stalled()), (2, 1));
        drop(stall);
        drop(second);
        assert_eq!((activity.open(), activity.stalled()), (1, 0));
        drop(first);
        assert_eq!(activity.open(), 0);
    }
}
