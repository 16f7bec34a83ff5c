//! The other side: one request in the uwsgi protocol, as nginx would make it, and a bundle unpacked.

mod destination;
mod part_name;
mod request;
mod unpack;

pub use destination::{CreateError, Destination, DestinationError};
pub use part_name::{NameError, Shown};
pub use request::{Answer, ClientError, ClientRequest, request};
pub use unpack::{PartReport, Refusal, UnpackError, UnpackOptions, unpack};
