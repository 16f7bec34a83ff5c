//! Who may connect, what is at a socket's place, and how a daemon ends.

mod place;
mod shutdown;
mod start;
