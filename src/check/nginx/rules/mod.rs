//! What may be wrong. Each rule says what happens, where, and what to write instead.

mod cache;
mod delivery;
mod pass;
mod request;
mod workers;

pub(super) use cache::cache;
pub(super) use delivery::delivery;
pub(super) use pass::{is_a_piece, nobody_reaches_axon, other_protocols};
pub(super) use request::request;
pub(super) use workers::workers;
