//! Many representations as one: the plan of a bundle and its multipart form, and a bundle taken apart again.

mod boundary;
mod disposition;
mod multipart;
mod parameters;
mod part_head;
mod read_error;
mod reader;

pub use boundary::{Boundary, BoundaryError, MAX_BOUNDARY_LEN};
pub use disposition::inline;
pub use multipart::{MAX_PART_HEAD_LEN, Part, Shape, bundle};
pub use part_head::{Disposition, MAX_PART_FIELDS, PartHead, PartHeadError};
pub use read_error::{Fault, Place, ReadError};
pub use reader::{Event, MAX_READ_HEAD_LEN, Reader};
