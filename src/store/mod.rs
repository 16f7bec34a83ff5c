//! Where content lives: names that cannot leave the root, and local files beneath it.

mod key;
mod local;
mod media_type;
mod tally;

pub use key::{Key, KeyError, MAX_KEY_LEN};
pub use local::{Entry, LocalFile, MAX_HELD_DESCRIPTORS, OpenError, RootError, Store, is_remote};
pub use media_type::media_type;
