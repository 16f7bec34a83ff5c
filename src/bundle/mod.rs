//! Many representations as one: the plan of a bundle and its multipart form.

mod disposition;
mod multipart;

pub use disposition::inline;
pub use multipart::{MAX_PART_HEAD_LEN, Part, Shape, bundle};
