//! Files that change, readers that stall, too many of something, a log that is stuck or gone.

mod changes;
mod load;
mod panics;
mod sinks;
