//! Files that change, disks that fail or crawl, readers that stall, too many of something, a log that is stuck or gone.

mod changes;
mod disks;
mod load;
mod panics;
mod sinks;
